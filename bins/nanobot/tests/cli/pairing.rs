//! Strangers: what they read, who approves them, and the settings that decide it, while a gateway
//! runs.

use nanobot_channel_telegram_fake::{BOT_USERNAME, Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

/// Text that an approved person reads.
const APPROVAL_NOTICE: &str = "You were let in: from now on you can talk to me here.";
/// A group.
const GROUP: i64 = -1005;

fn mallory() -> Person {
    Person::new(66, "Mallory", "mallory_x")
}

/// A gateway in a home whose Telegram channel has these keys in addition to the usual ones.
struct World {
    home: Home,
    telegram: TelegramFake,
    model: ModelServer,
}

impl World {
    async fn new(keys: &Value) -> Self {
        let model = ModelServer::answering(|request| {
            Reply::text(format!("I read: {}", request.last_user_text()))
        });
        let world = Self {
            home: Home::new(),
            telegram: TelegramFake::start().await.unwrap(),
            model: model.await.unwrap(),
        };
        world.configure(keys);
        world
    }

    fn configure(&self, keys: &Value) {
        let mut telegram = json!({
            "enabled": true, "token": TOKEN, "apiBase": self.telegram.api_base(), "streaming": false, "reactEmoji": "",
        });
        telegram
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        self.home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": self.model.base_url()}},
            "channels": {"telegram": telegram},
        }));
    }

    fn push(&self, person: &Person, text: &str) {
        self.telegram.push(Incoming::private(person, text));
    }

    /// Waits for the next message to a person, and returns it.
    async fn heard(&self, person: &Person, before: usize) -> String {
        let texts = || self.telegram.texts_in(person.id);
        until("somebody is told something", async || {
            texts().len() > before
        })
        .await;
        texts().swap_remove(before)
    }

    /// Sends a message and returns the reply.
    async fn ask(&self, person: &Person, text: &str) -> String {
        let before = self.telegram.texts_in(person.id).len();
        self.push(person, text);
        self.heard(person, before).await
    }

    /// Waits until a person reads the notice of approval.
    async fn is_welcome(&self, person: &Person) {
        until("somebody is told that they were let in", async || {
            self.welcomes(person) > 0
        })
        .await;
    }

    /// Number of times that a person got that notice.
    fn welcomes(&self, person: &Person) -> usize {
        self.telegram
            .texts_in(person.id)
            .iter()
            .filter(|text| *text == APPROVAL_NOTICE)
            .count()
    }

    async fn run(&self, arguments: &[&str]) -> String {
        let run = self.home.run(arguments).await;
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        run.stdout
    }
}

/// Returns the code in the text that a stranger reads.
fn code(text: &str) -> String {
    assert_says(text, &["I do not know you yet", "nanobot pairing approve "]);
    let word = text
        .split_whitespace()
        .find(|word| word.len() == 9 && word.as_bytes()[4] == b'-');
    word.expect("a code").to_owned()
}

