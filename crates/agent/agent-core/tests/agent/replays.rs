//! Replays of recorded sessions: the same code takes the same steps.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_agent_core::{DirectRequest, TurnOptions};
use nanobot_replay::{
    Bundle, BundleError, Difference, Redactor, ReplayOptions, TurnChoice, TurnReplay,
    replay_session,
};
use nanobot_session::{
    Entry, MessageEntry, ReadFrom, Record, Seq, SessionView, TurnEnd, TurnOutcome, rewind,
};
use nanobot_testkit::corpus;
use nanobot_testkit::{Reply, ScriptedCall, ScriptedProvider};
use nanobot_types::{AssistantMessage, ChatMessage, Content, Effect, MediaRef, ToolCall, ToolSpec};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::World;

const SESSION: &str = "cli:direct";

/// Returns a world in which these messages were sent, one after the other.
async fn talk(provider: ScriptedProvider, options: TurnOptions, said: &[&str]) -> World {
    let mut world = World::new(provider);
    world.options = options;
    let agent = world.agent();
    for text in said {
        agent
            .process_direct(DirectRequest::new(*text))
            .await
            .unwrap();
    }
    world
}

/// Returns a world with tools that work, do not exist, or refuse their arguments, with thinking,
/// and with a message to the chat.
async fn errands() -> World {
    let broken = ScriptedCall {
        arguments: "{\"at\": ".to_owned(),
        ..ScriptedCall::new("look", &json!({}))
    };
    let provider = ScriptedProvider::scripted([
        Reply::text("Let me see.").and_calls([ScriptedCall::new("look", &json!({"at": "sky"}))]),
        Reply::text("<think>blue?</think>It is blue."),
        Reply::calls([
            ScriptedCall::new("fly", &json!({})),
            broken,
            ScriptedCall::new("message", &json!({"to": "me"})),
        ]),
        Reply::text("sorry"),
        Reply::call("message", &json!({"content": "Working on it"})),
        Reply::text("Sent."),
    ]);
    talk(
        provider,
        TurnOptions::default(),
        &["what colour?", "go", "tell me"],
    )
    .await
}

async fn view(world: &World) -> SessionView {
    world
        .sessions
        .read(&SESSION.into(), ReadFrom::Seq(Seq(0)))
        .await
        .unwrap()
}

#[tokio::test]
async fn recorded_turns_replay_identically() {
    let world = errands().await;
    let reports: Vec<String> = world
        .replay(SESSION)
        .await
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        reports,
        [
            "turn 1: identical (5 steps)",
            "turn 2: identical (7 steps)",
            "turn 3: identical (5 steps)"
        ]
    );
}

