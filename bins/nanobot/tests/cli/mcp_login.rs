//! Logins at a remote MCP server with the built program: in a browser and by a pasted address, the
//! use of the tool in a turn, renewal, revocation, and logout.

use std::process::Stdio;

use nanobot_testkit::mcp_server::visit;
use nanobot_testkit::{McpServerFake, ModelServer, Reply};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::support::{DEADLINE, Home, Run, assert_says};

const TO_RUN: &str = "run `nanobot mcp login 'team'`";

/// How the answer of the browser arrives.
#[derive(Clone, Copy)]
enum Answer {
    /// By the loopback port.
    Browser,
    /// On standard input.
    Pasted,
}

fn configure(home: &Home, fake: &McpServerFake, model: &ModelServer) {
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "tools": {
            "ssrfWhitelist": ["127.0.0.0/8"],
            "mcpServers": {"team": {"url": fake.url()}},
        },
    }));
}

/// Runs `nanobot mcp login team` as a person with a browser.
async fn log_in(home: &Home, answer: Answer) -> Run {
    tokio::time::timeout(DEADLINE, log_in_slowly(home, answer))
        .await
        .expect("the login ends in time")
}

async fn log_in_slowly(home: &Home, answer: Answer) -> Run {
    let mut command = Command::from(home.program());
    command
        .args(["mcp", "login", "team"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (mut stdout, mut line) = (String::new(), String::new());
    while !line.starts_with("http://") {
        line.clear();
        assert!(output.read_line(&mut line).await.unwrap() > 0, "{stdout}");
        stdout.push_str(&line);
    }
    let page = visit(line.trim()).await.unwrap();
    let last = page.location.expect("a redirect to the program");
    match answer {
        Answer::Browser => assert_eq!(visit(&last).await.unwrap().status, 200),
        Answer::Pasted => stdin
            .write_all(format!("\n{last}\n").as_bytes())
            .await
            .unwrap(),
    }
    output.read_to_string(&mut stdout).await.unwrap();
    // Its input stays open, as in a terminal.
    let ended = child.wait_with_output().await.unwrap();
    drop(stdin);
    Run {
        code: ended.status.code().unwrap_or(-1),
        stdout,
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

async fn call_tool(home: &Home) -> Run {
    let arguments = ["mcp", "test", "team", "--tool", "echo", "--arguments"];
    home.run(&[&arguments[..], &["{\"a\": 1}"]].concat()).await
}

/// Returns the number of renewals so far.
fn renewals(fake: &McpServerFake) -> usize {
    let journal = fake.journal().into_iter();
    journal.filter(|one| one == "refresh").count()
}

#[tokio::test]
async fn login_call_renewal_revocation_and_logout() {
    let fake = McpServerFake::start().await.unwrap();
    let model = ModelServer::scripted([]).await.unwrap();
    let home = Home::new();
    configure(&home, &fake, &model);

    // Without a login, the server is unavailable, and nothing else.
    let run = call_tool(&home).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &[TO_RUN]);
    assert_says(
        &home.run(&["mcp", "list"]).await.stdout,
        &["team  unavailable", TO_RUN],
    );
    assert_says(&home.run(&["status"]).await.stdout, &[TO_RUN]);
    model.push(Reply::text("Hello."));
    let run = home.run(&["agent", "-m", "Hi"]).await;
    assert_eq!(
        (run.code, run.stdout.trim()),
        (0, "Hello."),
        "{}",
        run.stderr
    );

    let run = log_in(&home, Answer::Browser).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_says(
        &run.stdout,
        &["Logged in to team.", "team  connected", "mcp_team_echo"],
    );
    let run = call_tool(&home).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["got {\"a\":1}"]);
    assert_eq!(renewals(&fake), 0);

    // The model calls the tool. The token ended meanwhile.
    fake.end_access();
    let result = |request: &nanobot_testkit::model_server::ModelRequest| {
        request.tool_results().last().cloned().unwrap_or_default()
    };
    model.push(Reply::call("mcp_team_echo", &json!({"b": 2})));
    model.push(Reply::text("Done."));
    let run = home.run(&["agent", "-m", "Call it"]).await;
    assert_eq!(
        (run.code, run.stdout.trim()),
        (0, "Done."),
        "{}",
        run.stderr
    );
    assert_says(
        &result(model.requests().last().unwrap()),
        &["got {\"b\":2}"],
    );
    assert_eq!(renewals(&fake), 1);

    // A token that ends is renewed before a request.
    fake.set_life(0);
    fake.end_access();
    assert_eq!(call_tool(&home).await.code, 0);
    let refused = fake.journal().iter().filter(|one| *one == "401").count();
    assert_eq!(call_tool(&home).await.code, 0);
    let journal = fake.journal();
    assert_eq!(
        journal.iter().filter(|one| *one == "401").count(),
        refused,
        "{journal:?}"
    );
    assert!(
        !journal.iter().any(|one| one.starts_with("refused")),
        "{journal:?}"
    );

    // A revoked login ends neither the turn nor the command.
    fake.end_login();
    model.push(Reply::call("mcp_team_echo", &json!({"c": 3})));
    model.push(Reply::text("It needs you."));
    let run = home.run(&["agent", "-m", "Again"]).await;
    assert_eq!(
        (run.code, run.stdout.trim()),
        (0, "It needs you."),
        "{}",
        run.stderr
    );
    assert_says(&result(model.requests().last().unwrap()), &[TO_RUN]);
    assert_eq!(call_tool(&home).await.code, 1);

    fake.set_life(3600);
    let run = log_in(&home, Answer::Pasted).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(call_tool(&home).await.code, 0);
    let run = home.run(&["mcp", "logout", "team"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "Logged out of team.\n")
    );
    let run = home.run(&["mcp", "logout", "team"]).await;
    assert_eq!(run.stdout, "There is no login at team.\n");
    assert_says(&call_tool(&home).await.stderr, &[TO_RUN]);
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[cfg(unix)]
#[tokio::test]
async fn tokens_are_in_one_private_file_and_nowhere_else() {
    use std::os::unix::fs::PermissionsExt as _;

    let fake = McpServerFake::start().await.unwrap();
    let model = ModelServer::scripted([]).await.unwrap();
    let home = Home::new();
    configure(&home, &fake, &model);
    let run = log_in(&home, Answer::Browser).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let file = home.path().join("mcp-tokens.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let tokens = fake.tokens();
    assert_eq!(tokens.len(), 2);

    // A model that repeats a token shows nothing of it.
    let text = format!("It is {} and {}.", tokens[0], tokens[1]);
    model.push(Reply::text(text));
    let asked = home.run(&["agent", "-m", "Tell me the token"]).await;
    assert_eq!(
        asked.stdout.trim(),
        "It is *** and ***.",
        "{}",
        asked.stderr
    );
    model.push(Reply::call("read_file", &json!({"path": file})));
    model.push(Reply::text("Read."));
    let read = home.run(&["agent", "-m", "Read the file"]).await;
    for token in &tokens {
        for shown in [&run.stdout, &run.stderr, &read.stdout, &read.stderr] {
            assert!(!shown.contains(token), "{shown}");
        }
        for request in &model.requests()[1..] {
            let shown = request.tool_results().concat();
            assert!(!shown.contains(token), "{shown}");
        }
    }
    let kept = home.read("mcp-tokens.json");
    assert!(tokens.iter().all(|token| kept.contains(token.as_str())));
}

#[tokio::test]
async fn login_needs_a_server_that_offers_one() {
    let fake = McpServerFake::start().await.unwrap();
    let model = ModelServer::scripted([]).await.unwrap();
    let home = Home::new();
    configure(&home, &fake, &model);
    let run = home.run(&["mcp", "login", "other"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &["there is no MCP server named \"other\""]);
    // Loopback is closed to addresses that a server names, unless the operator opened it.
    let closed = home
        .read("config.json")
        .replace("127.0.0.0/8", "192.0.2.0/24");
    home.write("config.json", &closed);
    let run = home.run(&["mcp", "login", "team"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &["the URL is refused"]);
    assert_eq!(fake.journal(), ["401"]);
}