#[tokio::test]
async fn code_approves_a_stranger_until_revoked() {
    let world = World::new(&json!({})).await;
    let (mallory, eve) = (mallory(), Person::new(67, "Eve", "eve_x"));
    let gateway = Running::start(&world.home).await;
    world
        .telegram
        .push(Incoming::group(GROUP, &mallory, "/status"));
    let first = code(&world.ask(&mallory, "let me in").await);

    let listed: Value =
        serde_json::from_str(&world.run(&["pairing", "list", "--json"]).await).unwrap();
    assert_eq!(
        (&listed["pending"][0]["code"], &listed["approved"]),
        (&json!(first), &json!([]))
    );
    assert_eq!(listed["pending"][0]["sender_id"], "66|mallory_x");
    assert_says(
        &world
            .run(&["pairing", "approve", &first.to_lowercase()])
            .await,
        &["66|mallory_x on telegram is let in"],
    );
    world.is_welcome(&mallory).await;
    assert_says(&world.ask(&mallory, "hello").await, &["I read:", "hello"]);

    // An approved person may approve others, in a direct chat with the assistant.
    let second = code(&world.ask(&eve, "me too").await);
    world.telegram.push(Incoming::group(
        GROUP,
        &mallory,
        format!("/pairing approve {second}"),
    ));
    until("the group is answered", async || {
        !world.telegram.texts_in(GROUP).is_empty()
    })
    .await;
    assert_says(
        &world.telegram.texts_in(GROUP)[0],
        &["/pairing works in private chats only"],
    );
    assert_says(
        &world.ask(&mallory, "/pairing").await,
        &[&second, "67|eve_x", "66|mallory_x"],
    );
    assert_says(
        &world.ask(&mallory, "/pairing approve AAAA-AAAA").await,
        &["Unknown code"],
    );
    assert_says(
        &world
            .ask(&mallory, &format!("/pairing approve {second}"))
            .await,
        &["67|eve_x", "can write to me now"],
    );
    world.is_welcome(&eve).await;
    assert_says(&world.ask(&eve, "thanks").await, &["I read:", "thanks"]);
    assert_says(
        &world.ask(&mallory, "/pairing revoke eve_x").await,
        &["not let in on telegram any more"],
    );
    assert_ne!(code(&world.ask(&eve, "again").await), second);

    assert_says(
        &world.run(&["pairing", "revoke", "telegram", "66"]).await,
        &["is not let in any more"],
    );
    assert_ne!(code(&world.ask(&mallory, "still there?").await), first);
    assert_eq!(
        world.telegram.texts_in(GROUP).len(),
        1,
        "strangers get no reply in a group"
    );
    assert_eq!((world.welcomes(&mallory), world.welcomes(&eve)), (1, 1));
    gateway.signal(Signal::SIGTERM);
    let (rest, ended) = gateway.end().await;
    assert_eq!(ended, Some(0), "{rest}");
    let log = world.home.read("logs/gateway.log");
    assert_says(&log, &["denied access"]);
    assert!(
        !log.contains(&first) && !log.contains(&second),
        "a code in the log: {log}"
    );
}

#[tokio::test]
async fn approval_is_announced_once_even_after_a_restart() {
    let world = World::new(&json!({})).await;
    let people = [
        mallory(),
        Person::new(67, "Eve", "eve_x"),
        Person::new(68, "Sam", "sam_x"),
    ];
    let [by_command, by_hand, kept_out] = &people;
    let gateway = Running::start(&world.home).await;
    let mut codes = Vec::new();
    for person in &people {
        codes.push(code(&world.ask(person, "let me in").await));
    }
    // The file is edited by hand.
    let mut file: Value = serde_json::from_str(&world.home.read("pairing.json")).unwrap();
    file["approved"] = json!({"telegram": ["67"]});
    world.home.write("pairing.json", &file.to_string());
    world.is_welcome(by_hand).await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));

    // No gateway runs now.
    world.run(&["pairing", "approve", &codes[0]]).await;
    world.run(&["pairing", "approve", &codes[2]]).await;
    world.run(&["pairing", "revoke", "telegram", "68"]).await;
    let gateway = Running::start(&world.home).await;
    world.is_welcome(by_command).await;
    let is_noted = || !world.home.read("pairing.json").contains("_untold");
    until("it is noted that they were told", async || is_noted()).await;
    assert_says(&world.ask(by_command, "hello").await, &["I read:", "hello"]);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(
        [by_command, by_hand, kept_out].map(|person| world.welcomes(person)),
        [1, 1, 0]
    );
}

#[tokio::test]
async fn allow_lists_are_reloaded_while_the_gateway_runs() {
    let world = World::new(&json!({"allowFrom": []})).await;
    let (ann, mallory) = (Person::new(7, "Ann", "ann_x"), mallory());
    let gateway = Running::start(&world.home).await;
    world.push(&mallory, "nobody hears this");
    world.configure(&json!({"allowFrom": ["7"]}));
    until("the list is read", async || {
        world
            .home
            .read("logs/gateway.log")
            .contains("settings changed")
    })
    .await;
    world.push(&mallory, "nor this");
    assert_says(&world.ask(&ann, "it is me").await, &["I read:", "it is me"]);
    assert_eq!(world.telegram.texts_in(mallory.id), Vec::<String>::new());
    // The terminal belongs to the owner, and an approval adds to the list.
    assert_says(
        &world
            .run(&["agent", "-m", "/pairing revoke telegram 7"])
            .await,
        &["The configuration of telegram lets `7` in"],
    );
    assert_says(
        &world.ask(&ann, "/pairing").await,
        &["Waiting: nobody", "Approved: nobody"],
    );
    gateway.signal(Signal::SIGTERM);
    let (rest, ended) = gateway.end().await;
    assert_eq!(ended, Some(0), "{rest}");
    assert_says(
        &rest,
        &["Warning: channels.telegram.allowFrom is [], which means nobody"],
    );
}

