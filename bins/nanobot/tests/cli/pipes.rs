//! Piped input, attached files, output for programs, and messages that are too long for a prompt.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, Run, assert_says, finish};

/// A picture of one pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\0IEND\xaeB`\x82";

/// Returns a model that always replies `text`.
async fn model_saying(text: &'static str) -> ModelServer {
    ModelServer::answering(move |_| Reply::text(text))
        .await
        .unwrap()
}

fn replied(run: &Run, stdout: &str) {
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, stdout),
        "{}",
        run.stderr
    );
}

#[tokio::test]
async fn piped_text_follows_the_message() {
    let model = model_saying("An error.").await;
    let home = Home::with_model(&model.base_url());
    let log = b"line 1\nline 2: failed\n";
    replied(
        &home.run_with_input(&["agent", "-m", "explain"], log).await,
        "An error.\n",
    );
    let asked = model.requests()[0].last_user_text();
    let expected = "explain\n\n[Standard input:]\nline 1\nline 2: failed";
    assert!(asked.starts_with(expected), "{asked}");
    // Without input there is no mark.
    replied(&home.run(&["agent", "-m", "and now?"]).await, "An error.\n");
    let asked = model.requests()[1].last_user_text();
    assert!(
        asked.starts_with("and now?\n\n") && !asked.contains("Standard input"),
        "{asked}"
    );
}

