//! Output of `nanobot channels` and the health endpoint while a platform fails in various ways, and
//! changes of the configuration under a running gateway.

use std::os::unix::fs::PermissionsExt as _;

use nanobot_channel_email_fake::{self as mail, MailFake};
use nanobot_channel_mochat_fake::{self as mochat, MochatFake};
use nanobot_channel_qq_fake::{self as qq, QqFake};
use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_channel_wecom_fake::{self as wecom, WeComFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::support::{Home, assert_says, until};

fn ann() -> Person {
    Person::new(7, "Ann", "ann")
}

/// A platform, a model, and homes that use them.
struct World {
    telegram: TelegramFake,
    model: ModelServer,
}

impl World {
    async fn new() -> Self {
        let model = ModelServer::answering(|request| {
            Reply::text(format!("I read: {}", request.last_user_text()))
        });
        Self {
            telegram: TelegramFake::start().await.unwrap(),
            model: model.await.unwrap(),
        }
    }

    /// Returns the channel's section with these keys in addition to the usual ones.
    fn section(&self, keys: &Value) -> Value {
        let mut section = json!({
            "enabled": true, "token": TOKEN, "apiBase": self.telegram.api_base(), "allowFrom": ["*"],
            "streaming": false, "reactEmoji": "", "pollTimeout": 1, "aliveWithinS": 4,
        });
        section
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        section
    }

    fn config(&self, channels: &Value) -> Value {
        json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": self.model.base_url()}},
            "channels": channels,
        })
    }

    fn home(&self, channels: &Value) -> Home {
        let home = Home::new();
        home.configure(&self.config(channels));
        home
    }

    /// Sends a message and waits for the answer.
    async fn ask(&self, text: &str) {
        self.telegram.push(Incoming::private(&ann(), text));
        let answer = format!("I read: {text}");
        let answered = || {
            self.telegram
                .texts_in(ann().id)
                .iter()
                .filter(|text| text.starts_with(&answer))
                .count()
        };
        until("the message is answered", async || answered() > 0).await;
        assert_eq!(answered(), 1, "{text}");
    }
}

