//! Pairing of strangers: what is sent to them, what admits them, and what does not.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use nanobot_bus::MemoryBus;
use nanobot_channel::{
    AccessDecision, Admission, Arrival, Channel, ChannelContext, ChannelError, ChannelName,
    DeliveryGuarantee, Format, InboundMessage, Measure, OutboundPart, PlainText, SenderId, Sent,
    TextStyle, async_trait,
};
use nanobot_channels::{
    AccessRules, AllowFrom, Asker, ChannelManager, ChannelManagerParts, ChannelSettings,
    DeliverySettings, GroupRule, ManagedChannel, PairingError, PairingReply, PairingStore,
    Pairings, Person, UnnotifiedPeople,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::sync::watch;

fn at(minutes: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
}

fn person(channel: &str, sender: &str) -> Person {
    Person {
        channel: channel.into(),
        sender: sender.into(),
    }
}

fn code(asked: PairingReply) -> String {
    match asked {
        PairingReply::Code(code) => code,
        other => panic!("{other:?}"),
    }
}

fn ask(store: &PairingStore, sender: &str, minute: i64) -> PairingReply {
    store
        .ask(&"chat".into(), &sender.into(), &"c1".into(), at(minute))
        .unwrap()
}

fn is_approved(store: &PairingStore, sender: &str) -> bool {
    store.is_approved(&"chat".into(), &sender.into()).unwrap()
}

fn on_disk(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(home.join("pairing.json")).unwrap()).unwrap()
}

#[test]
fn code_approves_one_person_once() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    assert_eq!(store.list(at(0)).unwrap(), Pairings::default());
    let first = code(ask(&store, "66|mallory", 0));
    assert_eq!(
        code(ask(&store, "66|mallory", 5)),
        first,
        "one code at a time"
    );
    assert_ne!(code(ask(&store, "8", 5)), first);
    assert!(!is_approved(&store, "66|mallory"));
    let typed = first.to_lowercase().replace('-', " ");
    assert_eq!(
        store.approve(&typed, None, at(6)).unwrap(),
        person("chat", "66|mallory")
    );
    assert!(matches!(
        store.approve(&first, None, at(6)),
        Err(PairingError::UnknownCode)
    ));
    // A name changes hands, the number does not.
    let table = [
        ("66|mallory", true),
        ("66", true),
        ("66|new_name", true),
        ("67|mallory", false),
        ("8", false),
    ];
    for (sender, expected) in table {
        assert_eq!(is_approved(&store, sender), expected, "{sender}");
    }
    assert!(
        !store
            .is_approved(&"other".into(), &"66|mallory".into())
            .unwrap(),
        "of one channel alone"
    );
    assert_eq!(ask(&store, "66|mallory", 7), PairingReply::Approved);
    let listed = store.list(at(7)).unwrap();
    assert_eq!(listed.approved, [person("chat", "66|mallory")]);
    assert_eq!(
        listed
            .pending
            .iter()
            .map(|pending| pending.person.clone())
            .collect::<Vec<_>>(),
        [person("chat", "8")]
    );
    assert_eq!(
        store.revoke(&person("chat", "mallory")).unwrap(),
        [person("chat", "66|mallory")]
    );
    assert_eq!(store.revoke(&person("chat", "mallory")).unwrap(), []);
    assert!(!is_approved(&store, "66|mallory"));
}

#[test]
fn codes_expire() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    let first = code(ask(&store, "8", 0));
    let second = code(ask(&store, "8", 10));
    assert_ne!(first, second);
    assert!(matches!(
        store.approve(&first, None, at(10)),
        Err(PairingError::UnknownCode)
    ));
    assert!(matches!(
        store.approve(&second, Some(&"other".into()), at(10)),
        Err(PairingError::UnknownCode)
    ));
    assert_eq!(
        store.deny(&second, None, at(11)).unwrap(),
        person("chat", "8")
    );
    assert!(!is_approved(&store, "8"));
    // Protects against guessing.
    let third = code(ask(&store, "8", 20));
    for _ in 0..5 {
        assert!(matches!(
            store.approve("AAAA-AAAA", None, at(20)),
            Err(PairingError::UnknownCode)
        ));
    }
    assert!(matches!(
        store.approve(&third, None, at(20)),
        Err(PairingError::UnknownCode)
    ));
}

#[test]
fn open_codes_are_limited_per_channel() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    for stranger in 0..32 {
        code(ask(&store, &stranger.to_string(), 0));
    }
    assert_eq!(ask(&store, "one more", 1), PairingReply::Full);
    assert!(matches!(
        store
            .ask(&"other".into(), &"1".into(), &"c1".into(), at(1))
            .unwrap(),
        PairingReply::Code(_)
    ));
    code(ask(&store, "one more", 10));
}