#[tokio::test]
async fn whole_input_is_one_message() {
    let model = model_saying("Read.").await;
    let home = Home::with_model(&model.base_url());
    for arguments in [&["agent"][..], &["agent", "-"]] {
        let run = home.run_with_input(arguments, b"one\n\ntwo\n").await;
        replied(&run, "Read.\n");
        let requests = model.requests();
        let asked = requests.last().unwrap().last_user_text();
        assert!(asked.starts_with("one\n\ntwo\n\n"), "{asked}");
    }
    assert_eq!(model.requests().len(), 2);
    let command = home.run_with_input(&["agent"], b"/help status\n").await;
    assert_says(&command.stdout, &["/status"]);
    let large = vec![b'a'; (4 << 20) + 1];
    let refused = home.run_with_input(&["agent", "-m", "x"], &large).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert_says(
        &refused.stderr,
        &["standard input is larger than 4 MiB", "--file FILE"],
    );
    assert_eq!(model.requests().len(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn unreadable_input_is_no_part_of_the_message() {
    let model = model_saying("Hello.").await;
    let home = Home::with_model(&model.base_url());
    for input in ["< /dev/null", "<&-", "< /"] {
        let mut shell = home.of(std::path::Path::new("/bin/sh"));
        let program = env!("CARGO_BIN_EXE_nanobot");
        shell.args(["-c", &format!("exec '{program}' agent -m hello {input}")]);
        replied(&finish(shell, b"").await, "Hello.\n");
    }
}

#[tokio::test]
async fn files_are_copied_and_shown_to_the_model() {
    let model = model_saying("A pixel.").await;
    let home = Home::with_model(&model.base_url());
    home.write("notes with spaces.txt", "buy milk");
    std::fs::write(home.path().join("p.png"), PIXEL).unwrap();
    let mut command = home.program();
    command.current_dir(home.path()).args([
        "agent",
        "-m",
        "what is it?",
        "-f",
        "p.png",
        "--file",
        "notes with spaces.txt",
    ]);
    replied(&finish(command, b"").await, "A pixel.\n");
    let request = &model.requests()[0];
    let asked = request.last_user_text();
    assert_says(
        &asked,
        &["[file: ", "/media/cli/noteswithspaces-", "what is it?"],
    );
    let user = request.messages().last().unwrap();
    assert_eq!(user["content"][0]["type"], "image_url", "{user}");
    let names = home.names("media/cli");
    assert_eq!(names.len(), 2, "{names:?}");
    let text = names.iter().find(|name| name.ends_with(".txt")).unwrap();
    assert_eq!(home.read(&format!("media/cli/{text}")), "buy milk");
}

#[tokio::test]
async fn model_looks_at_a_picture_with_read_file() {
    let path = json!({"path": "cat.png"});
    let replies = [
        Reply::call("read_file", &path),
        Reply::text("A pixel."),
        Reply::text("It was a pixel."),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    home.write("workspace/cat.png", "");
    std::fs::write(home.workspace().join("cat.png"), PIXEL).unwrap();
    replied(
        &home.run(&["agent", "-m", "what is on cat.png?"]).await,
        "A pixel.\n",
    );
    // What the model saw stays, whatever happens to the file.
    std::fs::write(home.workspace().join("cat.png"), "gone").unwrap();
    replied(
        &home.run(&["agent", "-m", "and what was it?"]).await,
        "It was a pixel.\n",
    );
    let requests = model.requests();
    let [_, second, third] = requests.as_slice() else {
        panic!("{} requests", requests.len())
    };
    let shown = second.messages().last().unwrap();
    let url = shown["content"][1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{shown}");
    assert!(
        third.messages().starts_with(second.messages()),
        "{:?}",
        third.messages()
    );
    assert_says(
        &second.tool_results()[0],
        &["cat.png is a PNG picture of 1 × 1 pixels"],
    );
    let names = home.names("tool-results");
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(
        names[0].starts_with("read_file-") && names[0].ends_with(".png"),
        "{names:?}"
    );
}

#[tokio::test]
async fn model_without_eyes_gets_the_description_of_a_picture() {
    let model = ModelServer::answering(|request| {
        let sent = format!("{:?}", request.messages());
        match (
            sent.contains("image_url"),
            request.tool_results().is_empty(),
        ) {
            (true, _) => Reply::error(400, "this model does not support image input"),
            (false, true) => Reply::call("read_file", &json!({"path": "cat.png"})),
            (false, false) => Reply::text("I cannot see it."),
        }
    })
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    home.write("workspace/cat.png", "");
    std::fs::write(home.workspace().join("cat.png"), PIXEL).unwrap();
    let run = home.run(&["agent", "-m", "what is on cat.png?"]).await;
    replied(&run, "I cannot see it.\n");
    let last = model.requests().pop().unwrap();
    assert_says(&last.tool_results()[0], &["PNG picture of 1 × 1 pixels"]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_and_long_messages_reach_the_gateway() {
    let model = model_saying("Seen.").await;
    let home = Home::with_model(&model.base_url());
    std::fs::write(home.path().join("p.png"), PIXEL).unwrap();
    let gateway = crate::gateway::Running::start(&home).await;
    let picture = home.path().join("p.png");
    let arguments = ["agent", "-m", "look", "-f", picture.to_str().unwrap()];
    replied(&home.run(&arguments).await, "Seen.\n");
    let requests = model.requests();
    let user = requests[0].messages().last().unwrap();
    assert_eq!(user["content"][0]["type"], "image_url", "{user}");
    // Longer than a request on the socket may be.
    let lines: String = (0..200_000).map(|line| format!("{line:07}\n")).collect();
    let run = home
        .run_with_input(&["agent", "-m", "sum"], lines.as_bytes())
        .await;
    replied(&run, "Seen.\n");
    assert_says(
        &run.stderr,
        &["The message is long", "kept whole in a file"],
    );
    assert!(kept(&home).ends_with("0199999"));
    let asked = model.requests().last().unwrap().last_user_text();
    assert_says(
        &asked,
        &["sum\n\n[Standard input:]\n0000000\n", "call read_file with"],
    );
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

fn kept(home: &Home) -> String {
    let names = home.names("tool-results");
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].starts_with("message-"), "{names:?}");
    home.read(&format!("tool-results/{}", names[0]))
}

#[tokio::test]
async fn long_message_is_kept_whole_and_can_be_read_on() {
    let model = ModelServer::answering(|request| match request.tool_results().as_slice() {
        [] => {
            let asked = request.last_user_text();
            let path = asked
                .rsplit_once(" kept in ")
                .and_then(|(_, rest)| rest.split_once(". To read on"))
                .map(|(path, _)| path.to_owned());
            Reply::call("read_file", &json!({"path": path, "offset": 9_990}))
        }
        [last] if last.contains("line 9999") => Reply::text("I have read it."),
        other => Reply::text(format!("{other:?}")),
    })
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    let lines: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
    let run = home.run_with_input(&["agent"], lines.as_bytes()).await;
    replied(&run, "I have read it.\n");
    assert_says(
        &run.stderr,
        &["The message is long", "kept whole in a file"],
    );
    assert_eq!(kept(&home), lines.trim_end());
    // The session holds what was sent.
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert_says(&session, &["line 0\\nline 1\\n", "[The whole message has "]);
    assert!(!session.lines().next().unwrap().contains("line 9000"));
}

fn events(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[tokio::test]
async fn events_are_printed_as_json_lines() {
    let call = Reply::call("list_dir", &json!({"path": "."}));
    let model = ModelServer::scripted([call, Reply::text("Two\nlines."), Reply::text("B.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let run = home.run(&["agent", "--json", "-m", "look"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let events = events(&run);
    let types: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!((types[0], *types.last().unwrap()), ("start", "end"));
    assert!(types.contains(&"tool_hint"), "{types:?}");
    assert_eq!(events[0]["session"], "cli:direct");
    let reply = events
        .iter()
        .find(|event| event["type"] == "reply")
        .unwrap();
    assert_eq!(
        (&reply["text"], &reply["ok"]),
        (&json!("Two\nlines."), &json!(true))
    );
    assert_eq!(
        *events.last().unwrap(),
        json!({"type": "end", "ok": true, "code": 0})
    );
    let run = home
        .run_with_input(&["agent", "--json", "--lines"], b"b?\n")
        .await;
    assert_says(&run.stdout, &["\"turn_end\"", "\"B.\""]);
}

#[tokio::test]
async fn failed_turn_ends_with_code_1_in_every_format() {
    let model = ModelServer::answering(|_| Reply::error(401, "no such key"))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let run = home.run(&["agent", "--json", "-m", "look"]).await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    let events = events(&run);
    let reply = events
        .iter()
        .find(|event| event["type"] == "reply")
        .unwrap();
    assert_eq!(reply["ok"], false);
    assert_eq!(
        *events.last().unwrap(),
        json!({"type": "end", "ok": false, "code": 1})
    );
    let quiet = home.run(&["agent", "--quiet", "-m", "look"]).await;
    assert_eq!((quiet.code, quiet.stdout.as_str()), (1, ""));
    assert_says(&quiet.stderr, &["no such key"]);
}

#[tokio::test]
async fn each_line_has_one_end_of_its_turn() {
    let refused = Reply::error(401, "no such key");
    let model = ModelServer::scripted([refused, Reply::text("B.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let run = home
        .run_with_input(&["agent", "--json", "--lines"], b"a?\nb?\n")
        .await;
    let rows = events(&run);
    let ends: Vec<(&str, &Value)> = rows
        .iter()
        .filter_map(|row| Some((row["type"].as_str()?, &row["ok"])))
        .filter(|(kind, _)| ["reply", "turn_end"].contains(kind))
        .collect();
    let (no, yes, none) = (&json!(false), &json!(true), &Value::Null);
    let expected = [
        ("reply", no),
        ("turn_end", none),
        ("reply", yes),
        ("turn_end", none),
    ];
    assert_eq!((run.code, ends.as_slice()), (1, expected.as_slice()));
}

#[tokio::test]
async fn refused_command_fails_in_every_format() {
    let home = Home::new();
    let run = home
        .run(&["agent", "--demo", "--json", "-m", "/nonsense"])
        .await;
    let rows = events(&run);
    let reply = rows.iter().find(|row| row["type"] == "reply").unwrap();
    assert_eq!(reply["ok"], false, "{reply}");
    let end = json!({"type": "end", "ok": false, "code": 1});
    assert_eq!((run.code, rows.last()), (1, Some(&end)));
    let run = home
        .run(&["agent", "--demo", "-q", "-m", "/status x"])
        .await;
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert_says(&run.stderr, &["/status takes no arguments."]);
}

#[tokio::test]
async fn early_failures_are_printed_as_json() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    for (arguments, code) in [
        (&["agent", "--json", "-m", " "][..], 2),
        (&["agent", "--json", "-"], 2),
        (&["agent", "--json", "-m", "看 👀", "-f", "没有.txt"], 2),
        (
            &["--config", "no-such.json", "agent", "--json", "-m", "x"],
            2,
        ),
    ] {
        let run = home.run(arguments).await;
        let rows = events(&run);
        let [.., error, end] = rows.as_slice() else {
            panic!("{arguments:?}: {run:?}")
        };
        assert_eq!(error["type"], "error", "{arguments:?}: {rows:?}");
        let text = error["text"].as_str().unwrap();
        assert!(!text.is_empty() && error["remedy"].is_string(), "{error}");
        assert_eq!(
            (run.code, end),
            (code, &json!({"type": "end", "ok": false, "code": code})),
            "{arguments:?}"
        );
        assert_says(&run.stderr, &[text]);
    }
    home.write("config.json", "{ broken");
    for arguments in [
        &["agent", "--json", "-m", "x"][..],
        &["agent", "--json", "--lines"],
    ] {
        let rows = events(&home.run(arguments).await);
        let types: Vec<&Value> = rows.iter().map(|row| &row["type"]).collect();
        assert_eq!(types, ["error", "end"], "{arguments:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn interrupted_wait_for_input_has_an_end_in_json() {
    use nix::sys::signal::{Signal, kill};
    use tokio::io::AsyncBufReadExt as _;

    let home = Home::new();
    let mut command = home.program();
    command.args(["agent", "--demo", "--json", "-"]);
    let mut child = tokio::process::Command::from(command)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let mut notes = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let note = tokio::time::timeout(crate::support::DEADLINE, notes.next_line());
    let note = note.await.unwrap().unwrap().unwrap();
    assert_says(&note, &["Reading standard input to its end"]);
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill(nix::unistd::Pid::from_raw(id), Signal::SIGINT).unwrap();
    let ended = tokio::time::timeout(crate::support::DEADLINE, child.wait_with_output());
    let output = ended.await.unwrap().unwrap();
    drop(input);
    let end: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), end),
        (Some(130), json!({"type": "end", "ok": false, "code": 130}))
    );
}

#[tokio::test]
async fn short_session_name_is_reported_as_its_key() {
    let home = Home::new();
    for (session, key) in [("jl", "cli:jl"), ("telegram:7", "telegram:7")] {
        let arguments = ["agent", "--demo", "--json", "-s", session, "-m", "/status"];
        let rows = events(&home.run(&arguments).await);
        assert_eq!(rows[0]["session"], key, "{rows:?}");
    }
}

#[tokio::test]
async fn person_is_informed_if_a_long_message_cannot_be_kept() {
    let model = model_saying("Seen.").await;
    let home = Home::with_model(&model.base_url());
    // A file in place of the folder, like a disk that accepts no files.
    home.write("tool-results", "");
    let lines: String = (0..5_000)
        .map(|line| format!("第 {line} 行 🙂\n"))
        .collect();
    for arguments in [&["agent"][..], &["agent", "--json"]] {
        let run = home.run_with_input(arguments, lines.as_bytes()).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        let shown = run.stdout + &run.stderr;
        assert_says(&shown, &["Seen.", "could not be kept in a file"]);
    }
}

#[tokio::test]
async fn quiet_prints_the_reply_alone() {
    let home = Home::new();
    // Without a model, the demo would introduce itself on standard error.
    let run = home.run(&["agent", "--demo", "-q", "-m", "hello"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(!run.stdout.is_empty());
    let lines = home
        .run_with_input(
            &["agent", "--demo", "-q", "--lines"],
            b"what files are here?\n",
        )
        .await;
    assert_eq!((lines.code, lines.stderr.as_str()), (0, ""));
}

#[cfg(unix)]
#[tokio::test]
async fn size_of_a_terminal_that_is_not_there_starts_no_program() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let programs = tempfile::tempdir().unwrap();
    let started = programs.path().join("started");
    let tput = programs.path().join("tput");
    let script = format!("#!/bin/sh\n/bin/date >> '{}'\n", started.display());
    std::fs::write(&tput, script).unwrap();
    std::fs::set_permissions(&tput, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut program = home.program();
    program
        .args(["agent", "--demo", "-m", "hello"])
        .env("PATH", programs.path());
    let run = finish(program, b"").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!started.exists(), "tput was started");
}