#[expect(
    clippy::too_many_lines,
    reason = "one table or story, read from top to bottom"
)]
#[tokio::test]
async fn every_turn_outcome_replays() {
    let circles = || ScriptedProvider::answering(|_| Reply::call("look", &json!({})));
    let steps = || {
        ScriptedProvider::answering(|request| {
            Reply::call("look", &json!({"n": request.transcript.messages().len()}))
        })
    };
    let limited = TurnOptions {
        max_iterations: 3,
        ..TurnOptions::default()
    };
    let cut = TurnOptions {
        max_result_chars: 8,
        ..TurnOptions::default()
    };
    let beside = TurnOptions {
        parallel_tool_exec: true,
        ..TurnOptions::default()
    };
    let in_text = TurnOptions {
        parse_calls_from_text: true,
        ..TurnOptions::default()
    };
    let long = json!({"at": "a long way off"});
    let two = || {
        [
            ScriptedCall::new("look", &long),
            ScriptedCall::new("put", &long),
            ScriptedCall::new("look", &json!({})),
        ]
    };
    let script = |replies: Vec<Reply>| ScriptedProvider::scripted(replies);
    let written = "So. <tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    for (name, provider, options, ended) in [
        (
            "round in circles",
            circles(),
            TurnOptions::default(),
            TurnOutcome::Limited,
        ),
        ("too many steps", steps(), limited, TurnOutcome::Limited),
        (
            "failed",
            script(vec![Reply::error(400, "no such model")]),
            TurnOptions::default(),
            TurnOutcome::Failed,
        ),
        (
            "failed after a step",
            script(vec![
                Reply::call("look", &long),
                Reply::error(400, "no such model"),
            ]),
            TurnOptions::default(),
            TurnOutcome::Failed,
        ),
        (
            "silent",
            script(vec![Reply::text("<think>well</think>")]),
            TurnOptions::default(),
            TurnOutcome::Replied,
        ),
        (
            "silent after a step",
            script(vec![
                Reply::call("look", &long),
                Reply::text("<think>well</think>"),
            ]),
            TurnOptions::default(),
            TurnOutcome::Replied,
        ),
        (
            "cut",
            script(vec![Reply::text("Once upon").with_finish("length")]),
            TurnOptions::default(),
            TurnOutcome::Replied,
        ),
        (
            "cut and silent",
            script(vec![Reply::text("<think>Once").with_finish("length")]),
            TurnOptions::default(),
            TurnOutcome::Replied,
        ),
        (
            "long results",
            script(vec![Reply::calls(two()), Reply::text("ok")]),
            cut,
            TurnOutcome::Replied,
        ),
        (
            "beside",
            script(vec![Reply::calls(two()), Reply::text("ok")]),
            beside,
            TurnOutcome::Replied,
        ),
        (
            "in text",
            script(vec![Reply::text(written), Reply::text("ok")]),
            in_text,
            TurnOutcome::Replied,
        ),
        (
            "suppressed",
            script(vec![
                Reply::call("message", &json!({"content": "here"})),
                Reply::text("sent"),
            ]),
            TurnOptions::default(),
            TurnOutcome::Suppressed,
        ),
    ] {
        let world = talk(provider, options, &["go"]).await;
        let log = world.log(SESSION).await;
        assert_eq!(log.last(), Some(&format!("end: {ended:?}")), "{name}");
        let replays = world.replay(SESSION).await;
        assert!(
            replays.iter().all(|replay| replay.divergence.is_none()),
            "{name}: {}\n{log:#?}",
            replays[0]
        );
    }
}

#[tokio::test]
async fn replay_uses_recorded_limits() {
    let mut world = errands().await;
    world.options = TurnOptions {
        max_iterations: 1,
        max_result_chars: 3,
        ..TurnOptions::default()
    };
    world.assert_replays(SESSION).await;
}

#[tokio::test]
async fn rewound_or_reset_turns_and_missing_files_replay() {
    let world = talk(
        ScriptedProvider::answering(|_| Reply::text("well")),
        TurnOptions::default(),
        &["one"],
    )
    .await;
    let agent = world.agent();
    agent.reset(&SESSION.into()).await.unwrap();
    let picture = MediaRef {
        location: "/nowhere/picture.png".to_owned(),
        mime: Some("image/png".to_owned()),
    };
    agent
        .process_direct(DirectRequest {
            media: vec![picture],
            ..DirectRequest::new("two")
        })
        .await
        .unwrap();
    agent
        .process_direct(DirectRequest::new("three"))
        .await
        .unwrap();
    rewind(&*world.sessions, &SESSION.into(), Seq(4))
        .await
        .unwrap();
    agent
        .process_direct(DirectRequest::new("four"))
        .await
        .unwrap();
    world.assert_replays(SESSION).await;
    assert_eq!(world.replay(SESSION).await.len(), 4, "the undone turn ran");
}