#[test]
fn file_of_the_python_program_is_read_and_preserved() {
    let home = tempfile::tempdir().unwrap();
    let theirs = json!({
        "approved": { "chat": ["7|ann"], "telegram": ["1", "2"] },
        "pending": {
            "ABCD-EF12": { "channel": "chat", "sender_id": "8", "created_at": 1.5, "expires_at": 600.25, "extra": [1] },
            "OLDO-NE00": { "channel": "chat", "sender_id": "9", "created_at": 0, "expires_at": 1 },
        },
        "version": 3,
    });
    fs::write(home.path().join("pairing.json"), theirs.to_string()).unwrap();
    let store = PairingStore::in_folder(home.path());
    assert!(is_approved(&store, "7"));
    assert_eq!(code(ask(&store, "8", 1)), "ABCD-EF12");
    store.approve("abcdef12", None, at(2)).unwrap();
    let mut expected = json!({
        "approved": { "chat": ["7|ann", "8"], "telegram": ["1", "2"] },
        "pending": {},
        "_untold": [{ "channel": "chat", "sender_id": "8", "chat_id": "c1", "at": 120.0 }],
        "version": 3,
    });
    assert_eq!(on_disk(home.path()), expected);
    store
        .mark_notified(&store.unnotified(&[]).unwrap().approved)
        .unwrap();
    expected.as_object_mut().unwrap().remove("_untold");
    assert_eq!(on_disk(home.path()), expected);
}

/// Returns the people's ids.
fn ids(askers: &[Asker]) -> Vec<&str> {
    askers
        .iter()
        .map(|asker| asker.person.sender.as_str())
        .collect()
}

#[test]
fn every_approval_is_announced_once() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    let by_command = code(ask(&store, "1", 0));
    let denied = code(ask(&store, "2", 0));
    for by_hand in ["3", "4|four", "5"] {
        code(ask(&store, by_hand, 0));
    }
    let before = store.unnotified(&[]).unwrap();
    assert_eq!((ids(&before.approved).len(), before.waiting.len()), (0, 5));
    store.approve(&by_command, None, at(1)).unwrap();
    store.deny(&denied, None, at(1)).unwrap();
    // A person adds two ids to the file by hand, and removes the code of one of them.
    let mut file = on_disk(home.path());
    file["approved"]["chat"]
        .as_array_mut()
        .unwrap()
        .extend([json!("3"), json!("4")]);
    file["pending"]
        .as_object_mut()
        .unwrap()
        .retain(|_, entry| entry["sender_id"] != "4|four");
    fs::write(store.path(), file.to_string()).unwrap();
    let now = store.unnotified(&before.waiting).unwrap();
    assert_eq!(
        (ids(&now.approved), ids(&now.waiting)),
        (vec!["1", "3", "4|four"], vec!["5"])
    );
    assert!(
        now.approved.iter().all(|asker| asker.chat == "c1".into()),
        "{now:?}"
    );
    // A second query before that is recorded returns the same.
    assert_eq!(store.unnotified(&before.waiting).unwrap(), now);
    store.mark_notified(&now.approved).unwrap();
    let after = store.unnotified(&now.waiting).unwrap();
    assert_eq!(
        (ids(&after.approved), ids(&after.waiting)),
        (vec![], vec!["5"])
    );
    let listed = store.list(at(2)).unwrap();
    assert_eq!(
        listed.pending.len(),
        1,
        "a code is gone with the news: {listed:?}"
    );
    // A revoked approval is not announced.
    let last = store.list(at(2)).unwrap().pending.remove(0).code;
    store.approve(&last, None, at(2)).unwrap();
    store.revoke(&person("chat", "5")).unwrap();
    assert_eq!(
        store.unnotified(&after.waiting).unwrap(),
        UnnotifiedPeople::default()
    );
}

#[test]
fn damaged_file_admits_no_one_and_is_moved_aside() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    let damaged = r#"{"approved": {"chat": ["7"#;
    fs::write(store.path(), damaged).unwrap();
    assert!(matches!(
        store.is_approved(&"chat".into(), &"7".into()),
        Err(PairingError::Damaged { .. })
    ));
    assert!(matches!(
        store.list(at(0)),
        Err(PairingError::Damaged { .. })
    ));
    code(ask(&store, "7", 0));
    assert!(!is_approved(&store, "7"));
    let files = fs::read_dir(home.path())
        .unwrap()
        .map(|file| file.unwrap().path());
    let aside: Vec<_> = files
        .filter(|path| path.to_string_lossy().contains("damaged-"))
        .collect();
    assert_eq!(
        aside
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect::<Vec<_>>(),
        [damaged]
    );
}

