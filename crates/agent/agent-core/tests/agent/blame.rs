//! After a crash, the turn whose step was under way is blamed, not the turns that ran at the same
//! time.
//!
//! The tests start this test binary as the process that dies: it runs a loop over a ledger, a
//! session store and step notes on disk, and one of its tools aborts.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentLoop, LoopSettings, StepLog};
use nanobot_bus::{Bus, EntryState, Ledger as _, LedgerEntry, LedgerFilter, Queue};
use nanobot_context::Purpose;
use nanobot_session::{JsonlStore, SessionPaths};
use nanobot_state::{SqliteBus, StateDb};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_tool::{Tool, ToolContext};
use nanobot_types::{ChatMessage, Effect, InboundMessage, ToolResult, ToolSource, ToolSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::World;

const HOME: &str = "NANOBOT_BLAME_TEST_HOME";
const ATTEMPTS: u32 = 3;

/// A tool that aborts the process once another turn waits for its model.
#[derive(Debug)]
struct Abort(ToolSpec, PathBuf);

impl Abort {
    fn new(home: &Path) -> Self {
        let spec = ToolSpec {
            name: "abort".into(),
            description: "Aborts.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            effect: Effect::Pure,
            source: ToolSource::BuiltIn,
        };
        Self(spec, home.join("asked"))
    }
}

#[async_trait]
impl Tool for Abort {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, _: Value, _: &ToolContext) -> ToolResult {
        while !self.1.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        std::process::abort()
    }
}

/// Answers "poison" with a call of the aborting tool. The first answer to "hello" hangs in the
/// first life and is given in the second.
fn model(home: &Path) -> ScriptedProvider {
    let asked = home.join("asked");
    let is_first_life = !asked.exists();
    ScriptedProvider::answering(move |request| {
        let said = request
            .transcript
            .messages()
            .iter()
            .rev()
            .find(|message| matches!(***message, ChatMessage::User(_)));
        if said.is_some_and(|message| message.text().contains("poison")) {
            return Reply::call("abort", &json!({}));
        }
        if is_first_life {
            std::fs::write(&asked, "").unwrap();
            return Reply::hang();
        }
        Reply::text("fine")
    })
}

async fn open(home: &Path) -> SqliteBus {
    SqliteBus::open(StateDb::open(home.join("state.db")).await.unwrap())
        .await
        .unwrap()
}

/// One life of the process.
#[tokio::test]
#[ignore = "started by other tests, to die"]
async fn crashing_process() {
    let Some(home) = std::env::var_os(HOME).map(PathBuf::from) else {
        return;
    };
    let mut world = World::new(model(&home));
    world.sessions = Arc::new(JsonlStore::new(SessionPaths::only(home.join("sessions"))));
    let registry = world.registry();
    registry.register(Arc::new(Abort::new(&home))).unwrap();
    let agent = Arc::new(Agent::new(
        world.parts(registry, Purpose::Assistant),
        world.settings(),
    ));
    let bus = Arc::new(open(&home).await);
    let settings = LoopSettings {
        max_attempts: ATTEMPTS,
        ..LoopSettings::default()
    };
    let shared: Arc<dyn Bus> = bus.clone();
    let agent_loop = AgentLoop::new(agent, shared, bus.clone(), settings)
        .with_evidence(StepLog::open(home.join("steps.jsonl")));
    let cancel = CancellationToken::new();
    let all_settled = async {
        while !bus
            .list(Queue::Inbound, LedgerFilter::Open, 9)
            .await
            .unwrap()
            .is_empty()
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(agent_loop.run(cancel.clone()), all_settled);
    ended.unwrap();
    bus.close().await;
}

fn live(home: &Path) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "blame::crashing_process", "--ignored"])
        .env(HOME, home)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
}

/// Returns the entry of each message, oldest first.
async fn entries(home: &Path) -> Vec<LedgerEntry> {
    let bus = open(home).await;
    let mut entries = bus
        .list(Queue::Inbound, LedgerFilter::All, 9)
        .await
        .unwrap();
    entries.reverse();
    bus.close().await;
    entries
}

async fn publish(home: &Path, chats: &[(&str, &str)]) {
    let bus = open(home).await;
    for (chat, text) in chats {
        let message = InboundMessage {
            id: Some("1".into()),
            ..InboundMessage::text("telegram", "u", *chat, *text)
        };
        bus.publish_inbound(message).await.unwrap();
    }
    bus.close().await;
}

#[tokio::test]
async fn gives_up_the_crashing_turn_but_not_concurrent_ones() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    publish(home, &[("guilty", "poison"), ("innocent", "hello")]).await;
    assert!(!live(home).success(), "the tool aborts");
    let after_one: Vec<_> = entries(home)
        .await
        .iter()
        .map(|entry| (entry.state, entry.attempts))
        .collect();
    assert_eq!(
        after_one,
        [(EntryState::Pending, 0), (EntryState::Pending, 0)],
        "counted at the next start"
    );

    let mut crashes = 1;
    while !live(home).success() {
        crashes += 1;
        let innocent = entries(home).await.remove(1);
        assert!(
            innocent.attempts <= 1,
            "after {crashes} crashes: {innocent:?}"
        );
        assert!(crashes < 9, "the message is never given up");
    }
    // The recorded tool call allows one more attempt.
    assert_eq!(crashes, ATTEMPTS + 1);
    let ends: Vec<_> = entries(home)
        .await
        .iter()
        .map(|entry| (entry.state, entry.attempts))
        .collect();
    assert_eq!(
        ends,
        [
            (EntryState::Failed, ATTEMPTS + 1),
            (EntryState::Answered, 1)
        ]
    );

    let bus = open(home).await;
    let mut notices: Vec<_> = bus
        .list(Queue::Outbound, LedgerFilter::Open, 9)
        .await
        .unwrap();
    notices.reverse();
    let notices: Vec<_> = notices
        .into_iter()
        .filter_map(|entry| entry.outbound)
        .map(|out| (out.chat_id.to_string(), out.content))
        .collect();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert_eq!(notices[0], ("innocent".to_owned(), "fine".to_owned()));
    assert_eq!(notices[1].0, "guilty");
    assert!(notices[1].1.starts_with("I tried 3 times"), "{notices:?}");
    assert_eq!(
        std::fs::read_to_string(home.join("steps.jsonl")).unwrap(),
        "",
        "an orderly end leaves no notes"
    );
}

#[tokio::test]
async fn suspects_run_one_at_a_time_until_one_is_blamed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // No turn waits for a model here.
    std::fs::write(home.join("asked"), "").unwrap();
    let steps = "{\"turn\":\"telegram/a/1\",\"step\":\"tools\"}\n{\"turn\":\"telegram/b/1\",\"step\":\"opening\"}\n";
    std::fs::write(home.join("steps.jsonl"), steps).unwrap();
    publish(home, &[("a", "hello"), ("b", "poison"), ("c", "hello")]).await;
    let mut crashes = 0;
    while !live(home).success() {
        crashes += 1;
        assert!(crashes < 9, "the message is never given up");
    }
    let ends: Vec<_> = entries(home)
        .await
        .iter()
        .map(|entry| (entry.state, entry.attempts))
        .collect();
    assert_eq!(
        ends,
        [
            (EntryState::Answered, 1),
            (EntryState::Failed, ATTEMPTS + 1),
            (EntryState::Answered, 1)
        ],
        "after {crashes} crashes"
    );
}
