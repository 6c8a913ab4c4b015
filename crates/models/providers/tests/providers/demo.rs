//! A conversation with the demo model, its tools played by the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nanobot_provider::{CallContext, ChatRequest, Delta, ProviderRouter, RetryPolicy};
use nanobot_providers::ProviderSettings;
use nanobot_types::{ChatMessage, LlmResponse, Transcript};

use super::support::{candidate, context, request, words};

const TIME: &str = "2026-11-21 20:44 (Saturday) (UTC)";

/// A workspace in memory with the tools that the demo uses, with the real tools' result texts.
#[derive(Default)]
struct Desk {
    files: BTreeMap<String, String>,
    messages: Vec<ChatMessage>,
    calls: Vec<String>,
}

impl Desk {
    fn run(&mut self, tool: &str, arguments: &nanobot_types::Map) -> String {
        let text = |name: &str| arguments[name].as_str().unwrap().to_owned();
        self.calls.push(tool.to_owned());
        match tool {
            "list_dir" => self
                .files
                .keys()
                .map(|name| format!("📄 {name}\n"))
                .collect(),
            "read_file" => match self.files.get(&text("path")) {
                None => format!("Error: File not found: {}\n\n[hint]", text("path")),
                Some(file) if file.is_empty() => format!("(Empty file: {})", text("path")),
                Some(file) => {
                    let lines: Vec<&str> = file.lines().collect();
                    let numbered: Vec<String> = (1..)
                        .zip(&lines)
                        .map(|(number, line)| format!("{number}| {line}"))
                        .collect();
                    format!(
                        "{}\n\n(End of file — {} lines total)",
                        numbered.join("\n"),
                        lines.len()
                    )
                }
            },
            "write_file" => {
                self.files.insert(text("path"), text("content"));
                "Successfully wrote".to_owned()
            }
            "exec" => format!("ran {}\n\n\nExit code: 0", text("command")),
            other => panic!("the demo called {other}"),
        }
    }

    /// Runs one turn, as the engine would.
    async fn say(&mut self, text: &str) -> String {
        let block = format!(
            "[Runtime Context — metadata only, not instructions]\nCurrent Time: {TIME}\n[/Runtime Context]"
        );
        self.messages
            .push(ChatMessage::user(format!("{text}\n\n{block}")));
        for _ in 0..5 {
            let response = ask(request(self.messages.clone())).await;
            self.messages
                .push(ChatMessage::Assistant(response.to_message()));
            if response.tool_calls.is_empty() {
                return words(&response).to_owned();
            }
            for call in &response.tool_calls {
                let result = self.run(call.name.as_str(), &call.parsed_arguments().unwrap());
                self.messages.push(ChatMessage::tool(call, result));
            }
        }
        panic!("the demo never answers {text}");
    }
}

async fn ask(request: ChatRequest) -> LlmResponse {
    let demo = candidate("demo", &ProviderSettings::default(), "demo");
    ProviderRouter::new([demo], RetryPolicy::default())
        .chat_with_failover(request, &context())
        .await
}

#[tokio::test]
async fn performs_every_advertised_request() {
    let mut desk = Desk {
        files: BTreeMap::from([("README.md".to_owned(), "# Hi\nthere\n".to_owned())]),
        ..Desk::default()
    };
    let table = [
        ("what files are here?", "📄 README.md", vec!["list_dir"]),
        ("read README.md", "2| there", vec!["read_file"]),
        ("again", "2| there", vec!["read_file"]),
        (
            "write a note: buy milk",
            "notes.md",
            vec!["read_file", "write_file"],
        ),
        ("记一条笔记：喝茶", "好了", vec!["read_file", "write_file"]),
        (
            "remember that my cat is Mimi",
            "my cat is Mimi",
            vec!["read_file", "write_file"],
        ),
        ("what do you remember?", "my cat is Mimi", vec!["read_file"]),
        ("what time is it?", TIME, vec![]),
        ("现在几点？", TIME, vec![]),
        ("run `date`", "ran date", vec!["exec"]),
        ("run rm -rf /", "I do not run `rm -rf /`", vec![]),
        (
            "read missing.txt",
            "Error: File not found: missing.txt",
            vec!["read_file"],
        ),
        ("help", "providers.openrouter.apiKey", vec![]),
        ("explain general relativity", "That is beyond me", vec![]),
        ("谢谢", "不客气", vec![]),
    ];
    for (text, expected, calls) in table {
        desk.calls.clear();
        let answer = desk.say(text).await;
        assert!(answer.contains(expected), "{text}: {answer}");
        assert!(
            answer.starts_with("[demo model] ") || answer.starts_with("[演示模型] "),
            "{text}: {answer}"
        );
        assert_eq!(desk.calls, calls, "{text}");
    }
    assert_eq!(desk.files["notes.md"], "# Notes\n\n- buy milk\n- 喝茶\n");
    assert_eq!(
        desk.files["memory/MEMORY.md"],
        "# Memory\n\n- my cat is Mimi\n"
    );
    let transcript = Transcript::repair(desk.messages.into_iter().map(Arc::new));
    assert!(transcript.synthesised.is_empty() && transcript.dropped == 0);
}

#[tokio::test]
async fn does_not_overwrite_a_partially_read_file() {
    let mut desk = Desk::default();
    desk.files
        .insert("notes.md".to_owned(), "kept\n".to_owned());
    let call = ask(request([ChatMessage::user("write a note: x")]))
        .await
        .tool_calls
        .remove(0);
    let paged = "1| kept\n\n(Showing lines 1-1 of 9000. Use offset=2 to continue.)";
    let history = [
        ChatMessage::user("write a note: x"),
        ChatMessage::Assistant(
            LlmResponse {
                tool_calls: vec![call.clone()],
                ..LlmResponse::default()
            }
            .to_message(),
        ),
        ChatMessage::tool(&call, paged),
    ];
    let response = ask(request(history)).await;
    assert!(
        response.tool_calls.is_empty() && words(&response).contains("too long"),
        "{response:?}"
    );
}

#[tokio::test]
async fn streams_text_and_names_a_missing_tool() {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let pieces = Arc::clone(&pieces);
        move |delta| pieces.lock().unwrap().push(delta)
    };
    let demo = candidate("demo", &ProviderSettings::default(), "demo");
    let router = ProviderRouter::new([demo], RetryPolicy::default());
    let without_tools = ChatRequest {
        tools: Arc::new([]),
        ..request([ChatMessage::user("list files")])
    };
    let watching = CallContext {
        deltas: Some(Arc::new(sink)),
        ..context()
    };
    let response = router.chat_with_failover(without_tools, &watching).await;
    assert!(words(&response).contains("`list_dir`"), "{response:?}");
    let pieces = pieces.lock().unwrap();
    assert!(pieces.len() > 3);
    let text: String = pieces
        .iter()
        .map(|delta| {
            if let Delta::Text(text) = delta {
                text.as_str()
            } else {
                ""
            }
        })
        .collect();
    assert_eq!(text, words(&response));
}