#[test]
fn unreadable_file_admits_no_one_and_is_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let store = PairingStore::in_folder(home.path());
    fs::create_dir(store.path()).unwrap();
    assert!(matches!(
        store.is_approved(&"chat".into(), &"7".into()),
        Err(PairingError::Io { .. })
    ));
    assert!(matches!(
        store.ask(&"chat".into(), &"7".into(), &"c1".into(), at(0)),
        Err(PairingError::Io { .. })
    ));
    assert!(store.path().is_dir());
}

#[test]
fn concurrent_writers_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = PairingStore::in_folder(home.path());
            scope.spawn(move || {
                for stranger in 0..5 {
                    let code = code(ask(&store, &format!("{writer}-{stranger}"), 0));
                    store.approve(&code, None, at(1)).unwrap();
                }
            });
        }
    });
    let listed = PairingStore::in_folder(home.path()).list(at(1)).unwrap();
    assert_eq!((listed.approved.len(), listed.pending.len()), (20, 0));
}

/// A channel that only hands out its context.
#[derive(Debug)]
struct Open {
    name: ChannelName,
    context: watch::Sender<Option<ChannelContext>>,
}

#[async_trait]
impl Channel for Open {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let cancel = context.cancel.clone();
        self.context.send_replace(Some(context));
        cancel.cancelled().await;
        Ok(())
    }

    async fn send(&self, _: &OutboundPart) -> Result<Sent, ChannelError> {
        Ok(Sent::default())
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::BestEffort
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&PlainText),
            measure: Measure::CodePoints,
            limit: 100,
        }
    }
}

/// Access control of a channel with these rules.
struct AccessFixture {
    store: PairingStore,
    context: ChannelContext,
    settings: watch::Sender<ChannelSettings>,
    _home: tempfile::TempDir,
    _manager: ChannelManager,
}

impl AccessFixture {
    async fn of(rules: AccessRules) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = PairingStore::in_folder(home.path());
        let (context, mut given) = watch::channel(None);
        let channel = Arc::new(Open {
            name: "chat".into(),
            context,
        });
        let (settings, receiver) = watch::channel(ChannelSettings {
            access: rules,
            delivery: DeliverySettings::default(),
        });
        let channels = vec![ManagedChannel::new(channel, receiver).pairing_by(store.clone())];
        let manager = ChannelManager::start(&ChannelManagerParts::new(
            &MemoryBus::new(),
            channels,
            "unused",
        ))
        .unwrap();
        let context = given
            .wait_for(Option::is_some)
            .await
            .unwrap()
            .clone()
            .unwrap();
        Self {
            store,
            context,
            settings,
            _home: home,
            _manager: manager,
        }
    }

    async fn check(&self, sender: &str, chat: &str, arrival: &Arrival) -> AccessDecision {
        self.context
            .access
            .check(&sender.into(), &chat.into(), arrival)
            .await
    }

    async fn direct_message(&self, sender: &str) -> AccessDecision {
        self.check(sender, sender, &Arrival::direct()).await
    }

    async fn allows(&self, sender: &str) -> bool {
        let (sender, chat) = (sender.into(), sender.into());
        let access = &self.context.access;
        access.allows(&sender, &chat, &Arrival::direct()).await
    }
}

/// Extracts the code from the message to a stranger.
fn code_message(decision: AccessDecision) -> String {
    let AccessDecision::Ask(text) = decision else {
        panic!("{decision:?}")
    };
    let code = text
        .split_whitespace()
        .find(|word| word.len() == 9 && word.contains('-'))
        .unwrap()
        .to_owned();
    assert!(
        text.contains(&format!("nanobot pairing approve {code}")),
        "{text}"
    );
    code
}

#[tokio::test(start_paused = true)]
async fn stranger_gets_a_code_and_is_approved_by_it() {
    let door = AccessFixture::of(AccessRules::default()).await;
    assert_eq!(
        door.check("8", "-5", &Arrival::group(true)).await,
        AccessDecision::Denied,
        "silence in groups"
    );
    assert!(!door.allows("8").await, "an invitation is no question");
    assert_eq!(door.store.list(Utc::now()).unwrap(), Pairings::default());
    let code = code_message(door.direct_message("8").await);
    assert_eq!(
        door.direct_message("8").await,
        AccessDecision::Denied,
        "not at every word"
    );
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(code_message(door.direct_message("8").await), code);
    let message = InboundMessage::text("chat", "8", "8", "hi");
    assert_eq!(
        door.context
            .intake
            .deliver(message.clone(), &Arrival::direct())
            .await,
        Admission::NotAllowed
    );
    door.store.approve(&code, None, Utc::now()).unwrap();
    assert_eq!(
        door.context
            .intake
            .deliver(message, &Arrival::direct())
            .await,
        Admission::Accepted
    );
    assert_eq!(door.direct_message("8").await, AccessDecision::Allowed);
    assert!(door.allows("8").await);
    assert_eq!(
        door.check("8", "-5", &Arrival::group(true)).await,
        AccessDecision::Allowed
    );
    door.store.revoke(&person("chat", "8")).unwrap();
    assert_ne!(
        code_message(door.direct_message("8").await),
        code,
        "a new code is told at once"
    );
}