#[tokio::test]
async fn turn_stopped_before_its_calls_stops_there_again() {
    let world = World::new(ScriptedProvider::scripted([]));
    let cancel = CancellationToken::new();
    cancel.cancel();
    world
        .agent()
        .process_direct(DirectRequest {
            cancel,
            ..DirectRequest::new("go")
        })
        .await
        .unwrap();
    assert_eq!(world.log(SESSION).await, ["user: go", "end: Stopped"]);
    world.assert_replays(SESSION).await;

    let calls = vec![
        ToolCall::new("1", "look", "{}"),
        ToolCall::new("2", "look", "{}"),
    ];
    let said = ChatMessage::Assistant(AssistantMessage {
        tool_calls: calls.clone(),
        ..AssistantMessage::default()
    });
    let end = TurnEnd {
        turn: "t".into(),
        inbound: Vec::new(),
        outcome: TurnOutcome::Stopped,
        visible: None,
    };
    let interrupted = "Error: interrupted before a result was recorded. Inspect the state before repeating the call.";
    let next = TurnEnd {
        outcome: TurnOutcome::Replied,
        visible: Some("well".to_owned()),
        ..end.clone()
    };
    let log = [
        Entry::message(ChatMessage::user("go")),
        Entry::message(said),
        Entry::message(ChatMessage::tool(&calls[0], "looked")),
        Entry::TurnEnded(end),
        Entry::message(ChatMessage::tool(&calls[1], interrupted)),
        Entry::message(ChatMessage::user("and?")),
        Entry::message(ChatMessage::assistant("well")),
        Entry::TurnEnded(next),
    ];
    let replays = replay_session(
        &recorded(log),
        &ReplayOptions::new(SESSION),
        &world.registry().specs(),
    )
    .await;
    let reports: Vec<String> = replays.iter().map(ToString::to_string).collect();
    assert_eq!(
        reports,
        ["turn 1: identical (4 steps)", "turn 2: identical (4 steps)"]
    );
}

#[tokio::test]
async fn logs_of_other_programs_replay() {
    let call = ToolCall::new("1", "weather", "{\"city\": \"Ulm\"}");
    let said = AssistantMessage {
        tool_calls: vec![call.clone()],
        ..AssistantMessage::default()
    };
    let log = [
        Entry::message(ChatMessage::user("rain?")),
        Entry::message(ChatMessage::Assistant(said)),
        Entry::message(ChatMessage::tool(&call, "Error: no umbrella")),
        Entry::message(ChatMessage::assistant("\nYes. ")),
        Entry::message(ChatMessage::user("still?")),
    ];
    let replays = replay_session(&recorded(log), &ReplayOptions::new(SESSION), &[]).await;
    let expected = [(1, 4), (2, 1)].map(|(number, steps)| TurnReplay {
        number,
        turn: None,
        steps,
        divergence: None,
    });
    assert_eq!(replays, expected);
}

fn recorded(entries: impl IntoIterator<Item = Entry>) -> SessionView {
    let mut seq = 0;
    let records = entries.into_iter().map(|entry| {
        let record = Record {
            seq: Seq(seq),
            entry,
        };
        seq += u64::from(matches!(record.entry, Entry::Message(_)));
        record
    });
    SessionView {
        records: records.collect(),
        ..SessionView::default()
    }
}

fn end(entry: &mut Entry, change: impl FnOnce(&mut TurnEnd)) {
    let Entry::TurnEnded(end) = entry else {
        panic!("{entry:?}")
    };
    change(end);
}

fn set_result(entry: &mut Entry, text: &str) {
    let Entry::Message(MessageEntry { message, .. }) = entry else {
        panic!("{entry:?}")
    };
    let ChatMessage::Tool(result) = Arc::make_mut(message) else {
        panic!("{message:?}")
    };
    result.content = Content::from(text);
}

type Change = fn(&mut Vec<Record>);

