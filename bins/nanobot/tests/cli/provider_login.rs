//! Logins at providers with the built program: in a browser, by a pasted code and with a device code;
//! their use in a turn, and logout.

use std::process::Stdio;

use nanobot_testkit::mcp_server::visit;
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply, SignInServer};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::support::{DEADLINE, Home, Run, assert_says};

/// How the answer of the browser arrives.
#[derive(Clone, Copy)]
enum Answer {
    /// By the loopback port.
    Browser,
    /// The code alone, on standard input.
    PastedCode,
}

fn configure(home: &Home, login: &SignInServer, model: &ModelServer, wanted: &str) {
    home.configure(&json!({
        "agents": {"defaults": {"model": wanted}},
        "providers": {
            "openaiCodex": {"loginBase": login.url(), "apiBase": model.base_url()},
            "githubCopilot": {"loginBase": login.url()},
            "xaiGrok": {"loginBase": login.url(), "apiBase": model.base_url()},
        },
    }));
}

async fn model(login: &SignInServer) -> ModelServer {
    let model = ModelServer::answering(|request: &ModelRequest| {
        match request.http.header("authorization") {
            Some(_) => Reply::text("Hello."),
            None => Reply::error(401, "no token"),
        }
    });
    let model = model.await.unwrap();
    login.set_api(model.base_url());
    model
}

/// Runs `nanobot provider login NAME` as a person with a browser.
async fn log_in(home: &Home, name: &str, answer: Answer) -> Run {
    tokio::time::timeout(DEADLINE, log_in_slowly(home, name, answer))
        .await
        .expect("the login ends in time")
}

async fn log_in_slowly(home: &Home, name: &str, answer: Answer) -> Run {
    let mut command = Command::from(home.program());
    command
        .args(["provider", "login", name])
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
        Answer::PastedCode => {
            let (_, code) = last.split_once("code=").unwrap();
            let code = code.split('&').next().unwrap();
            let line = format!("\n{code}\n");
            stdin.write_all(line.as_bytes()).await.unwrap();
        }
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

async fn assert_answers(home: &Home) {
    let run = home.run(&["agent", "-m", "Hi"]).await;
    assert_eq!(
        (run.code, run.stdout.trim()),
        (0, "Hello."),
        "{}",
        run.stderr
    );
}

#[tokio::test]
async fn codex_login_turn_and_logout() {
    let login = SignInServer::start().await.unwrap();
    let model = model(&login).await;
    let home = Home::new();
    configure(&home, &login, &model, "openai-codex/gpt-5.3-codex");

    let run = home.run(&["agent", "-m", "Hi"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &(run.stdout + &run.stderr),
        &["nanobot provider login openai-codex"],
    );

    for answer in [Answer::Browser, Answer::PastedCode] {
        let run = log_in(&home, "openai-codex", answer).await;
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert_says(&run.stdout, &["Logged in to OpenAI Codex."]);
        assert_answers(&home).await;
    }
    let status = home.run(&["provider", "status"]).await.stdout;
    assert_says(
        &status,
        &[
            "OpenAI Codex: logged in",
            "Github Copilot: not logged in",
            "xAI Grok: not logged in",
        ],
    );
    let json = home.run(&["provider", "status", "--json"]).await.stdout;
    let whole = home.run(&["status"]).await.stdout;
    assert_says(&whole, &["OpenAI Codex: logged in"]);
    for token in login.tokens() {
        assert!(!status.contains(&token) && !json.contains(&token) && !whole.contains(&token));
    }

    let run = home.run(&["provider", "logout", "openai-codex"]).await;
    assert_says(&run.stdout, &["Logged out of openai-codex."]);
    let run = home.run(&["provider", "logout", "openai-codex"]).await;
    assert_says(&run.stdout, &["There is no login at openai-codex."]);
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn grok_login_turn_and_logout() {
    let login = SignInServer::start().await.unwrap();
    let model = model(&login).await;
    let home = Home::new();
    configure(&home, &login, &model, "xai-grok/grok-4.5");
    for answer in [Answer::Browser, Answer::PastedCode] {
        let run = log_in(&home, "xai-grok", answer).await;
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert_says(&run.stdout, &["Logged in to xAI Grok."]);
        assert_answers(&home).await;
    }
    let status = home.run(&["provider", "status"]).await.stdout;
    assert_says(&status, &["xAI Grok: logged in"]);
    for token in login.tokens() {
        assert!(!status.contains(&token), "{status}");
    }
    let run = home.run(&["provider", "logout", "xai-grok"]).await;
    assert_says(&run.stdout, &["Logged out of xai-grok."]);

    // Tokens without a lifetime left are renewed before each request.
    login.set_life(0);
    log_in(&home, "xai-grok", Answer::Browser).await;
    assert_answers(&home).await;
    login.end_logins();
    let run = home.run(&["agent", "-m", "Hi"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &(run.stdout + &run.stderr),
        &["the login has ended", "nanobot provider login xai-grok"],
    );
    let status = home.run(&["provider", "status"]).await.stdout;
    assert_says(&status, &["xAI Grok: not logged in"]);
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn copilot_login_with_a_device_code() {
    let login = SignInServer::start().await.unwrap();
    let model = model(&login).await;
    let home = Home::new();
    configure(&home, &login, &model, "github-copilot/gpt-5");
    let run = home.run(&["provider", "login", "github-copilot"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_says(
        &run.stdout,
        &[
            "https://github.com/login/device",
            "WDJB-MJHT",
            "Logged in to Github Copilot.",
        ],
    );
    assert_answers(&home).await;

    login.set_progress([json!({"error": "access_denied"})]);
    let run = home.run(&["provider", "login", "github-copilot"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &["Github Copilot", "it was denied"]);
    // The login before it is still there.
    assert_answers(&home).await;
}

#[tokio::test]
async fn providers_without_a_login_are_named() {
    let home = Home::new();
    let run = home.run(&["provider", "login", "openai"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &run.stderr,
        &["these have one: openai-codex, github-copilot, xai-grok"],
    );
}
