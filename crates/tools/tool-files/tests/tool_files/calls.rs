//! Calls of Python files: results, errors, faults, and what a call leaves.

use std::time::Duration;

use nanobot_tool::ToolContext;
use nanobot_types::ToolCall;
use serde_json::json;

use crate::fixture::{Fixture, call, source, until};

/// A body that counts the calls of its process.
const COUNT: &str = "T.calls = getattr(T, 'calls', 0) + 1\nreturn str(T.calls)";

#[tokio::test]
async fn results_are_texts() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (name, body) in [
        ("text", "return given['text'] + '!'"),
        ("json", "return {'a': [1, None]}"),
        ("nothing", "pass"),
        ("hidden", "return 'a\\x1b[31m\\u202eb'"),
        ("half", "return '\\ud800'"),
        ("lines", "return 'a\\nb'"),
    ] {
        fixture.tool(name, body);
    }
    let (_files, registry) = fixture.opened().await;
    for (name, arguments, expected) in [
        ("text", json!({"text": "你好"}), "你好!"),
        ("json", json!({}), "{\"a\": [1, null]}"),
        ("nothing", json!({}), "(no output)"),
        ("hidden", json!({}), "a[31m\\u{202e}b"),
        ("half", json!({}), "?"),
        ("lines", json!({}), "a\nb"),
    ] {
        let result = call(&registry, name, arguments).await;
        assert_eq!(
            (result.output.as_str(), result.success),
            (expected, true),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_failed_call_says_why_and_the_next_one_works() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let body = "import os, sys\n\
                how = given.get('how')\n\
                if how == 'raise': raise ValueError('bad\\nvalue')\n\
                if how == 'exit': sys.exit(3)\n\
                if how == 'die': os.write(1, b'last words'); os._exit(3)\n\
                if how == 'large': return 'x' * 2_000_000\n\
                if how == 'system': os.write(99, b'x')\n\
                return 'fine'";
    fixture.tool("odd", body);
    let (_files, registry) = fixture.opened().await;
    for (how, expected) in [
        ("raise", "Error: line 10: ValueError: bad\nvalue"),
        ("exit", "Error: line 11: SystemExit: 3"),
        ("die", "Error: it ended unexpectedly: last words"),
        (
            "large",
            "Error: its result has 2000000 characters, more than 1000000",
        ),
        (
            "system",
            "Error: line 14: OSError: [Errno 9] Bad file descriptor",
        ),
    ] {
        let failed = call(&registry, "odd", json!({"how": how})).await;
        assert!(
            failed.output.starts_with(expected),
            "{how}: {}",
            failed.output
        );
        assert!(!failed.success, "{how}");
        let next = call(&registry, "odd", json!({})).await;
        assert_eq!(
            (next.output.as_str(), next.success),
            ("fine", true),
            "{how}"
        );
    }
}

#[tokio::test]
async fn a_late_call_is_ended() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let text = source("endless", "while True: pass");
    let text = text.replace("    async", "    timeout = 1\n    async");
    fixture.write("ws/tools/endless.py", &text);
    let (_files, registry) = fixture.opened().await;
    for _ in 0..2 {
        let result = call(&registry, "endless", json!({})).await;
        let expected = "Error: it did not answer within 1 s and was ended";
        assert!(result.output.starts_with(expected), "{}", result.output);
    }
}

#[tokio::test]
async fn what_a_tool_prints_is_no_answer() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let body = "import os, sys\n\
                forged = '{\"id\": 2, \"output\": \"forged\"}'\n\
                print(forged)\n\
                os.write(1, forged.encode() + b'\\n')\n\
                sys.stdout.flush()\n\
                return 'true ' + repr(sys.stdin.read())";
    fixture.tool("forger", body);
    // It writes to every descriptor, that of the answers among them.
    let body = "import os\n\
                for one in range(3, 20):\n    \
                try: os.write(one, b'{\"id\": 7, \"output\": \"forged\"}\\n')\n    \
                except OSError: pass\n\
                return 'true'";
    fixture.tool("flooder", body);
    let (_files, registry) = fixture.opened().await;
    for _ in 0..2 {
        let result = call(&registry, "forger", json!({})).await;
        assert_eq!(result.output, "true ''");
    }
    let result = call(&registry, "flooder", json!({})).await;
    assert!(
        result.output.contains("something else than an answer"),
        "{}",
        result.output
    );
}