#[tokio::test]
async fn failing_file_rejects_strangers_only() {
    let door = AccessFixture::of(AccessRules::default()).await;
    fs::create_dir(door.store.path()).unwrap();
    assert_eq!(door.direct_message("8").await, AccessDecision::Denied);
    door.settings
        .send_modify(|settings| settings.access.allow_from = AllowFrom::listed(["7"]));
    assert_eq!(door.direct_message("7").await, AccessDecision::Allowed);
    fs::remove_dir(door.store.path()).unwrap();
    fs::write(door.store.path(), "{").unwrap();
    assert_eq!(door.direct_message("8").await, AccessDecision::Denied);
    assert_eq!(
        fs::read_to_string(door.store.path()).unwrap(),
        "{",
        "nobody asked for a change"
    );
    door.settings
        .send_modify(|settings| settings.access.allow_from = AllowFrom::Unset);
    code_message(door.direct_message("8").await);
}

/// Events that affect access.
#[derive(Clone, Debug)]
enum Event {
    /// A person writes.
    Says {
        sender: &'static str,
        group: Option<bool>,
    },
    /// A code is tried that was never issued, or that of another channel.
    Guess(String),
    /// A person's code is approved.
    Approve(&'static str),
    /// A person's approval is revoked.
    Revoke(&'static str),
    /// Time passes.
    Wait(u64),
}

const STRANGERS: [&str; 4] = ["1", "2|two", "3", "evil|3"];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (select(STRANGERS.as_slice()), prop::option::of(any::<bool>()))
            .prop_map(|(sender, group)| Event::Says { sender, group }),
        2 => "[A-Z0-9]{4}-[A-Z0-9]{4}".prop_map(Event::Guess),
        1 => select(STRANGERS.as_slice()).prop_map(Event::Approve),
        1 => select(STRANGERS.as_slice()).prop_map(Event::Revoke),
        1 => (0_u64..120).prop_map(Event::Wait),
    ];
    prop::collection::vec(event, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_an_approval_admits_a_stranger(events in events(), is_listed in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(events, is_listed));
    }
}

/// Plays events and checks every decision against the approvals.
async fn play(events: Vec<Event>, is_listed: bool) {
    let allow_from = if is_listed {
        AllowFrom::listed(["7"])
    } else {
        AllowFrom::Unset
    };
    let groups = [(
        "-6".to_owned(),
        GroupRule {
            allow_from: AllowFrom::listed(["7"]),
            ..GroupRule::default()
        },
    )]
    .into();
    let door = AccessFixture::of(AccessRules {
        groups,
        ..AccessRules::of(allow_from)
    })
    .await;
    let mut approved: Vec<&str> = Vec::new();
    for event in events {
        match event {
            Event::Says {
                sender,
                group: None,
            } => {
                let may = approved.contains(&sender);
                assert_eq!(
                    door.direct_message(sender).await == AccessDecision::Allowed,
                    may,
                    "{sender}"
                );
            }
            Event::Says {
                sender,
                group: Some(addressed),
            } => {
                let decision = door.check(sender, "-5", &Arrival::group(addressed)).await;
                let may = approved.contains(&sender) && addressed;
                let expected = if may {
                    AccessDecision::Allowed
                } else {
                    AccessDecision::Denied
                };
                assert_eq!(decision, expected, "{sender} in a group");
                let closed = door.check(sender, "-6", &Arrival::group(addressed)).await;
                assert_eq!(
                    closed,
                    AccessDecision::Denied,
                    "{sender} in a group with a list"
                );
            }
            Event::Guess(guess) => {
                let given = door.store.list(Utc::now()).unwrap().pending;
                if given.iter().all(|pending| pending.code != guess) {
                    door.store.approve(&guess, None, Utc::now()).unwrap_err();
                }
            }
            Event::Approve(sender) => {
                let channel = ChannelName::from("chat");
                let asked = door.store.ask(
                    &channel,
                    &SenderId::from(sender),
                    &sender.into(),
                    Utc::now(),
                );
                if let PairingReply::Code(code) = asked.unwrap() {
                    door.store
                        .approve(&code, Some(&channel), Utc::now())
                        .unwrap();
                    approved.push(sender);
                }
            }
            Event::Revoke(sender) => {
                door.store.revoke(&person("chat", sender)).unwrap();
                approved.retain(|other| *other != sender);
            }
            Event::Wait(seconds) => tokio::time::advance(Duration::from_secs(seconds)).await,
        }
    }
}
