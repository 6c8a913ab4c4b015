//! One turn at a time, without a bus.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{
    Agent, DirectRequest, Signal, Steering, TurnFacts, TurnOptions, TurnRequest,
};
use nanobot_session::{MessageEntry, TurnOutcome};
use nanobot_testkit::{Reply, ScriptedCall, ScriptedProvider};
use nanobot_types::{ChatMessage, DeliveryContext, Map, Origin, TurnActivity};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{CollectedSignals, World, line};

#[tokio::test]
async fn a_plain_reply_is_recorded_with_its_end() {
    let world = World::new(ScriptedProvider::scripted([Reply::text("Hello!")]));
    let report = world
        .agent()
        .process_direct(DirectRequest::new("hi"))
        .await
        .unwrap();
    assert_eq!(report.visible.as_deref(), Some("Hello!"));
    assert_eq!(report.ended, TurnOutcome::Replied);
    assert_eq!(
        world.log("cli:direct").await,
        ["user: hi", "assistant: Hello!", "end: Replied"]
    );
}

#[tokio::test]
async fn runtime_block_follows_the_message_and_is_replayed() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::text("one"),
        Reply::text("two"),
    ]));
    let agent = world.agent();
    agent
        .process_direct(DirectRequest::new("first"))
        .await
        .unwrap();
    agent
        .process_direct(DirectRequest::new("second"))
        .await
        .unwrap();
    let requests = world.provider.requests();
    let first: Vec<String> = requests[0]
        .transcript
        .messages()
        .iter()
        .map(|message| line(message))
        .collect();
    let second: Vec<String> = requests[1]
        .transcript
        .messages()
        .iter()
        .map(|message| line(message))
        .collect();
    assert!(
        first[0].starts_with("user: first\n\n[Runtime Context"),
        "{first:?}"
    );
    assert!(first[0].ends_with("[/Runtime Context]"), "{first:?}");
    assert_eq!(second[..1], first[..]);
    assert_eq!(second[1], "assistant: one");
    assert_eq!(requests[0].system, requests[1].system);
}

#[tokio::test]
async fn tools_run_and_their_steps_are_recorded_in_order() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::text("Let me see.").and_calls([ScriptedCall::new("look", &json!({"at": "sky"}))]),
        Reply::text("<think>blue?</think>It is blue."),
    ]));
    let seen = Arc::new(CollectedSignals::default());
    let request = DirectRequest::new("what colour?").with_observer(seen.clone());
    let report = world.agent().process_direct(request).await.unwrap();
    assert_eq!(report.visible.as_deref(), Some("It is blue."));
    assert_eq!(
        world.log("cli:direct").await,
        [
            "user: what colour?",
            "assistant calls look: Let me see.",
            "tool: look {\"at\":\"sky\"}",
            "assistant: It is blue.",
            "end: Replied"
        ]
    );
    let seen = seen.0.lock().unwrap().clone();
    let text: String = seen
        .iter()
        .map(|signal| match signal {
            Signal::Delta { text, .. } => text.clone(),
            Signal::Withdrawn { .. } => "[withdrawn]".to_owned(),
            Signal::StreamEnd { resuming, .. } => format!("[end resuming={resuming}]"),
            Signal::ToolHint(hint) => format!("[hint {hint}]"),
            Signal::Thought { text, stream } => {
                format!("[thought {text:?}, streamed: {}]", stream.is_some())
            }
            Signal::Activity(TurnActivity::ToolStarted { call }) => format!("[start {call}]"),
            Signal::Activity(TurnActivity::ToolFinished {
                call,
                success,
                output,
                ..
            }) => format!("[end {call} success={success}: {output}]"),
            Signal::Activity(TurnActivity::ModelAnswered { .. }) => String::new(),
            Signal::Notice(_) => "[unexpected]".to_owned(),
        })
        .collect();
    assert_eq!(
        text,
        "Let me see.[end resuming=true][thought \"Let me see.\", streamed: true][hint look(\"sky\")][start look(\"sky\")][end look(\"sky\") success=true: look {\"at\":\"sky\"}]It is blue.[end resuming=false]"
    );
}