/// Records 0..5 are the first turn, 5..12 the second, 12..17 the third.
const CHANGES: [(&str, Change, u64, usize, Difference); 8] = [
    (
        "another outcome",
        |log| end(&mut log[4].entry, |end| end.outcome = TurnOutcome::Limited),
        1,
        5,
        Difference::Outcome,
    ),
    (
        "another visible text",
        |log| {
            end(&mut log[4].entry, |end| {
                end.visible = Some("It is red.".to_owned());
            });
        },
        1,
        5,
        Difference::Visible,
    ),
    (
        "another message taken in",
        |log| end(&mut log[4].entry, |end| end.inbound.push("x".into())),
        1,
        5,
        Difference::Inbound,
    ),
    (
        "no last word",
        |log| drop(log.remove(3)),
        1,
        4,
        Difference::Visible,
    ),
    (
        "no result",
        |log| drop(log.remove(2)),
        1,
        3,
        Difference::Role,
    ),
    (
        "another refusal",
        |log| {
            set_result(
                &mut log[8].entry,
                "Error: Invalid parameters for tool 'look': no",
            );
        },
        2,
        4,
        Difference::Text,
    ),
    (
        "a refusal of arguments that are accepted",
        |log| {
            set_result(
                &mut log[14].entry,
                "Error: Invalid parameters for tool 'message': no",
            );
        },
        3,
        3,
        Difference::Text,
    ),
    (
        "results in another order",
        |log| log.swap(7, 8),
        2,
        3,
        Difference::Text,
    ),
];

#[tokio::test]
async fn a_changed_recording_diverges_where_it_was_changed() {
    let world = errands().await;
    let specs = world.registry().specs();
    for (name, change, number, step, difference) in CHANGES {
        let mut view = view(&world).await;
        change(&mut view.records);
        let replays = replay_session(&view, &ReplayOptions::new(SESSION), &specs).await;
        let found = replays.iter().find_map(|replay| {
            let divergence = replay.divergence.as_ref()?;
            Some((replay.number, divergence.step, divergence.difference))
        });
        assert_eq!(
            found,
            Some((number, step, difference)),
            "{name}: {replays:#?}"
        );
    }
}

