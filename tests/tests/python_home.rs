//! Homes of the Python program: a session in any of its former locations is continued here, and
//! that program can still read it.

use std::path::PathBuf;

use base64::Engine as _;
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::world::{UserTurn, World, run_turn, vendor};

const SESSION: &str = "telegram:1";

/// A file as written by the program of March 2026 after a turn with an image and a command.
const MARCH: &str = r#"{"_type": "metadata", "key": "telegram:1", "created_at": "2026-03-01T09:00:00.000001", "updated_at": "2026-03-02T10:00:00.000001", "metadata": {"lang": "de"}, "last_consolidated": 0}
{"role": "user", "content": [{"type": "text", "text": "[image]"}, {"type": "text", "text": "grüß dich"}], "timestamp": "2026-03-02T10:00:00.000002"}
{"role": "assistant", "content": "let me see", "tool_calls": [{"id": "abc123XYZ", "type": "function", "function": {"name": "exec", "arguments": "{\"command\": \"echo hi\"}"}}], "reasoning_content": "R", "timestamp": "2026-03-02T10:00:01.000001"}
{"role": "tool", "tool_call_id": "abc123XYZ", "name": "exec", "content": "hi\n\n\nExit code: 0", "timestamp": "2026-03-02T10:00:02.000001"}
{"role": "assistant", "content": "done", "reasoning_content": "R2", "timestamp": "2026-03-02T10:00:03.000001"}
"#;

/// The Python program's view of a file: its messages, and the last metadata line.
struct PythonView {
    messages: Vec<Value>,
    metadata: Value,
}

impl PythonView {
    fn of(text: &str) -> Self {
        let (mut messages, mut metadata) = (Vec::new(), Value::Null);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let value: Value = serde_json::from_str(line).unwrap();
            match value["_type"].as_str() {
                None => messages.push(value),
                Some("metadata") => metadata = value,
                Some(_) => {}
            }
        }
        Self { messages, metadata }
    }

    /// Returns roles and contents, as it would send them.
    fn role_contents(&self) -> Vec<(&str, &Value)> {
        self.messages
            .iter()
            .map(|message| (message["role"].as_str().unwrap(), &message["content"]))
            .collect()
    }
}

/// A layout: the location of the old file, and that of the session afterwards.
struct Layout {
    name: &'static str,
    old: PathBuf,
    new: PathBuf,
    text: String,
}

fn layouts(world: &World) -> Vec<Layout> {
    let plain = world.workspace().join("sessions/telegram_1.jsonl");
    let id = "0123456789abcdef0123456789abcdef";
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(SESSION);
    let external = world
        .root()
        .join("sessions")
        .join(id)
        .join(format!("{encoded}.jsonl"));
    let (metadata, messages) = MARCH.split_once('\n').unwrap();
    vec![
        Layout {
            name: "March 2026",
            old: plain.clone(),
            new: plain.clone(),
            text: MARCH.to_owned(),
        },
        Layout {
            name: "v0.3, outside the workspace",
            old: external.clone(),
            new: external,
            text: format!(
                "{metadata}\n{{\"_type\": \"provider_state\", \"state\": {{\"x\": 1}}}}\n{messages}"
            ),
        },
        Layout {
            name: "before February 2026, in the home folder",
            old: world.root().join("sessions/telegram_1.jsonl"),
            new: plain,
            text: MARCH.to_owned(),
        },
    ]
}

fn prepare(world: &World, layout: &Layout) {
    let folder = layout.old.parent().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(&layout.old, &layout.text).unwrap();
    if layout.name.starts_with("v0.3") {
        world.write(
            ".nanobot/workspace-id",
            folder.file_name().unwrap().to_str().unwrap(),
        );
        std::fs::write(
            folder.join(".workspace"),
            world.workspace().to_str().unwrap(),
        )
        .unwrap();
    }
}

/// Checks that the old messages are sent, with the tool call and its result paired as before.
fn check_replay(request: &ModelRequest, name: &str) {
    let shown: Vec<Value> = request
        .messages()
        .iter()
        .skip(1)
        .take(4)
        .map(without_reasoning)
        .collect();
    let exec = json!({"id": "abc123XYZ", "type": "function",
                      "function": {"name": "exec", "arguments": "{\"command\": \"echo hi\"}"}});
    assert_eq!(
        shown,
        [
            json!({"role": "user", "content": [{"type": "text", "text": "[image]"}, {"type": "text", "text": "grüß dich"}]}),
            json!({"role": "assistant", "content": "let me see", "tool_calls": [exec]}),
            json!({"role": "tool", "tool_call_id": "abc123XYZ", "content": "hi\n\n\nExit code: 0"}),
            json!({"role": "assistant", "content": "done"}),
        ],
        "{name}"
    );
    assert!(request.last_user_text().starts_with("again"), "{name}");
}

fn without_reasoning(message: &Value) -> Value {
    let mut message = message.clone();
    let fields = message.as_object_mut().unwrap();
    for optional in ["reasoning_content", "name"] {
        fields.remove(optional);
    }
    message
}

#[tokio::test]
async fn session_continues_in_every_python_layout() {
    for number in 0..3 {
        let world = World::new();
        let layout = layouts(&world).swap_remove(number);
        let name = layout.name;
        prepare(&world, &layout);
        let replies = [
            Reply::call("list_dir", &json!({"path": "memory"})),
            Reply::text("yes"),
            Reply::text("still here"),
        ];
        let server = ModelServer::scripted(replies).await.unwrap();
        let report = run_turn(
            &world.agent([vendor("openai", &server)]),
            SESSION,
            UserTurn::text("again"),
        )
        .await
        .unwrap();
        assert_eq!(report.visible.as_deref(), Some("yes"), "{name}");
        // A new process finds the session at the same place.
        let report = run_turn(
            &world.agent([vendor("openai", &server)]),
            SESSION,
            UserTurn::text("and now?"),
        )
        .await
        .unwrap();
        assert_eq!(report.visible.as_deref(), Some("still here"), "{name}");
        assert_eq!(server.violations(), Vec::<String>::new(), "{name}");
        let requests = server.requests();
        check_replay(&requests[0], name);
        assert!(
            requests[2].prompt().starts_with(&requests[1].prompt()),
            "{name}"
        );

        let text = std::fs::read_to_string(&layout.new).unwrap();
        assert!(
            text.starts_with(&layout.text),
            "{name}: what was written before is not the beginning any more"
        );
        let view = PythonView::of(&text);
        let listing = view.messages[6]["content"].clone();
        let old = PythonView::of(&layout.text);
        let expected = [
            ("user", json!("again")),
            ("assistant", Value::Null),
            ("tool", listing),
            ("assistant", json!("yes")),
            ("user", json!("and now?")),
            ("assistant", json!("still here")),
        ];
        let expected: Vec<(&str, &Value)> = old
            .role_contents()
            .into_iter()
            .chain(expected.iter().map(|(role, content)| (*role, content)))
            .collect();
        assert_eq!(view.role_contents(), expected, "{name}");
        for field in ["key", "created_at", "metadata", "last_consolidated"] {
            assert_eq!(view.metadata[field], old.metadata[field], "{name}: {field}");
        }
        assert!(
            view.metadata["updated_at"].as_str() > old.metadata["updated_at"].as_str(),
            "{name}"
        );
        assert_eq!(
            layout.old.exists(),
            layout.old == layout.new,
            "{name}: never in two places"
        );
    }
}
