//! Matrix: an encrypted room through the program `nanobot-matrix-crypto`, drafts, and the login.

#[path = "../../../../crates/platforms/channel-matrix/tests/matrix/friend.rs"]
#[expect(clippy::panic, reason = "tests stop at the first surprise")]
mod friend;

use std::os::unix::fs::PermissionsExt as _;

use nanobot_channel_matrix_fake::{self as matrix, MatrixFake, Person, SentMessage};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};
use friend::Friend;

fn ann() -> Person {
    Person::new("ann")
}

fn members() -> [String; 2] {
    [ann().user_id, matrix::BOT_ID.to_owned()]
}

async fn model() -> ModelServer {
    ModelServer::answering(|request| Reply::text(format!("I read: {}", request.last_user_text())))
        .await
        .unwrap()
}

fn home(model: &ModelServer, fake: &MatrixFake) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"matrix": {
            "enabled": true, "homeserver": fake.url(), "userId": matrix::BOT_ID,
            "accessToken": matrix::BOT_TOKEN, "allowFrom": [ann().user_id], "streaming": false,
        }},
    }));
    home
}

/// Reads the encrypted answer to a text.
async fn read_answer(friend: &mut Friend, text: &str) {
    let answer = format!("I read: {text}");
    let is_answer = |content: &Value| {
        let body = content["body"].as_str().unwrap_or_default();
        body.starts_with(&answer)
    };
    friend.read(&ann().direct(), is_answer).await;
}