#[tokio::test]
async fn model_failure_is_reported_but_not_recorded() {
    let world = World::new(ScriptedProvider::scripted([Reply::error(
        400,
        "no such model",
    )]));
    let report = world
        .agent()
        .process_direct(DirectRequest::new("hi"))
        .await
        .unwrap();
    assert_eq!(report.ended, TurnOutcome::Failed);
    assert!(report.visible.unwrap().contains("no such model"));
    assert_eq!(world.log("cli:direct").await, ["user: hi", "end: Failed"]);
}

#[tokio::test]
async fn empty_reply_gets_a_default_text() {
    let world = World::new(ScriptedProvider::scripted([Reply::text(
        "<think>nothing to say</think>",
    )]));
    let report = world
        .agent()
        .process_direct(DirectRequest::new("hi"))
        .await
        .unwrap();
    assert_eq!(
        report.visible.as_deref(),
        Some("Done. I have nothing to add.")
    );
    assert_eq!(world.log("cli:direct").await, ["user: hi", "end: Replied"]);
}

#[tokio::test]
async fn truncated_reply_is_marked() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::text("Once upon").with_finish("length")
    ]));
    let report = world
        .agent()
        .process_direct(DirectRequest::new("tell"))
        .await
        .unwrap();
    let visible = report.visible.unwrap();
    assert!(
        visible.starts_with("Once upon\n\n[The reply was cut"),
        "{visible}"
    );
    assert_eq!(world.log("cli:direct").await[1], "assistant: Once upon");
}

#[tokio::test]
async fn a_turn_ends_at_its_limit_and_keeps_its_steps() {
    let mut world = World::new(ScriptedProvider::answering(|request| {
        Reply::call(
            "look",
            &json!({"step": request.transcript.messages().len()}),
        )
    }));
    world.options = TurnOptions {
        max_iterations: 3,
        ..TurnOptions::default()
    };
    let report = world
        .agent()
        .process_direct(DirectRequest::new("go"))
        .await
        .unwrap();
    assert_eq!(report.ended, TurnOutcome::Limited);
    let visible = report.visible.unwrap();
    assert!(
        visible.contains("limit of 3") && visible.contains("agents.defaults.maxToolIterations"),
        "{visible}"
    );
    assert_eq!(world.runs.of("look"), 3);
}

#[tokio::test]
async fn repeated_identical_calls_end_the_turn() {
    let world = World::new(ScriptedProvider::answering(|_| {
        Reply::call("look", &json!({}))
    }));
    let report = world
        .agent()
        .process_direct(DirectRequest::new("go"))
        .await
        .unwrap();
    assert_eq!(report.ended, TurnOutcome::Limited);
    assert_eq!(world.runs.of("look"), 6);
    let log = world.log("cli:direct").await;
    assert!(
        log.iter()
            .any(|line| line.contains("call 3 with the same arguments")),
        "{log:?}"
    );
}

#[tokio::test]
async fn parallel_pure_calls_keep_their_result_order() {
    let mut world = World::new(ScriptedProvider::scripted([
        Reply::calls([
            ScriptedCall::new("look", &json!({"n": 1})),
            ScriptedCall::new("look", &json!({"n": 2})),
        ]),
        Reply::text("done"),
    ]));
    world.options = TurnOptions {
        parallel_tool_exec: true,
        ..TurnOptions::default()
    };
    world
        .agent()
        .process_direct(DirectRequest::new("go"))
        .await
        .unwrap();
    let log = world.log("cli:direct").await;
    assert_eq!(log[2..4], ["tool: look {\"n\":1}", "tool: look {\"n\":2}"]);
}

#[tokio::test]
async fn message_tool_to_the_same_chat_replaces_the_reply() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::call("message", &json!({"content": "Working on it"})),
        Reply::text("Sent."),
        Reply::call(
            "message",
            &json!({"content": "psst", "channel": "telegram", "chat_id": "7"}),
        ),
        Reply::text("I told them."),
    ]));
    let agent = world.agent();
    let here = agent
        .process_direct(DirectRequest::new("tell me"))
        .await
        .unwrap();
    assert_eq!((here.ended, here.visible), (TurnOutcome::Suppressed, None));
    let there = agent
        .process_direct(DirectRequest::new("tell them"))
        .await
        .unwrap();
    assert_eq!(there.visible.as_deref(), Some("I told them."));
    let sent: Vec<(String, String)> = world
        .outbox
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|m| (m.chat_id.to_string(), m.content.clone()))
        .collect();
    assert_eq!(
        sent,
        [
            ("direct".into(), "Working on it".into()),
            ("7".into(), "psst".into())
        ]
    );
}