#[tokio::test]
async fn each_group_follows_its_own_rules() {
    let world = World::new(&json!({
        "allowFrom": ["7"],
        "dm": {"enabled": false},
        "groups": {
            "-1006": {"policy": "open", "allowFrom": ["*"]},
            "-1007": {"allow_from": []},
            "-1008": {"policy": "open"},
        },
    }))
    .await;
    let (ann, mallory) = (Person::new(7, "Ann", "ann_x"), mallory());
    let gateway = Running::start(&world.home).await;
    let meant = |text: &str| format!("@{BOT_USERNAME} {text}");
    let table = [
        (GROUP, &ann, "talk".to_owned(), false),
        (GROUP, &ann, meant("hello"), true),
        (GROUP, &mallory, meant("hello"), false),
        (-1006, &mallory, "talk".to_owned(), true),
        (-1007, &ann, meant("hello"), false),
        (-1008, &ann, "talk".to_owned(), true),
        (-1008, &mallory, meant("hello"), false),
    ];
    for (group, person, text, _) in &table {
        world.telegram.push(Incoming::group(
            *group,
            person,
            format!("{text} {group} {}", person.id),
        ));
    }
    world.push(&ann, "not alone");
    let expected = table.iter().filter(|(.., is_heard)| *is_heard);
    let expected: Vec<String> = expected
        .map(|(group, person, ..)| format!("{group} {}", person.id))
        .collect();
    until("the answers come", async || {
        world.telegram.sent().len() >= expected.len()
    })
    .await;
    // All messages were handled, and every reply to them was sent.
    until("the last is dealt with", async || {
        world.telegram.pending().is_empty()
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    let (rest, ended) = gateway.end().await;
    assert_eq!(ended, Some(0), "{rest}");
    assert!(!rest.contains("warning:"), "every key is known: {rest}");
    let answered: Vec<String> = world
        .telegram
        .sent()
        .into_iter()
        .map(|sent| sent.text)
        .collect();
    assert_eq!(answered.len(), expected.len(), "{answered:?}");
    for place in &expected {
        assert!(
            answered.iter().any(|text| text.contains(place.as_str())),
            "{place} in {answered:?}"
        );
    }
}

#[tokio::test]
async fn wildcard_senders_cannot_approve_others() {
    let world = World::new(&json!({"allowFrom": ["*"]})).await;
    let gateway = Running::start(&world.home).await;
    let answer = world.ask(&mallory(), "/pairing").await;
    assert_says(
        &answer,
        &["Only people who were approved, or are named in allowFrom"],
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn pairing_errors_are_reported_without_a_gateway() {
    let world = World::new(&json!({})).await;
    assert_eq!(
        world.run(&["pairing", "list"]).await,
        "No one has an open code, and no one is approved.\n"
    );
    let empty: Value =
        serde_json::from_str(&world.run(&["pairing", "list", "--json"]).await).unwrap();
    assert_eq!(empty, json!({"approved": [], "pending": []}));
    for (arguments, what) in [
        (
            ["pairing", "approve", "AAAA-AAAA"].as_slice(),
            "unknown code",
        ),
        (&["pairing", "deny", "nonsense"], "unknown code"),
        (
            &["pairing", "revoke", "telegram", "-5"],
            "-5 on telegram was not approved",
        ),
    ] {
        let run = world.home.run(arguments).await;
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{arguments:?}");
        assert_says(&run.stderr, &[what, "try: `nanobot pairing list`"]);
    }
    world.home.write("pairing.json", "{");
    let run = world.home.run(&["pairing", "list"]).await;
    assert_eq!(run.code, 1);
    assert_says(
        &run.stderr,
        &["pairing.json is damaged and lets no one in", "try:"],
    );
}
