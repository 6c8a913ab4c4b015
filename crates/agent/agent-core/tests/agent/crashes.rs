//! Crashes between any two steps of a turn: no recorded step is lost or repeated.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentError, Signal, Steering, TurnFacts, TurnReport, TurnRequest};
use nanobot_session::{
    Entry, InMemoryStore, MessageEntry, ReadFrom, Seq, SessionError, SessionInfo, SessionStore,
    SessionView, TurnOutcome,
};
use nanobot_testkit::{Reply, ScriptedCall, ScriptedProvider};
use nanobot_types::{ChatMessage, DeliveryContext, Map, Origin, SessionKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::World;

const SESSION: &str = "telegram:1";

/// A store that dies at its k-th append, before or after it takes effect.
#[derive(Debug)]
struct PoweredStore {
    inner: Arc<InMemoryStore>,
    appends: AtomicUsize,
    dies_at: usize,
    after: bool,
}

fn dead(key: &SessionKey) -> SessionError {
    let source = std::io::Error::other("the machine is off");
    SessionError::Io {
        key: key.clone(),
        action: "append to",
        path: "nowhere".into(),
        source,
    }
}

#[async_trait]
impl SessionStore for PoweredStore {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst);
        if number >= self.dies_at {
            if self.after && number == self.dies_at {
                self.inner.append(key, head, entries).await?;
            }
            return Err(dead(key));
        }
        self.inner.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.inner.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.inner.list().await
    }
}

pub(crate) struct Nothing;

#[async_trait]
impl Steering for Nothing {
    async fn take(&mut self) -> Vec<MessageEntry> {
        Vec::new()
    }
}

async fn deliver(agent: &Agent) -> Result<TurnReport, AgentError> {
    let facts = TurnFacts {
        session: SESSION.into(),
        channel: "telegram".into(),
        chat_id: "1".into(),
        message_id: Some("9".into()),
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    };
    let entry = MessageEntry {
        inbound: Some("telegram:1:9".into()),
        runtime: Some("[block]".to_owned()),
        ..MessageEntry::new(ChatMessage::user("pay the bill"))
    };
    agent
        .run_turn(TurnRequest {
            facts,
            entry,
            trace: "telegram:1:9".into(),
            observer: Arc::new(|_: Signal| {}),
            cancel: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            steering: &mut Nothing,
        })
        .await
}

/// Returns a model that decides by the request alone, so that a run may be interrupted anywhere.
/// With `wrapped`, it calls its tools by `tool_call`.
fn model(wrapped: bool) -> ScriptedProvider {
    let call = move |name: &str, arguments: Value| match wrapped {
        true => ScriptedCall::new("tool_call", &json!({"name": name, "arguments": arguments})),
        false => ScriptedCall::new(name, &arguments),
    };
    ScriptedProvider::answering(move |request| {
        let results = request
            .transcript
            .messages()
            .iter()
            .filter(|m| matches!(***m, ChatMessage::Tool(_)))
            .count();
        match results {
            0 => Reply::calls([call("look", json!({})), call("send_money", json!({}))]),
            2 => Reply::calls([
                call("put", json!({})),
                call("message", json!({"content": "paid", "chat_id": "2"})),
            ]),
            _ => Reply::text("Paid."),
        }
    })
}

fn check_pairing(world: &World) {
    for request in world.provider.requests() {
        let mut open = HashSet::new();
        for message in request.transcript.messages() {
            match &**message {
                ChatMessage::Assistant(assistant) => {
                    assert!(open.is_empty(), "a call without a result");
                    open.extend(assistant.tool_calls.iter().map(|call| call.id.clone()));
                }
                ChatMessage::Tool(result) => {
                    assert!(open.remove(&result.tool_call_id), "a result without a call");
                }
                _ => assert!(open.is_empty(), "a call without a result"),
            }
        }
        assert!(open.is_empty(), "a call without a result at the end");
    }
}

#[tokio::test]
async fn crash_at_any_step_neither_loses_nor_repeats_steps() {
    crash_at_any_step(false).await;
}

#[tokio::test]
async fn crash_at_any_step_is_the_same_for_wrapped_calls() {
    crash_at_any_step(true).await;
}

async fn crash_at_any_step(wrapped: bool) {
    let calls = match wrapped {
        true => "calls tool_call tool_call",
        false => "calls look send_money",
    };
    for after in [false, true] {
        for dies_at in 0..12 {
            let mut world = World::new(model(wrapped));
            let inner = Arc::new(InMemoryStore::new());
            world.sessions = Arc::new(PoweredStore {
                inner: inner.clone(),
                appends: AtomicUsize::new(0),
                dies_at,
                after,
            });
            let first = deliver(&world.agent()).await;
            let before = world.log(SESSION).await;
            world.sessions = inner;
            let report = deliver(&world.agent()).await.unwrap();
            let place = format!("append {dies_at}, after: {after}, before: {before:?}");
            assert_eq!(report.ended, TurnOutcome::Replied, "{place}");
            assert_eq!(report.visible.as_deref(), Some("Paid."), "{place}");
            let log = world.log(SESSION).await;
            assert_eq!(
                log[..before.len()],
                before[..],
                "what was recorded is a prefix of what follows; {place}"
            );
            assert_eq!(
                log.iter().filter(|line| line.starts_with("end:")).count(),
                1,
                "{place}"
            );
            assert_eq!(
                log.iter().filter(|line| line.starts_with("user:")).count(),
                1,
                "{place}"
            );
            let unknown = log
                .iter()
                .any(|line| line.contains("outcome unknown after restart"));
            let recorded = before
                .iter()
                .any(|line| line.starts_with("tool: send_money"));
            let asked = before.iter().any(|line| line.contains(calls));
            assert_eq!(unknown, asked && !recorded && first.is_err(), "{place}");
            let ran = world.runs.of("send_money");
            assert!(
                ran == 1 || (unknown && ran == 0),
                "ran {ran} times; {place}"
            );
            assert_eq!(
                world.outbox.0.lock().unwrap().len(),
                1,
                "one message under one key; {place}"
            );
            check_pairing(&world);
            assert_eq!(
                deliver(&world.agent()).await.unwrap().visible.as_deref(),
                Some("Paid."),
                "again: {place}"
            );
            assert_eq!(
                world.log(SESSION).await,
                log,
                "a finished turn is only reported; {place}"
            );
            world.assert_replays(SESSION).await;
        }
    }
}

#[tokio::test]
async fn interrupted_turn_stays_open() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let agent = world.agent();
    let interrupt = CancellationToken::new();
    let facts = TurnFacts {
        session: SESSION.into(),
        channel: "telegram".into(),
        chat_id: "1".into(),
        message_id: None,
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    };
    let mut nothing = Nothing;
    let entry = MessageEntry {
        inbound: Some("telegram:1:9".into()),
        ..MessageEntry::new(ChatMessage::user("hi"))
    };
    let turn = agent.run_turn(TurnRequest {
        facts,
        entry,
        trace: "t".into(),
        observer: Arc::new(|_: Signal| {}),
        cancel: interrupt.child_token(),
        interrupt: interrupt.clone(),
        steering: &mut nothing,
    });
    let stop = async {
        world.provider.wait_for(1).await.unwrap();
        interrupt.cancel();
    };
    let (outcome, ()) = tokio::join!(turn, stop);
    assert!(matches!(outcome, Err(AgentError::Interrupted)));
    assert_eq!(world.log(SESSION).await, ["user: hi"]);
}
