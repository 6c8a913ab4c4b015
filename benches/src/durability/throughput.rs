//! Turns per second, by the number of sessions and their durability.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nanobot_bus::{Accepted, Bus as _, Delivery, SettleOutcome, Subscription};
use nanobot_session::Durability;
use nanobot_state::SqliteBus;
use nanobot_types::{InboundMessage, OutboundMessage};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use tokio::sync::watch;

use super::assembly::{Assembly, AssemblyShape};
use super::syncs;

/// Durable writes of a turn: the message accepted, the message in its session, the reply in its
/// session, the reply in the ledger, the message settled, the reply settled.
const STEPS: f64 = 6.0;
/// Turns of a session before it is replaced by a new one. Conversations have a realistic length, so
/// that the length of the history is not what is measured.
const CONVERSATION: u32 = 20;
const CHANNEL: &str = "bench";

/// Values of one row of the table.
struct Cell {
    turns_per_second: f64,
    /// Average number of busy processors.
    processors: f64,
}

pub(super) async fn table(folder: &Path, seconds: u64, sessions: &[usize]) -> Result<String> {
    let time = Duration::from_secs(seconds);
    let mut table = String::from(
        "| sessions | durability | turns/s | serial fdatasyncs/s | turns/s these allow (6 steps each) | ratio | processors busy |\n|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for durability in [Durability::Disk, Durability::Os] {
        for sessions in sessions {
            let syncs = syncs::per_second(folder, Duration::from_secs(1))?;
            let cell = measure(folder, durability, *sessions, time).await?;
            let allowed = syncs / STEPS;
            let word = match durability {
                Durability::Disk => "disk",
                Durability::Os => "os",
            };
            writeln!(
                table,
                "| {sessions} | {word} | {:.0} | {syncs:.0} | {allowed:.0} | {:.2} | {:.2} |",
                cell.turns_per_second,
                cell.turns_per_second / allowed,
                cell.processors,
            )?;
        }
    }
    let available = std::thread::available_parallelism()?;
    writeln!(
        table,
        "\n{seconds} s a row; {available} processors; conversations of {CONVERSATION} turns."
    )?;
    Ok(table)
}

async fn measure(
    folder: &Path,
    durability: Durability,
    sessions: usize,
    time: Duration,
) -> Result<Cell> {
    let shape = AssemblyShape {
        durability,
        sessions,
        turns: 0,
        model: Duration::ZERO,
    };
    let assembly = Assembly::start(folder, shape).await?;
    let people = People {
        bus: assembly.bus.clone(),
        answers: watch::Sender::new(0),
    };
    let replies = assembly.bus.outbound(&CHANNEL.into()).await?;
    let mut answers = people.answers.subscribe();
    let talking = tokio::select! {
        ended = people.run_conversations(sessions, replies) => Err(ended.err().context("the replies ended")?),
        // The first turns create files and are not measured.
        cell = async {
            answers.wait_for(|count| *count >= sessions as u64).await?;
            let (before, begun, worked) = (*answers.borrow(), Instant::now(), processor_time()?);
            tokio::time::sleep(time).await;
            let (turns, elapsed) = (*answers.borrow() - before, begun.elapsed());
            let worked = processor_time()?.saturating_sub(worked);
            let turns_per_second = f64::from(u32::try_from(turns)?) / elapsed.as_secs_f64();
            Ok(Cell { turns_per_second, processors: worked.as_secs_f64() / elapsed.as_secs_f64() })
        } => cell,
    };
    assembly.stop().await?;
    talking
}

/// Returns the CPU time of all threads of this process.
fn processor_time() -> Result<Duration> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = (used.user_time() + used.system_time()).num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// The users of all sessions. Each sends its next message when the last one was answered.
struct People {
    bus: SqliteBus,
    answers: watch::Sender<u64>,
}

impl People {
    async fn run_conversations(
        &self,
        sessions: usize,
        mut replies: Subscription<OutboundMessage>,
    ) -> Result<()> {
        let mut asking: FuturesUnordered<_> = (0..sessions)
            .map(|session| self.ask(None, session, 0))
            .collect();
        loop {
            tokio::select! {
                Some(asked) = asking.next() => asked?,
                reply = replies.next() => {
                    let reply = reply.context("the ledger was closed")?;
                    if reply.is_durable() {
                        self.answers.send_modify(|count| *count += 1);
                        let (session, turn) = turn_of(&reply.message)?;
                        asking.push(self.ask(Some(reply), session, turn + 1));
                    }
                }
            }
        }
    }

    /// Settles the last reply, then sends a message.
    async fn ask(
        &self,
        reply: Option<Delivery<OutboundMessage>>,
        session: usize,
        turn: u32,
    ) -> Result<()> {
        if let Some(reply) = reply {
            reply.settle(SettleOutcome::Ack).await?;
        }
        let chat = format!("{session}-{}", turn / CONVERSATION);
        let mut message = InboundMessage::text(
            CHANNEL,
            "person",
            chat,
            "What shall we have for dinner tonight?",
        );
        message.id = Some(format!("{session}/{turn}").into());
        let accepted = self.bus.publish_inbound(message).await?;
        ensure!(
            accepted == Accepted::New,
            "turn {turn} of session {session} is a duplicate"
        );
        Ok(())
    }
}

/// Returns the session and the turn that a reply belongs to. Its journal id ends with the id of the
/// message.
fn turn_of(reply: &OutboundMessage) -> Result<(usize, u32)> {
    let mut parts = reply.key.turn.as_str().rsplit('/');
    let (turn, session) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let parsed = session.parse().ok().zip(turn.parse().ok());
    parsed.with_context(|| format!("no turn of this bench: {}", reply.key))
}