#[tokio::test]
async fn a_changed_tool_diverges_where_it_was_called() {
    let world = errands().await;
    let strict = |spec: &ToolSpec| match spec.name.as_str() {
        "look" => ToolSpec {
            parameters: json!({"type": "object", "required": ["far"]}),
            ..spec.clone()
        },
        _ => spec.clone(),
    };
    let specs: Vec<ToolSpec> = world.registry().specs().iter().map(strict).collect();
    let options = ReplayOptions {
        turns: TurnChoice::Number(1),
        ..ReplayOptions::new(SESSION)
    };
    let replays = replay_session(&view(&world).await, &options, &specs).await;
    let reports: Vec<String> = replays
        .iter()
        .map(|replay| replay.divergence.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(
        reports,
        [
            "diverges at step 3, text\n  recorded: \"look {\\\"at\\\":\\\"sky\\\"}\"\n  now:      \
          \"Error: Invalid parameters for tool 'look': missing required far\\n\\n\
          [Analyze the error above and try a different approach.]\""
        ]
    );
}

#[tokio::test]
async fn detects_calls_that_must_not_run_again() {
    let unknown = "Error: outcome unknown after restart: inspect before repeating.";
    let call = ToolCall::new("1", "send_money", "{}");
    let said = AssistantMessage {
        tool_calls: vec![call.clone()],
        ..AssistantMessage::default()
    };
    let inbound = Some("telegram/1/9".into());
    let log = recorded([
        Entry::Message(MessageEntry {
            inbound: inbound.clone(),
            ..MessageEntry::new(ChatMessage::user("pay"))
        }),
        Entry::message(ChatMessage::Assistant(said)),
        Entry::message(ChatMessage::tool(&call, unknown)),
        Entry::message(ChatMessage::assistant("I do not know.")),
        Entry::TurnEnded(TurnEnd {
            turn: "t".into(),
            inbound: inbound.into_iter().collect(),
            outcome: TurnOutcome::Replied,
            visible: Some("I do not know.".to_owned()),
        }),
    ]);
    let specs = World::new(ScriptedProvider::scripted([]))
        .registry()
        .specs();
    let careless: Vec<ToolSpec> = specs
        .iter()
        .map(|spec| ToolSpec {
            effect: Effect::Pure,
            ..spec.clone()
        })
        .collect();
    for (specs, step) in [(&specs[..], None), (&[], None), (&careless, Some(3))] {
        let replays = replay_session(&log, &ReplayOptions::new("telegram:1"), specs).await;
        assert_eq!(replays.len(), 1);
        assert_eq!(
            replays[0]
                .divergence
                .as_ref()
                .map(|divergence| divergence.step),
            step,
            "{}",
            replays[0]
        );
    }
}

#[tokio::test]
async fn selects_turns_by_number_and_id() {
    let world = errands().await;
    let view = view(&world).await;
    let Entry::TurnEnded(TurnEnd { turn, .. }) = &view.records[11].entry else {
        panic!("no end")
    };
    for (turns, numbers) in [
        (TurnChoice::All, vec![1, 2, 3]),
        (TurnChoice::Number(3), vec![3]),
        (TurnChoice::Id(turn.clone()), vec![2]),
        (TurnChoice::Number(4), vec![]),
        (TurnChoice::Id("nobody".into()), vec![]),
    ] {
        let options = ReplayOptions {
            turns: turns.clone(),
            ..ReplayOptions::new(SESSION)
        };
        let replays = replay_session(&view, &options, &world.registry().specs()).await;
        assert_eq!(
            replays
                .iter()
                .map(|replay| replay.number)
                .collect::<Vec<_>>(),
            numbers,
            "{turns:?}"
        );
    }
}

#[tokio::test]
async fn bundle_replays_elsewhere_without_secrets() {
    let secret = "sk-proj-4f9aT0pSecretValue77";
    let call = json!({"path": "/home/ann/notes", "apiKey": "hunter2", "command": format!("curl -H 'X: {secret}'")});
    let provider = ScriptedProvider::scripted([
        Reply::text("one"),
        Reply::calls([
            ScriptedCall::new("look", &call),
            ScriptedCall::new("fly", &json!({})),
        ]),
        Reply::text(format!("It says {secret} in /srv/ann/x.")),
    ]);
    let world = talk(
        provider,
        TurnOptions::default(),
        &["first", &format!("look at {secret}")],
    )
    .await;
    world.agent().reset(&SESSION.into()).await.unwrap();
    let view = view(&world).await;
    let specs = world.registry().specs();
    let redactor = Redactor::new(Some(Path::new("/srv/ann")));
    for (turns, numbers) in [
        (TurnChoice::All, vec![1, 2]),
        (TurnChoice::Number(2), vec![2]),
    ] {
        let options = ReplayOptions {
            turns,
            ..ReplayOptions::new(SESSION)
        };
        let bundle = Bundle::new(&view, &options, &specs, &redactor).unwrap();
        let text = bundle.to_json().unwrap();
        for hidden in [secret, "hunter2", "/home/ann", "/srv/ann"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        let read = Bundle::from_json(&text).unwrap();
        assert_eq!(read, bundle);
        let replays = read.replay().await;
        assert_eq!(
            replays
                .iter()
                .map(|replay| replay.number)
                .collect::<Vec<_>>(),
            numbers
        );
        assert!(
            replays.iter().all(|replay| replay.divergence.is_none()),
            "{}",
            replays[0]
        );
    }
    let none = ReplayOptions {
        turns: TurnChoice::Number(9),
        ..ReplayOptions::new(SESSION)
    };
    assert_eq!(Bundle::new(&view, &none, &specs, &redactor), None);
}

#[tokio::test]
async fn bundle_of_one_turn_is_minimal_and_keeps_its_number() {
    let world = talk(
        ScriptedProvider::answering(|_| Reply::text("well")),
        TurnOptions::default(),
        &["one", "two"],
    )
    .await;
    let agent = world.agent();
    agent.reset(&SESSION.into()).await.unwrap();
    for text in ["three", "four"] {
        agent
            .process_direct(DirectRequest::new(text))
            .await
            .unwrap();
    }
    let options = ReplayOptions {
        turns: TurnChoice::Number(4),
        ..ReplayOptions::new(SESSION)
    };
    let bundle = Bundle::new(&view(&world).await, &options, &[], &Redactor::default()).unwrap();
    let said: Vec<String> = bundle
        .view
        .records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry.message.text()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["three", "well", "four", "well"]);
    let replays = bundle.replay().await;
    assert_eq!(
        replays.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["turn 4: identical (3 steps)"]
    );
}

#[test]
fn rejects_invalid_bundles() {
    assert!(matches!(
        Bundle::from_json("{\"format\": 2}"),
        Err(BundleError::Format { found: 2 })
    ));
    for text in ["", "[]", "{\"format\": 1}", "{\"format\": \"1\"}"] {
        assert!(
            matches!(Bundle::from_json(text), Err(BundleError::Unreadable(_))),
            "{text}"
        );
    }
}

#[tokio::test]
async fn bundle_with_absurd_numbers_replays() {
    let mut bundle = Bundle::new(
        &view(&errands().await).await,
        &ReplayOptions::new(SESSION),
        &[],
        &Redactor::default(),
    )
    .unwrap();
    bundle.options.first_turn = u64::MAX;
    bundle.options.turn_options = TurnOptions {
        max_iterations: u32::MAX,
        max_result_chars: 0,
        ..TurnOptions::default()
    };
    for record in &mut bundle.view.records {
        record.seq = Seq(u64::MAX);
    }
    bundle.view.records.insert(
        0,
        Record {
            seq: Seq(u64::MAX),
            entry: Entry::Rewound { to: Seq(u64::MAX) },
        },
    );
    bundle.view.records.insert(
        0,
        Record {
            seq: Seq(0),
            entry: Entry::Consolidated {
                upto: Seq(u64::MAX),
            },
        },
    );
    let read = Bundle::from_json(&bundle.to_json().unwrap()).unwrap();
    assert_eq!(
        read.replay()
            .await
            .iter()
            .map(|replay| replay.number)
            .collect::<Vec<_>>(),
        [u64::MAX; 3]
    );
}

/// Rows whose secret has no recognisable form: only the configuration knows it.
const UNRECOGNISABLE: [&str; 1] = ["own_config_value"];

#[test]
fn secrets_of_every_kind_stay_out_of_bundles() {
    let mut wrong = Vec::new();
    for row in corpus::rows("secrets").unwrap() {
        let parts = row.json["parts"].as_array().unwrap();
        let secret: String = parts.iter().map(|part| part.as_str().unwrap()).collect();
        let text = row.text("text").replace("{S}", &secret);
        let redacted = Redactor::default().text(&text);
        let characters: Vec<char> = secret.chars().collect();
        let leaks = characters
            .windows(12)
            .any(|run| redacted.contains(&run.iter().collect::<String>()));
        let kind = row.text("kind");
        let is_right = match row.text("expect") {
            "redact" => !leaks || UNRECOGNISABLE.contains(&kind),
            _ => redacted == text,
        };
        if !is_right {
            wrong.push(format!("{} {kind}: {redacted}", row.id));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Recorded sessions that every later version must replay without divergence.
#[tokio::test]
async fn stored_recordings_replay() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "recordings"]
        .iter()
        .collect();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let bundle = Bundle::from_json(&fs::read_to_string(&path).unwrap()).unwrap();
        let replays = bundle.replay().await;
        let reports: Vec<String> = replays.iter().map(ToString::to_string).collect();
        assert!(
            !reports.is_empty() && replays.iter().all(|replay| replay.divergence.is_none()),
            "{path:?}: {reports:#?}"
        );
        count += 1;
    }
    assert_eq!(count, 1);
}