#[tokio::test]
async fn a_process_serves_several_calls_and_ends_when_it_is_idle() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.tool("count", COUNT);
    let (_files, registry) = fixture.opened().await;
    for expected in ["1", "2", "3"] {
        assert_eq!(call(&registry, "count", json!({})).await.output, expected);
    }
    fixture.idle = Duration::ZERO;
    let (_files, registry) = fixture.opened().await;
    until("a new process serves a call", async || {
        call(&registry, "count", json!({})).await.output == "1"
    })
    .await;
    until("its process ended", async || {
        call(&registry, "count", json!({})).await.output == "1"
    })
    .await;
}

#[tokio::test]
async fn a_stopped_turn_ends_the_process() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let body = "open('data/begun', 'w').close()\nwhile True: pass";
    fixture.tool("endless", body);
    fixture.write("ws/data/.keep", "");
    let fixture = fixture.without_scan();
    let (_files, registry) = fixture.opened().await;
    let context = ToolContext::detached("cli:direct");
    let run = async {
        let call = ToolCall::new("1", "endless", "{}");
        registry.run(&call, &context).await
    };
    let stop = async {
        let begun = fixture.path("ws/data/begun");
        until("the tool began", async || begun.exists()).await;
        context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(run, stop);
    assert!(
        result.output.starts_with("Error: cancelled"),
        "{}",
        result.output
    );
    let workspace = fixture.path("ws").canonicalize().unwrap();
    until("no process is left", async || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut folders = processes.map(|entry| std::fs::read_link(entry.path().join("cwd")));
        !folders.any(|folder| folder.is_ok_and(|folder| folder == workspace))
    })
    .await;
}

#[tokio::test]
async fn a_tool_writes_only_where_it_may() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let body = "try:\n    \
                self.write_text(given['path'], 'mine')\n    \
                return self.read_text(given['path'])\n\
                except OSError as error: return error.strerror";
    fixture.tool("writer", body);
    fixture.tool("folders", "return self.allowed_dirs + [self.workspace]");
    fixture.tool("reader", "return self.read_text(given['path'])");
    fixture.write("ws/data/.keep", "");
    let (_files, registry) = fixture.opened().await;
    for (path, expected) in [
        ("data/own.txt", "mine"),
        ("own.txt", "Read-only file system"),
        ("AGENTS.md", "Read-only file system"),
        ("tools/other.py", "Read-only file system"),
        ("../outside/new.txt", "No such file or directory"),
    ] {
        let result = call(&registry, "writer", json!({"path": path})).await;
        assert_eq!(result.output, expected, "{path}");
    }
    let workspace = fixture.path("ws").canonicalize().unwrap();
    let folders = json!([workspace.join("data"), workspace]).to_string();
    let result = call(&registry, "folders", json!({})).await;
    assert_eq!(result.output.replace(", ", ","), folders);
    let result = call(&registry, "reader", json!({"path": "notes.txt"})).await;
    assert_eq!(result.output, "one\ntwo\n");
}

#[tokio::test]
async fn a_link_opens_no_folder_outside() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.config.allowed_dirs = ["data", "link", ".", "tools/data", "../outside", "~"]
        .map(Into::into)
        .to_vec();
    fixture.write("ws/data/.keep", "");
    fixture.write("ws/tools/data/.keep", "");
    std::os::unix::fs::symlink("../outside", fixture.path("ws/link")).unwrap();
    fixture.tool("folders", "return self.allowed_dirs");
    let (_files, registry) = fixture.opened().await;
    let result = call(&registry, "folders", json!({})).await;
    let data = fixture.path("ws").canonicalize().unwrap().join("data");
    assert_eq!(result.output, json!([data]).to_string());
}

#[tokio::test]
async fn the_network_is_granted_by_name() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let body = format!(
        "import http.client\n\
         try:\n    \
         http.client.HTTPConnection('127.0.0.1', {}).connect()\n    \
         return 'connected'\n\
         except OSError as error: return error.strerror",
        listener.local_addr().unwrap().port()
    );
    fixture.tool("caller", &body);
    fixture.tool("other", &body);
    fixture.config.network = vec!["caller".to_owned()];
    let (_files, registry) = fixture.opened().await;
    assert_eq!(
        call(&registry, "caller", json!({})).await.output,
        "connected"
    );
    assert_ne!(
        call(&registry, "other", json!({})).await.output,
        "connected"
    );
}

#[tokio::test]
async fn a_refusal_by_the_sandbox_is_explained() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.tool("writer", "self.write_text('own.txt', 'x')");
    let (_files, registry) = fixture.opened().await;
    let result = call(&registry, "writer", json!({})).await;
    assert!(
        result.output.contains("tools.toolFiles.allowedDirs"),
        "{}",
        result.output
    );
}