/// Steering that supplies one message, after the `message` tool has answered the chat.
struct Late(u32);

#[async_trait]
impl Steering for Late {
    async fn take(&mut self) -> Vec<MessageEntry> {
        self.0 += 1;
        if self.0 == 2 {
            vec![MessageEntry::new(ChatMessage::user("and now?"))]
        } else {
            Vec::new()
        }
    }
}

async fn run_steered(agent: &Agent, steering: &mut dyn Steering) -> (TurnOutcome, Option<String>) {
    let facts = TurnFacts {
        session: "telegram:1".into(),
        channel: "telegram".into(),
        chat_id: "1".into(),
        message_id: Some("9".into()),
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    };
    let entry = MessageEntry::new(ChatMessage::user("tell me"));
    let request = TurnRequest {
        facts,
        entry,
        trace: "t".into(),
        observer: Arc::new(|_: Signal| {}),
        cancel: CancellationToken::new(),
        interrupt: CancellationToken::new(),
        steering,
    };
    let report = agent.run_turn(request).await.unwrap();
    (report.ended, report.visible)
}

#[tokio::test]
async fn steered_message_after_the_message_tool_gets_a_reply() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::call("message", &json!({"content": "Working on it"})),
        Reply::text("Here you are."),
    ]));
    let ended = run_steered(&world.agent(), &mut Late(0)).await;
    assert_eq!(
        ended,
        (TurnOutcome::Replied, Some("Here you are.".to_owned()))
    );
}

#[tokio::test]
async fn unknown_tool_and_broken_arguments_get_one_result_each() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::calls([
            ScriptedCall::new("fly", &json!({})),
            ScriptedCall::new("look", &json!([1])),
        ]),
        Reply::text("sorry"),
    ]));
    world
        .agent()
        .process_direct(DirectRequest::new("go"))
        .await
        .unwrap();
    let log = world.log("cli:direct").await;
    assert!(
        log[2].contains("look") && log[2].contains("message"),
        "lists what there is: {}",
        log[2]
    );
    assert!(log[3].starts_with("tool: Error"), "{}", log[3]);
    assert_eq!(world.runs.of("look"), 0);
    assert_eq!(log.len(), 6);
}

/// Runs a turn in which the first answer of the model has this text, with calls in text parsed or
/// not. Returns how often the tool ran, and the visible reply.
async fn with_calls_from_text(reply: Reply, parse_calls_from_text: bool) -> (u32, String) {
    let provider = ScriptedProvider::scripted([reply, Reply::text("seen")]);
    let mut world = World::new(provider);
    world.options = TurnOptions {
        parse_calls_from_text,
        ..TurnOptions::default()
    };
    let request = DirectRequest::new("go");
    let report = world.agent().process_direct(request).await.unwrap();
    (world.runs.of("look"), report.visible.unwrap_or_default())
}

#[tokio::test]
async fn calls_in_text_run_only_if_enabled() {
    let call = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let thought = format!("<think>{call}</think>No.");
    let whole = "{\"name\": \"look\", \"parameters\": {}}";
    for (text, is_on, runs, visible) in [
        (call, false, 0, call),
        (call, true, 1, "seen"),
        (whole, false, 0, whole),
        (whole, true, 1, "seen"),
        (&thought, true, 0, "No."),
    ] {
        let ran = with_calls_from_text(Reply::text(text), is_on).await;
        assert_eq!(ran, (runs, visible.to_owned()), "{text}");
    }
}

#[tokio::test]
async fn calls_in_a_truncated_text_do_not_run() {
    let call = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let (runs, visible) = with_calls_from_text(Reply::text(call).with_finish("length"), true).await;
    assert_eq!(runs, 0);
    assert!(visible.starts_with(call), "{visible}");
}

#[tokio::test]
async fn requests_of_a_turn_share_their_memo() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::call("look", &json!({})),
        Reply::text("one"),
        Reply::text("two"),
    ]));
    let agent = world.agent();
    for text in ["go", "again"] {
        let request = DirectRequest::new(text);
        agent.process_direct(request).await.unwrap();
    }
    let requests = world.provider.requests();
    requests[0].memo.put(7);
    assert_eq!(requests[2].memo.take::<i32>(), None, "of another turn");
    assert_eq!(requests[1].memo.take::<i32>(), Some(7));
}