/// Returns the report of a channel in `channels status --json`.
async fn report(home: &Home, name: &str) -> Value {
    let run = home.run(&["channels", "status", "--json"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let reports: Value = serde_json::from_str(&run.stdout).unwrap();
    reports
        .as_array()
        .unwrap()
        .iter()
        .find(|report| report["name"] == name)
        .cloned()
        .unwrap_or_default()
}

/// Waits until a channel is reported with this state and reason.
async fn assert_channel_state(home: &Home, name: &str, state: &str, why: &str) {
    until(
        &format!("{name} is {state} because of {why:?}"),
        async || {
            let report = report(home, name).await;
            report["state"] == state && report["why"].as_str().unwrap_or_default().contains(why)
        },
    )
    .await;
}

#[tokio::test]
async fn status_follows_outages_stalls_and_a_revoked_token() {
    let world = World::new().await;
    let home = world.home(&json!({
        "telegram": world.section(&json!({})), "websocket": {"enabled": false}, "pigeons": {"enabled": true},
    }));
    assert_channel_state(&home, "telegram", "stopped", "").await;
    assert_channel_state(&home, "websocket", "off", "").await;
    assert_channel_state(&home, "pigeons", "failed", "no channel of kind `pigeons`").await;
    let gateway = Running::start(&home).await;
    assert_channel_state(&home, "telegram", "running", "").await;
    assert_channel_state(&home, "pigeons", "failed", "no channel of kind `pigeons`").await;
    world.ask("before").await;

    world.telegram.server().go_down().await.unwrap();
    assert_channel_state(
        &home,
        "telegram",
        "degraded",
        "the platform cannot be reached",
    )
    .await;
    let since = report(&home, "telegram").await["since"].clone();
    assert!(since.is_string(), "{since}");
    assert_says(
        &home.run(&["status"]).await.stdout,
        &[
            "Channel telegram: degraded since ",
            "Channel websocket: off",
        ],
    );
    let probed = home.run(&["channels", "status", "--probe"]).await;
    assert_eq!(probed.code, 1, "{}", probed.stdout);
    assert_says(
        &probed.stdout,
        &[
            "telegram: degraded",
            "asking its platform failed: the platform cannot be",
        ],
    );
    // The credentials are not at fault, so the remedy does not ask for new ones.
    let tested = home.run(&["channels", "test", "telegram"]).await;
    assert_eq!(tested.code, 1, "{}", tested.stdout);
    assert_says(&tested.stderr, &["cannot be reached", "Check the network"]);
    assert!(!tested.stderr.contains("login"), "{}", tested.stderr);
    world.telegram.server().come_back().await.unwrap();
    assert_channel_state(&home, "telegram", "running", "").await;
    world.ask("after the outage").await;

    // The platform accepts connections and answers nothing.
    world.telegram.server().stall();
    assert_channel_state(&home, "telegram", "degraded", "").await;
    world.telegram.server().recover();
    assert_channel_state(&home, "telegram", "running", "").await;
    world.ask("after the silence").await;

    world.telegram.revoke_token();
    assert_channel_state(
        &home,
        "telegram",
        "failed",
        "the platform refuses the credentials",
    )
    .await;
    assert_says(
        &gateway.health().await,
        &["503", "\"failed\"", "refuses the credentials"],
    );
    assert_says(
        &home.run(&["doctor"]).await.stdout,
        &["✗ channels.telegram cannot run: the platform refuses the credentials"],
    );
    let tested = home.run(&["channels", "test", "telegram"]).await;
    assert_says(&tested.stderr, &["`nanobot channels login telegram`"]);
    // Nothing is tried until the channel gets another token, or an hour has passed.
    world.telegram.restore_token();
    let calls = world.telegram.calls().len();
    assert_channel_state(&home, "telegram", "failed", "").await;
    assert_eq!(world.telegram.calls().len(), calls);
    home.configure(&world.config(&json!({"telegram": world.section(&json!({"pollTimeout": 2}))})));
    assert_channel_state(&home, "telegram", "running", "").await;
    world.ask("after the repair").await;
    assert_says(&gateway.health().await, &["200 OK", "\"running\""]);
    let log = home.read("logs/gateway.log");
    assert_eq!(
        log.matches("the channel cannot run until this is fixed")
            .count(),
        1,
        "{log}"
    );
    assert!(!log.contains(TOKEN), "{log}");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn login_enables_a_channel_of_a_running_gateway() {
    let world = World::new().await;
    // A busy disk must not make the supervisor end the channel in the middle of a send.
    let keys = json!({"enabled": false, "aliveWithinS": 120, "unheardOf": {"kept": 1}});
    let mut section = world.section(&keys);
    section.as_object_mut().unwrap().remove("token");
    let home = world.home(&json!({"telegram": section}));
    let gateway = Running::start(&home).await;
    assert_channel_state(&home, "telegram", "off", "").await;

    let before = home.read("config.json");
    let wrong = home
        .run_with_input(&["channels", "login", "telegram"], b"1:wrong\n")
        .await;
    assert_eq!(wrong.code, 1, "{}", wrong.stdout);
    assert_says(
        &wrong.stderr,
        &[
            "token: the bot's token",
            "@BotFather",
            "Nothing was written",
            "refuses",
            "try:",
        ],
    );
    let nothing = home
        .run_with_input(&["channels", "login", "telegram"], b"")
        .await;
    assert_eq!(nothing.code, 2, "{}", nothing.stdout);
    assert_says(&nothing.stderr, &["channels.telegram.token is needed"]);
    assert_eq!(home.read("config.json"), before);

    let given = format!("{TOKEN}\n");
    let right = home
        .run_with_input(&["channels", "login", "telegram"], given.as_bytes())
        .await;
    assert_eq!(right.code, 0, "{}", right.stderr);
    assert_says(
        &right.stdout,
        &[
            "The platform answers: ",
            "nanobot_test_bot",
            "channel telegram is on",
        ],
    );
    assert!(!(right.stdout + &right.stderr).contains(TOKEN));
    let written: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    let mut expected = world.config(&json!({"telegram": section}));
    expected["channels"]["telegram"]["enabled"] = json!(true);
    expected["channels"]["telegram"]["token"] = json!(TOKEN);
    assert_eq!(written, expected);
    let mode = std::fs::metadata(home.path().join("config.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_channel_state(&home, "telegram", "running", "").await;
    world.ask("hello").await;

    // Half a file and an empty one change nothing; a whole one removes the channel.
    home.write("config.json", "{\"channels\": {");
    until("it was read", async || {
        home.read("logs/gateway.log")
            .contains("the changed configuration is invalid")
    })
    .await;
    world.ask("still there?").await;
    home.write("config.json", "");
    until("it was seen", async || {
        home.read("logs/gateway.log")
            .contains("the configuration file is empty")
    })
    .await;
    world.ask("and with an empty one?").await;
    home.configure(&world.config(&json!({"telegram": world.section(&json!({"enabled": false}))})));
    assert_channel_state(&home, "telegram", "off", "").await;
    until("nobody polls", async || {
        home.read("logs/gateway.log").contains("no longer enabled")
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn login_of_an_unknown_platform_suggests_one() {
    let home = Home::new();
    for (name, remedy) in [
        (
            "telegramm",
            "try: Did you mean `telegram`? `nanobot channels login telegram`",
        ),
        (
            "Feishu",
            "try: Did you mean `feishu`? `nanobot channels login feishu`",
        ),
        ("Lark", "try: Did you mean `feishu`?"),
        ("fax", "try: Name one of these."),
    ] {
        let run = home.run(&["channels", "login", name]).await;
        assert_eq!(run.code, 2, "{}", run.stdout);
        assert_says(
            &run.stderr,
            &["there are: dingtalk, discord, email", remedy],
        );
    }
}

#[tokio::test]
async fn typed_token_is_not_echoed() {
    let world = World::new().await;
    let home =
        world.home(&json!({"telegram": world.section(&json!({"enabled": false, "token": ""}))}));
    // The terminal blocks its thread, and the platform has to answer at the same time.
    let screen = tokio::task::spawn_blocking(move || {
        let mut screen = Screen::open(&home, &["channels", "login", "telegram"]);
        screen.wait_for("> ");
        screen.type_in(&format!("{TOKEN}\n"));
        screen.wait_for("channel telegram is on");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        assert!(home.read("config.json").contains(TOKEN));
        screen.text.clone()
    });
    let text = screen.await.unwrap();
    assert!(!text.contains(TOKEN), "{text}");
}

#[tokio::test]
async fn email_login_learns_the_authserv_id() {
    let fake = MailFake::start().await.unwrap();
    let home = Home::new();
    home.configure(&json!({"channels": {"email": {
        "enabled": false, "consentGranted": true, "imapHost": "127.0.0.1", "imapPort": fake.imap_port(),
        "imapUsername": mail::USER, "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
        "smtpHost": "127.0.0.1", "smtpPort": fake.smtp_port(), "smtpUsername": mail::USER,
        "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "idleSeconds": 1, "requestTimeout": 10,
    }}}));
    let script = home
        .run_with_input(&["channels", "login", "email"], "\n".repeat(7).as_bytes())
        .await;
    assert_eq!(script.code, 0, "{}", script.stderr);
    assert_says(
        &script.stderr,
        &["channels.email.authservId is not set yet"],
    );
    let doctor = home.run(&["doctor"]).await;
    assert_says(
        &doctor.stdout,
        &["channels.email.authservId is not set, so no mail is believed"],
    );
    let (sender, code) = tokio::sync::oneshot::channel();
    let screen = tokio::task::spawn_blocking(move || {
        let mut screen = Screen::open(&home, &["channels", "login", "email"]);
        for key in [
            "imapHost",
            "imapUsername",
            "imapPassword",
            "smtpHost",
            "smtpUsername",
            "smtpPassword",
            "consent",
        ] {
            screen.wait_for(key);
            screen.wait_for("> ");
            screen.type_in("\n");
        }
        screen.wait_for("Enter goes on without");
        let code = screen
            .text
            .split_whitespace()
            .find(|word| word.starts_with("nanobot-"))
            .unwrap()
            .to_owned();
        sender.send(code).unwrap();
        screen.wait_for("channel email is on");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        home
    });
    let code = code.await.unwrap();
    let mail = |server: &str, subject: &str| {
        let report = format!("Authentication-Results: {server}; dkim=pass header.d=home.test");
        fake.push(format!(
            "{report}\r\nFrom: me@home.test\r\nSubject: {subject}\r\n\r\nhi\r\n"
        ))
    };
    // A stranger does not know the code. This mail is read before the other one arrives.
    let strangers = mail("mx.evil.test", "nanobot-000000000000");
    fake.wait_for_command("UID FETCH", 1).await.unwrap();
    let mails = [strangers, mail("mx.bot.test", &code)];
    let home = screen.await.unwrap();
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(config["channels"]["email"]["authservId"], "mx.bot.test");
    assert!(
        mails.iter().all(|uid| !fake.has_flag(*uid, r"\Seen")),
        "the mailbox is not changed"
    );
}

#[tokio::test]
async fn unauthenticated_mail_stays_unread_and_is_logged_once() {
    let fake = MailFake::start().await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "demo"}},
        "channels": {"email": {
            "enabled": true, "consentGranted": true, "imapHost": "127.0.0.1", "imapPort": fake.imap_port(),
            "imapUsername": mail::USER, "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
            "smtpHost": "127.0.0.1", "smtpPort": fake.smtp_port(), "smtpUsername": mail::USER,
            "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "authservId": "mx.bot.test", "allowFrom": ["*"],
        }},
    }));
    let mails = [
        "mx.evil.test; dkim=pass header.d=friend.test",
        "mx.bot.test; dkim=fail",
        "mx.bot.test; none",
    ];
    let mails = mails.map(|report| {
        fake.push(format!("Authentication-Results: {report}\r\nFrom: ann@friend.test\r\nSubject: x\r\n\r\n/status\r\n"))
    });
    let gateway = Running::start(&home).await;
    let log = || home.read("logs/gateway.log");
    let judged = async || {
        log()
            .matches("a mail is refused: its sender is not proven")
            .count()
            == mails.len()
    };
    until("all are judged", judged).await;
    until("the channel is degraded", async || {
        gateway.health().await.contains("its sender is not proven")
    })
    .await;
    assert_says(
        &gateway.health().await,
        &["degraded", "docs/channels/email.md"],
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(
        log().matches("the channel does not work fully").count(),
        1,
        "{}",
        log()
    );
    assert!(mails.iter().all(|uid| !fake.has_flag(*uid, r"\Seen")) && fake.sent().is_empty());
}

#[tokio::test]
async fn websocket_login_stores_the_token_and_runs() {
    let world = World::new().await;
    let home = world.home(&json!({"websocket": {"port": 0}}));
    let nothing = home
        .run_with_input(&["channels", "login", "websocket"], b"")
        .await;
    assert_eq!(nothing.code, 2, "{}", nothing.stdout);
    assert_says(
        &nothing.stderr,
        &[
            "token: a long random text",
            "channels.websocket.token is needed",
        ],
    );
    let right = home
        .run_with_input(&["channels", "login", "websocket"], b"a-long-random-text\n")
        .await;
    assert_eq!(right.code, 0, "{}", right.stderr);
    assert_says(
        &right.stdout,
        &["a gateway may listen", "channel websocket is on"],
    );
    assert!(!(right.stdout + &right.stderr).contains("a-long-random-text"));
    let gateway = Running::start(&home).await;
    assert_channel_state(&home, "websocket", "running", "").await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn test_message_is_sent_like_a_reply() {
    let world = World::new().await;
    let home = world.home(&json!({"telegram": world.section(&json!({}))}));
    // The bot can only write to chats that it knows.
    world.telegram.push(Incoming::private(&ann(), "/start"));
    let asked = home.run(&["channels", "test", "telegram"]).await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    assert_says(
        &asked.stdout,
        &["The platform answers: ", "nanobot_test_bot", "--to CHAT"],
    );
    let sent = home
        .run(&["channels", "test", "telegram", "--to", "7"])
        .await;
    assert_eq!(
        (sent.code, sent.stdout.lines().last()),
        (0, Some("Sent to 7.")),
        "{}",
        sent.stderr
    );
    let lost = home
        .run(&["channels", "test", "telegram", "--to", "-99"])
        .await;
    assert_eq!(lost.code, 1);
    assert_says(
        &lost.stderr,
        &[
            "the message to -99 was not sent",
            "chat not found",
            "the id of a chat",
            "may its app send messages",
            "give CHAT alone",
        ],
    );
    let unknown = home.run(&["channels", "test", "fax"]).await;
    assert_eq!(unknown.code, 2);
    assert_says(
        &unknown.stderr,
        &[
            "no channel called `fax` is configured; there are: telegram",
            "try:",
        ],
    );

    let gateway = Running::start(&home).await;
    assert_channel_state(&home, "telegram", "running", "").await;
    let sent = home
        .run(&["channels", "test", "telegram", "--to", "7"])
        .await;
    let by_gateway = (0, Some("Sent to 7 by the gateway."));
    assert_eq!(
        (sent.code, sent.stdout.lines().last()),
        by_gateway,
        "{}",
        sent.stderr
    );
    let lost = home
        .run(&["channels", "test", "telegram", "--to", "-99"])
        .await;
    assert_eq!(lost.code, 1);
    assert_says(
        &lost.stderr,
        &["the message to -99 was not sent", "chat not found"],
    );
    // The person has read it: nothing is left that looks like a lost reply.
    let inbox = home.run(&["inbox", "list"]).await;
    assert_eq!(inbox.stdout, "Nothing.\n", "{}", inbox.stderr);
    let tests = world.telegram.texts_in(ann().id);
    let tests = tests
        .iter()
        .filter(|text| *text == "This is a test message of nanobot. It arrived.");
    assert_eq!(
        tests.count(),
        2,
        "both arrived, without the signs of their markup"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn only_one_gateway_receives_with_a_token() {
    let world = World::new().await;
    let here = world.home(&json!({
        "telegram": world.section(&json!({})), "zweitens": world.section(&json!({"kind": "telegram"})),
    }));
    let first = Running::start(&here).await;
    assert_channel_state(&here, "telegram", "running", "").await;
    assert_channel_state(
        &here,
        "zweitens",
        "failed",
        "channels.telegram receives with the same telegram credentials",
    )
    .await;

    // Another home of the same user on this computer waits for the lock.
    let there = here.path().join("there/config.json");
    std::fs::create_dir_all(there.parent().unwrap()).unwrap();
    let config = world.config(&json!({"telegram": world.section(&json!({}))}));
    std::fs::write(&there, config.to_string()).unwrap();
    let there = there.to_string_lossy().into_owned();
    let second = Running::start_with(&here, &["--config", &there]).await;
    let said = async || {
        here.run(&["channels", "status", "--config", &there])
            .await
            .stdout
    };
    until("the second one waits", async || {
        said()
            .await
            .contains("another gateway on this computer receives")
    })
    .await;
    assert_eq!(
        world.telegram.conflicts(),
        0,
        "only one of them contacted the platform"
    );
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().await.1, Some(0));
    until("the second one has taken over", async || {
        said().await.contains("telegram: running")
    })
    .await;
    world.ask("to whom?").await;

    // A gateway of another user is known only to the platform, which disconnects one of the two.
    let elsewhere = world.home(&json!({"telegram": world.section(&json!({}))}));
    let third = Running::start(&elsewhere).await;
    let conflict = "degraded since";
    until("one of the two gives way", async || {
        let both = said().await + &elsewhere.run(&["channels", "status"]).await.stdout;
        both.contains(conflict) && both.contains("another program receives with these credentials")
    })
    .await;
    for gateway in [second, third] {
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
    }
}

/// A list is given in one line. Without any, the login is refused; saved all the same, the channel
/// names what is missing.
#[tokio::test]
async fn login_of_mochat_asks_for_sessions_and_panels() {
    let (world, fake) = (World::new().await, MochatFake::start().await.unwrap());
    fake.add_person(&mochat::Person::new("ann", "Ann"));
    let urls = json!({"baseUrl": fake.base_url(), "socketUrl": fake.socket_url()});
    let home = world.home(&json!({"mochat": urls}));
    let login = ["channels", "login", "mochat"];
    let answers = format!("{}\n{}\n\n\n", mochat::CLAW_TOKEN, mochat::BOT_USER_ID);
    let run = home.run_with_input(&login, answers.as_bytes()).await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    let asked = "* for all (optional; leave empty for none)";
    assert_says(&run.stderr, &[asked, "panels: nothing is received"]);
    let unprobed = [&login[..], &["--no-probe"]].concat();
    let run = home.run_with_input(&unprobed, answers.as_bytes()).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!(run.stdout + &run.stderr).contains(mochat::CLAW_TOKEN));
    let gateway = Running::start(&home).await;
    assert_channel_state(&home, "mochat", "failed", "panels: nothing is received").await;
    let run = home.run_with_input(&login, b"\n\n*\nroom1, room2\n").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    let section = &config["channels"]["mochat"];
    assert_eq!(section["sessions"], json!(["*"]));
    assert_eq!(section["panels"], json!(["room1", "room2"]));
    assert_channel_state(&home, "mochat", "running", "").await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// WeCom is written to through the connection of a running gateway only.
#[tokio::test]
async fn test_message_names_the_gateway_that_it_needs() {
    let (world, fake) = (World::new().await, WeComFake::start().await.unwrap());
    let home = world.home(&json!({"wecom": {
        "enabled": true, "botId": wecom::BOT_ID, "secret": wecom::SECRET, "wsUrl": fake.ws_url(),
    }}));
    let run = home
        .run(&["channels", "test", "wecom", "--to", "ann"])
        .await;
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_says(&run.stdout, &["when `nanobot gateway` connects"]);
    assert_says(&run.stderr, &["Start `nanobot gateway` and try again"]);
}

/// Ids of some platforms look like keys, and are what an operator needs for `allowFrom`.
#[tokio::test]
async fn log_shows_the_id_of_a_person_without_access() {
    let (world, fake) = (World::new().await, QqFake::start().await.unwrap());
    let ann = qq::Person::new("ann", "Ann");
    fake.add_person(&ann);
    let home = world.home(&json!({"qq": {
        "enabled": true, "appId": qq::APP_ID, "secret": qq::CLIENT_SECRET,
        "apiBase": fake.base_url(), "tokenUrl": fake.token_url(), "allowFrom": ["someone"],
    }}));
    let gateway = Running::start(&home).await;
    fake.wait_for_ready(1).await.unwrap();
    fake.push(qq::Incoming::direct(&ann, "hello"));
    let line = format!("denied access channel=qq sender={}", ann.openid);
    until("the log names the person", async || {
        let logs = std::fs::read_dir(home.path().join("logs")).into_iter();
        logs.flatten()
            .flatten()
            .any(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains(&line)))
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
