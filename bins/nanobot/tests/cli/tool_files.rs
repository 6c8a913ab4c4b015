//! Tools in files: the commands about them, and an assistant that writes, uses, changes and removes
//! one.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, assert_says, has_sandbox};

/// Returns a tool file with this description and result.
fn file(about: &str, result: &str) -> String {
    format!(
        "from tool_api import Tool\n\n\
         class WordCount(Tool):\n    \
             name = \"word_count\"\n    \
             description = \"{about}\"\n    \
             parameters = {{\"type\": \"object\", \"properties\": {{\"text\": {{\"type\": \"string\"}}}}, \"required\": [\"text\"]}}\n\n    \
             async def execute(self, text):\n        \
                 return {result}\n"
    )
}

/// `true` if tool files can run here; see [`has_sandbox`]. The test is skipped otherwise, unless
/// `NANOBOT_REQUIRE_TEST_SERVERS` is set.
fn can_run() -> bool {
    let has_python = std::path::Path::new("/usr/bin/python3").exists();
    if !has_python {
        let is_required = std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some();
        assert!(!is_required, "there is no /usr/bin/python3");
        #[expect(clippy::print_stderr, reason = "who runs the tests has to see it")]
        {
            eprintln!("SKIPPED: there is no /usr/bin/python3");
        }
    }
    has_python && has_sandbox()
}

#[tokio::test]
async fn commands_list_check_and_run_the_tools() {
    if !can_run() {
        return;
    }
    let home = Home::new();
    home.configure(&json!({}));
    let run = home.run(&["tools", "list"]).await;
    assert_eq!(run.stdout, "There is no tool in tools/ of the workspace.\n");
    let good = file("Counts words.", "str(len(text.split()))");
    home.write("workspace/tools/word_count.py", &good);
    let run = home.run(&["tools", "check"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "✓ word_count.py: word_count\n")
    );
    home.write(
        "workspace/tools/bad.py",
        &good.replace("text.split", "open"),
    );
    home.write(
        "workspace/tools/shadow.py",
        &good.replace("word_count", "exec"),
    );
    let run = home.run(&["tools", "list"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &[
            "bad.py  refused  the scan refuses line 9: open: ",
            "shadow.py  refused  its tool has the name of a built-in one, exec\n",
            "word_count.py  loaded  word_count  Counts words.\n",
        ],
    );
    let run = home.run(&["tools", "check", "bad.py"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &run.stdout,
        &["✗ bad.py: refused: the scan refuses line 9: open: "],
    );
    let run = home.run(&["doctor"]).await;
    assert_says(
        &run.stdout,
        &["tools/shadow.py in the workspace is not loaded: its tool has the name of"],
    );
    let run = home.run(&["tools", "list", "--json"]).await;
    let files: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(files[2]["tool"], "word_count");
    assert_eq!(files[1]["state"], "refused");
    let run = home
        .run(&["tools", "run", "word_count", r#"{"text": "one two three"}"#])
        .await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "3\n"));
    let run = home.run(&["tools", "run", "word_count"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stdout, &["missing required text"]);
    let run = home.run(&["tools", "run", "none"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &run.stderr,
        &["there is no tool \"none\" in a file", "nanobot tools list"],
    );
}

#[tokio::test]
async fn an_assistant_writes_uses_changes_and_removes_a_tool() {
    if !can_run() {
        return;
    }
    let written = |text: String| {
        let path = "tools/word_count.py";
        Reply::call("write_file", &json!({"path": path, "content": text}))
    };
    let used = || Reply::call("word_count", &json!({"text": "one two"}));
    let done = || Reply::text("Done.");
    let model = ModelServer::scripted([
        written(file("Counts words.", "str(len(text.split()))")),
        used(),
        Reply::call("check_tools", &json!({})),
        done(),
        used(),
        done(),
        written(file("Counts letters.", "str(len(text))")),
        done(),
        used(),
        done(),
        Reply::call("exec", &json!({"command": "rm tools/word_count.py"})),
        done(),
        done(),
    ])
    .await
    .unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        // No person confirms that a tool is written.
        "tools": {"approvals": {"tools": {"write_file": "allow"}}},
    }));
    let run = home
        .run_with_input(
            &["agent", "--lines"],
            b"write\nuse\nchange\nuse\nremove\nhello\n",
        )
        .await;
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let requests = model.requests();
    let lists = |request: usize| requests[request].tool_names().contains(&"word_count");
    let last_result = |request: usize| requests[request].tool_results().pop().unwrap();
    // Within the first turn the tool can be called, and the list of its requests stays the same.
    assert_eq!([lists(0), lists(3)], [false, false]);
    assert_eq!(last_result(2), "2");
    assert_says(&last_result(3), &["word_count.py: loaded as word_count"]);
    assert_eq!([lists(4), lists(8), lists(12)], [true, true, false]);
    assert_eq!(last_result(5), "2");
    assert_eq!(last_result(9), "7");
    let description = |request: usize| requests[request].json["tools"].to_string();
    assert_says(&description(4), &["Counts words."]);
    assert_says(&description(8), &["Counts letters."]);
}
