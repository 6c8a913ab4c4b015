//! After a kill at any instant, the ledger has everything that it confirmed.
//!
//! The test starts this binary as the process to be killed. That process prints a line for each
//! confirmation; the test kills it after some lines, and checks that the ledger has them all.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures_util::future::join_all;
use nanobot_bus::{Bus as _, EntryState, Ledger as _, LedgerFilter, Queue, SettleOutcome};
use nanobot_state::SqliteBus;

use crate::{inbound_message, next, open, reply};

const KILLS: u32 = 20;
const FILE: &str = "NANOBOT_KILL_TEST_FILE";
const ROUND: &str = "NANOBOT_KILL_TEST_ROUND";

#[tokio::test]
async fn accepted_messages_survive_every_kill() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let mut accepted = BTreeSet::new();
    // A fixed seed. The scheduler still varies where the process is killed.
    let mut random: u32 = 0x9e37_79b9;
    for round in 0..KILLS {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        accepted.extend(accepted_until_killed(&path, round, 5 + (random >> 24)));
        let bus = open(&path).await;
        let stored = recorded(&bus).await;
        let lost: Vec<_> = accepted.difference(&stored).collect();
        assert!(lost.is_empty(), "after kill {round}: {lost:?}");
        bus.close().await;
    }
    assert!(
        accepted.len() > 500,
        "only {} promises were given",
        accepted.len()
    );
}

/// Runs the process until it has printed `lines` lines, kills it, and returns everything it
/// printed.
fn accepted_until_killed(path: &Path, round: u32, lines: u32) -> Vec<String> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FILE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let is_promise = |line: &String| line.starts_with("published ") || line.starts_with("settled ");
    let mut promises: Vec<_> = output
        .by_ref()
        .filter(is_promise)
        .take(lines as usize)
        .collect();
    process.kill().unwrap();
    promises.extend(output.filter(is_promise));
    process.wait().unwrap();
    promises
}

/// Returns the contents of the ledger, in the format of the printed lines.
async fn recorded(bus: &SqliteBus) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for queue in [Queue::Inbound, Queue::Outbound] {
        for entry in bus
            .list(queue, LedgerFilter::All, usize::MAX)
            .await
            .unwrap()
        {
            let name = entry
                .inbound
                .map(|message| message.content)
                .or(entry.outbound.map(|m| m.key.to_string()));
            let name = name.unwrap();
            if matches!(entry.state, EntryState::Answered | EntryState::Sent) {
                lines.insert(format!("settled {queue} {name}"));
            }
            lines.insert(format!("published {queue} {name}"));
        }
    }
    lines
}

#[tokio::test]
#[ignore = "started by the test above, as the process to be killed"]
async fn child_that_is_killed() {
    let (Some(path), Ok(round)) = (std::env::var_os(FILE), std::env::var(ROUND)) else {
        return;
    };
    let bus = open(Path::new(&path)).await;
    let (bus, round) = (&bus, &round);
    let publishers = join_all((0..4).map(|worker| async move {
        for n in 0_u32.. {
            let id = format!("{round}-{worker}-{n}");
            bus.publish_inbound(inbound_message(&id)).await.unwrap();
            print_line(&format!("published inbound {id}"));
            bus.publish_outbound(reply(&id, 0)).await.unwrap();
            print_line(&format!("published outbound {id}/0"));
        }
    }));
    let answering = async {
        let mut subscription = bus.inbound().await.unwrap();
        loop {
            let delivery = next(&mut subscription).await;
            let id = delivery.message.content.clone();
            delivery.ack().await.unwrap();
            print_line(&format!("settled inbound {id}"));
        }
    };
    let sending = async {
        let mut subscription = bus.outbound(&"telegram".into()).await.unwrap();
        loop {
            let delivery = next(&mut subscription).await;
            let key = delivery.message.key.clone();
            delivery.settle(SettleOutcome::Begin).await.unwrap();
            delivery.ack().await.unwrap();
            print_line(&format!("settled outbound {key}"));
        }
    };
    futures_util::join!(publishers, answering, sending);
}

fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    // The test may have stopped reading: it is about to kill this process.
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .ok();
}