#[tokio::test]
async fn encrypted_conversation_survives_a_kill() {
    let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
    fake.add_person(&ann());
    let home = home(&model, &fake);
    let room = ann().direct();
    let mut friend = Friend::log_in(&fake, &ann(), &home.path().join("friend")).await;
    fake.encrypt(&room);
    let gateway = Running::start(&home).await;
    // The keys of the assistant are known, and what comes from now on is news.
    fake.wait_for_calls("keys.upload", 1).await.unwrap();
    fake.wait_for_waiting_syncs(1).await.unwrap();
    friend.say(&room, &members(), "the first secret").await;
    read_answer(&mut friend, "the first secret").await;
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
    friend.say(&room, &members(), "the second secret").await;
    let gateway = Running::start(&home).await;
    read_answer(&mut friend, "the second secret").await;
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
    let gateway = Running::start(&home).await;
    friend.say(&room, &members(), "the third secret").await;
    read_answer(&mut friend, "the third secret").await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let sent: Vec<String> = fake.sent().into_iter().map(|sent| sent.kind).collect();
    assert_eq!(sent, ["m.room.encrypted"; 3]);
    let events = fake.events(&room).into_iter();
    let clear: Vec<String> = events
        .map(|event| event.to_string())
        .filter(|event| event.contains("secret") || event.contains("I read"))
        .collect();
    assert_eq!(clear, Vec::<String>::new());
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

/// The password comes from a pipe, and the session that it makes is the one of the gateway.
#[tokio::test]
async fn login_by_password_writes_the_section() {
    let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
    fake.add_person(&ann());
    let home = home(&model, &fake);
    let mut config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"] = json!({"matrix": {
        "enabled": false, "allowFrom": [ann().user_id], "streaming": false,
    }});
    home.configure(&config);
    let before = home.read("config.json");
    let login = ["channels", "login", "matrix"];
    // The third line leaves the access token out.
    let given = |password: &str| format!("{}\n{}\n\n{password}\n", fake.url(), matrix::BOT_ID);
    let wrong = home
        .run_with_input(&login, given("wr0ng-pass").as_bytes())
        .await;
    assert_eq!(wrong.code, 1, "{}", wrong.stdout);
    assert_says(
        &wrong.stderr,
        &[
            "accessToken: the access token of a session of a client (optional; leave empty to log",
            "Nothing was written",
            "refuses",
        ],
    );
    assert!(!(wrong.stdout + &wrong.stderr).contains("wr0ng-pass"));
    assert_eq!(home.read("config.json"), before);

    let right = home
        .run_with_input(&login, given(matrix::BOT_PASSWORD).as_bytes())
        .await;
    assert_eq!(right.code, 0, "{}", right.stderr);
    assert_says(&right.stdout, &[matrix::BOT_ID, "channel matrix is on"]);
    let shown = right.stdout + &right.stderr;
    assert!(!shown.contains(matrix::BOT_PASSWORD), "{shown}");
    config["channels"]["matrix"]["enabled"] = json!(true);
    config["channels"]["matrix"]["homeserver"] = json!(fake.url());
    config["channels"]["matrix"]["userId"] = json!(matrix::BOT_ID);
    config["channels"]["matrix"]["password"] = json!(matrix::BOT_PASSWORD);
    let written: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(written, config);
    let session = home.path().join("matrix-store/session.json");
    let mode = std::fs::metadata(session).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let logins = fake.calls_of("login").len();
    let gateway = Running::start(&home).await;
    fake.wait_for_waiting_syncs(1).await.unwrap();
    fake.says(&ann(), "hello");
    until("the answer is there", async || {
        !fake.texts_in(&ann().direct()).is_empty()
    })
    .await;
    assert_eq!(
        fake.calls_of("login").len(),
        logins,
        "one session is enough"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

/// With an access token, the login does not ask for the password. `-` removes the token again.
#[tokio::test]
async fn login_by_access_token_asks_for_no_password() {
    let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
    let home = home(&model, &fake);
    let mut config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"] = json!({});
    home.configure(&config);
    let login = ["channels", "login", "matrix"];
    let given = |token: &str| format!("{}\n{}\n{token}\n", fake.url(), matrix::BOT_ID);
    let wrong = home
        .run_with_input(&login, given("wr0ng-token").as_bytes())
        .await;
    assert_eq!(wrong.code, 1, "{}", wrong.stdout);
    assert_says(&wrong.stderr, &["Nothing was written", "check accessToken"]);
    let right = home
        .run_with_input(&login, given(matrix::BOT_TOKEN).as_bytes())
        .await;
    assert_eq!(right.code, 0, "{}", right.stderr);
    assert!(!right.stderr.contains("password:"), "{}", right.stderr);
    let shown = right.stdout + &right.stderr + &wrong.stdout + &wrong.stderr;
    assert!(!shown.contains(matrix::BOT_TOKEN), "{shown}");
    assert!(!shown.contains("wr0ng-token"), "{shown}");
    let section = json!({
        "enabled": true, "homeserver": fake.url(), "userId": matrix::BOT_ID,
        "accessToken": matrix::BOT_TOKEN,
    });
    let written: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(written["channels"]["matrix"], section);

    let kept = home.run_with_input(&login, b"\n\n\n").await;
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    let answers = format!("\n\n-\n{}\n", matrix::BOT_PASSWORD);
    let removed = home.run_with_input(&login, answers.as_bytes()).await;
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_says(
        &removed.stderr,
        &["(Enter keeps what is set, - removes it)"],
    );
    let written: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(written["channels"]["matrix"]["accessToken"], "");
    assert_eq!(
        written["channels"]["matrix"]["password"],
        matrix::BOT_PASSWORD
    );
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

/// Neither a token nor a password was given.
#[tokio::test]
async fn login_without_a_secret_names_what_is_missing() {
    let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
    let home = home(&model, &fake);
    let mut config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"] = json!({});
    home.configure(&config);
    let before = home.read("config.json");
    let answers = format!("{}\n{}\n\n\n", fake.url(), matrix::BOT_ID);
    let login = ["channels", "login", "matrix"];
    let run = home.run_with_input(&login, answers.as_bytes()).await;
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert_says(
        &run.stderr,
        &[
            "channels.matrix.password is needed, and nothing was given",
            "Give a line of input for each",
        ],
    );
    // Each question begins a line, also without a terminal.
    let questions = run.stderr.lines().filter(|line| *line == "> ");
    assert_eq!(questions.count(), 4, "{}", run.stderr);
    assert_eq!(home.read("config.json"), before);
}

/// The gateway is killed before it learns the id of the message that shows a growing reply.
#[tokio::test]
async fn draft_without_an_id_is_removed_after_a_kill() {
    for is_encrypted in [false, true] {
        let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
        fake.add_person(&ann());
        let (room, home) = (ann().direct(), home(&model, &fake));
        let mut config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
        config["channels"]["matrix"]["streaming"] = json!(true);
        config["channels"]["matrix"]["reactEmoji"] = json!("");
        home.configure(&config);
        let mut friend = Friend::log_in(&fake, &ann(), &home.path().join("friend")).await;
        if is_encrypted {
            fake.encrypt(&room);
        }
        let gateway = Running::start(&home).await;
        if is_encrypted {
            fake.wait_for_calls("keys.upload", 1).await.unwrap();
        }
        fake.wait_for_waiting_syncs(1).await.unwrap();
        fake.fail_next("send", matrix::Fault::HangAfterEffect);
        if is_encrypted {
            friend.say(&room, &members(), "hello").await;
        } else {
            fake.says(&ann(), "hello");
        }
        let first = |sent: &[SentMessage]| sent.first().map(|sent| sent.event_id.clone());
        let draft = fake.wait_for("a draft", first).await.unwrap();
        gateway.signal(Signal::SIGKILL);
        gateway.end().await;
        let gateway = Running::start(&home).await;
        let is_removed = |sent: &[SentMessage]| {
            let shown: Vec<&SentMessage> = sent.iter().filter(|sent| !sent.is_redacted).collect();
            let is_answered = matches!(shown.as_slice(), [one] if one.event_id != draft);
            is_answered.then_some(())
        };
        let removed = fake.wait_for("the answer without the draft", is_removed);
        removed.await.unwrap();
        if is_encrypted {
            read_answer(&mut friend, "hello").await;
        } else {
            assert!(fake.texts_in(&room)[0].starts_with("I read: hello"));
        }
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }
}
