//! The manager with a channel that records, on the in-process bus and paused time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

#[path = "manager/media.rs"]
mod media;
#[path = "manager/pairing.rs"]
mod pairing;
#[path = "manager/supervision.rs"]
mod supervision;
#[path = "manager/uncertain.rs"]
mod uncertain;
#[path = "manager/working.rs"]
mod working;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{
    Bus as _, EntryState, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome,
};
use nanobot_channel::{
    Admission, Arrival, Channel, ChannelError, DeliveryGuarantee, Format, InboundMessage, Measure,
    OutboundKey, OutboundKind, OutboundMessage, OutboundPart, PlainText, TextStyle,
};
use nanobot_channels::{
    AccessRules, AllowFrom, ChannelManager, ChannelManagerParts, ChannelSettings, DeliverySettings,
    HealthState, ManagedChannel, Stickers, UncertainPolicy,
};
use nanobot_testkit::RecordingChannel;
use nanobot_testkit::channel::SendFault;
use tokio::sync::watch;
use tokio::time::Instant;

/// A manager and its parts.
struct Fixture {
    bus: MemoryBus,
    channels: Vec<Arc<RecordingChannel>>,
    settings: watch::Sender<ChannelSettings>,
    manager: ChannelManager,
}

fn everyone() -> ChannelSettings {
    let delivery = DeliverySettings {
        send_patience_s: 0,
        ..DeliverySettings::default()
    };
    ChannelSettings {
        access: AccessRules::of(AllowFrom::listed(["*"])),
        delivery,
    }
}

fn start(channels: Vec<RecordingChannel>) -> Fixture {
    start_on(MemoryBus::new(), channels)
}

fn start_on(bus: MemoryBus, channels: Vec<RecordingChannel>) -> Fixture {
    start_with(bus, channels, Stickers::in_folder("unused", "unused"))
}

fn start_with(bus: MemoryBus, channels: Vec<RecordingChannel>, stickers: Stickers) -> Fixture {
    let channels: Vec<_> = channels.into_iter().map(Arc::new).collect();
    let (settings, receiver) = watch::channel(everyone());
    let managed = channels
        .iter()
        .map(|channel| {
            ManagedChannel::new(Arc::clone(channel) as Arc<dyn Channel>, receiver.clone())
        })
        .collect();
    let manager = ChannelManager::start(&ChannelManagerParts {
        refused: vec![("broken".into(), "no token".to_owned())],
        stickers,
        ..ChannelManagerParts::new(&bus, managed, "unused")
    })
    .unwrap();
    Fixture {
        bus,
        channels,
        settings,
        manager,
    }
}

fn outbound(
    channel: &str,
    chat: &str,
    number: u32,
    content: &str,
    kind: OutboundKind,
) -> OutboundMessage {
    let inbound = InboundMessage::text(channel, "ann", chat, "");
    let key = OutboundKey {
        turn: format!("turn-{chat}").into(),
        position: number,
    };
    OutboundMessage::in_reply_to(&inbound, key, kind, content.to_owned())
}

fn reply(chat: &str, number: u32, content: &str) -> OutboundMessage {
    outbound("chat", chat, number, content, OutboundKind::Final)
}

fn unreachable() -> SendFault {
    SendFault::Refuse(ChannelError::Unavailable("no route".to_owned()))
}

impl Fixture {
    async fn publish(&self, message: OutboundMessage) {
        self.bus.publish_outbound(message).await.unwrap();
    }

    /// Returns every outbound message with its ledger state, oldest first.
    async fn ledger(&self) -> Vec<(String, EntryState, Option<String>)> {
        let entries = self
            .bus
            .list(Queue::Outbound, LedgerFilter::All, 100)
            .await
            .unwrap();
        let lines = entries.into_iter().rev();
        lines
            .map(|entry| (entry.outbound.unwrap().content, entry.state, entry.why))
            .collect()
    }

    /// Waits until no outbound message is open.
    async fn settled(&self) -> Vec<(String, EntryState, Option<String>)> {
        let until = Instant::now() + Duration::from_hours(2);
        while Instant::now() < until {
            if self
                .bus
                .list(Queue::Outbound, LedgerFilter::Open, 1)
                .await
                .unwrap()
                .is_empty()
            {
                return self.ledger().await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("still open: {:?}", self.ledger().await);
    }
}

#[tokio::test(start_paused = true)]
async fn parts_are_sent_in_order_and_settled() {
    let style = TextStyle {
        format: Format::Markup(&PlainText),
        measure: Measure::CodePoints,
        limit: 10,
    };
    let fixture = start(vec![RecordingChannel::new("chat").with_style(style)]);
    fixture
        .publish(reply("1", 0, "**first**\n\nsecond\n\nthird"))
        .await;
    let ledger = fixture.settled().await;
    assert_eq!(ledger[0].1, EntryState::Sent);
    let parts = fixture.channels[0].parts();
    let seen: Vec<_> = parts
        .iter()
        .map(|part| (part.index, part.count, part.text.as_str()))
        .collect();
    assert_eq!(seen, [(0, 3, "first"), (1, 3, "second"), (2, 3, "third")]);
    assert!(fixture.manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn unbounded_retry_after_blocks_only_its_chat() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    for (number, seconds) in [(1, u64::MAX), (2, u64::MAX / 2), (3, 1 << 40)] {
        channel.fail_next(SendFault::Refuse(ChannelError::RateLimited {
            retry_after: Duration::from_secs(seconds),
        }));
        fixture
            .publish(reply(&number.to_string(), 0, "waits"))
            .await;
        fixture
            .publish(reply(&number.to_string(), 1, "waits behind it"))
            .await;
        fixture.publish(reply("9", number, "goes on")).await;
        channel
            .wait_for_parts(usize::try_from(number).unwrap())
            .await
            .unwrap();
    }
    assert_eq!(channel.texts(), ["goes on"; 3]);
    assert!(fixture.manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn failed_part_is_retried_without_blocking_other_chats() {
    let style = TextStyle {
        format: Format::Markup(&PlainText),
        measure: Measure::CodePoints,
        limit: 6,
    };
    let fixture = start(vec![RecordingChannel::new("chat").with_style(style)]);
    let channel = &fixture.channels[0];
    fixture
        .publish(outbound("chat", "9", 0, "zero", OutboundKind::Notice))
        .await;
    channel.wait_for_parts(1).await.unwrap();
    channel.fail_next(unreachable());
    let began = Instant::now();
    fixture.publish(reply("1", 0, "one\n\ntwo")).await;
    fixture.publish(reply("1", 1, "three")).await;
    fixture.publish(reply("1", 2, "four")).await;
    fixture.publish(reply("2", 0, "other")).await;
    channel.wait_for_parts(2).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "the other chat waited"
    );
    fixture.settled().await;
    assert_eq!(
        channel.texts(),
        ["zero", "other", "one", "two", "three", "four"]
    );
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn inherited_messages_are_not_overtaken() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let pause = Duration::from_secs(30);
    fixture.channels[0].fail_next(SendFault::Refuse(ChannelError::RateLimited {
        retry_after: pause,
    }));
    fixture.publish(reply("1", 0, "one")).await;
    while fixture.channels[0].attempts() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(fixture.manager.stop().await);
    // A new worker has none of the previous one's memory.
    let again = start_on(fixture.bus, vec![RecordingChannel::new("chat")]);
    again.publish(reply("1", 1, "two")).await;
    again.publish(reply("2", 0, "other")).await;
    again.publish(reply("1", 2, "three")).await;
    let sent = EntryState::Sent;
    let ledger = again.settled().await;
    assert_eq!(
        ledger
            .iter()
            .map(|(_, state, _)| *state)
            .collect::<Vec<_>>(),
        [sent; 4]
    );
    assert_eq!(again.channels[0].texts(), ["other", "one", "two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_and_retries_are_limited() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    channel.fail_next(SendFault::Refuse(ChannelError::RateLimited {
        retry_after: Duration::from_secs(40),
    }));
    for _ in 0..3 {
        channel.fail_next(unreachable());
    }
    let began = Instant::now();
    fixture.publish(reply("1", 0, "lost")).await;
    let ledger = fixture.settled().await;
    let why = "the platform cannot be reached: no route (tried 4 times)";
    let notice = format!("A message of mine could not be sent: {why}. /pending shows it.");
    let expected = [
        ("lost".to_owned(), EntryState::Failed, Some(why.to_owned())),
        (notice.clone(), EntryState::Sent, None),
    ];
    assert_eq!(ledger, expected);
    assert!(began.elapsed() >= Duration::from_secs(40 + 2 + 4));
    assert_eq!((channel.attempts(), channel.texts()), (5, vec![notice]));
}

#[tokio::test(start_paused = true)]
async fn away_receiver_is_retried_within_five_seconds() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    fixture
        .settings
        .send_modify(|settings| settings.delivery.send_max_retries = 100);
    let channel = &fixture.channels[0];
    for _ in 0..10 {
        channel.fail_next(SendFault::Refuse(ChannelError::Away(
            "nobody listens".to_owned(),
        )));
    }
    let began = Instant::now();
    fixture.publish(reply("1", 0, "while you were away")).await;
    fixture.settled().await;
    assert_eq!(
        (channel.attempts(), channel.texts()),
        (11, vec!["while you were away".to_owned()])
    );
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "ten growing pauses are more than four minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn uncertain_delivery_is_not_repeated() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    channel.fail_next(SendFault::TakeThenFail(ChannelError::Ambiguous(
        "reset".to_owned(),
    )));
    channel.fail_next(SendFault::Refuse(ChannelError::NotFound(
        "chat 1".to_owned(),
    )));
    channel.fail_next(SendFault::Hang);
    for (number, content) in (0..).zip(["maybe", "gone", "hung", "", "fine"]) {
        fixture.publish(reply("1", number, content)).await;
    }
    let ledger = fixture.settled().await;
    let states: Vec<_> = ledger
        .iter()
        .map(|(content, state, _)| (content.as_str(), *state))
        .collect();
    let expected = [
        ("maybe", EntryState::Uncertain),
        ("gone", EntryState::Failed),
        ("hung", EntryState::Uncertain),
        ("", EntryState::Expired),
        ("fine", EntryState::Sent),
        (UNCERTAIN, EntryState::Sent),
        (UNCERTAIN, EntryState::Sent),
        (
            "My last message had nothing in it to show.",
            EntryState::Sent,
        ),
    ];
    assert_eq!(states, expected);
    assert_eq!(
        channel.texts().get(..2),
        Some(["maybe".to_owned(), "fine".to_owned()].as_slice())
    );
}

/// Notice to a chat about a message that may not have arrived.
const UNCERTAIN: &str = "I do not know whether my last message arrived. /pending shows it.";

#[tokio::test(start_paused = true)]
async fn uncertain_delivery_follows_the_policy() {
    let idempotent = DeliveryGuarantee::Idempotent { window: None };
    let table = [
        (
            UncertainPolicy::Ask,
            DeliveryGuarantee::BestEffort,
            EntryState::Uncertain,
            vec!["text", UNCERTAIN],
        ),
        (
            UncertainPolicy::Drop,
            DeliveryGuarantee::BestEffort,
            EntryState::Uncertain,
            vec!["text"],
        ),
        (
            UncertainPolicy::ResendMarked,
            DeliveryGuarantee::BestEffort,
            EntryState::Sent,
            vec!["text", "↻ This may be a repetition:\ntext"],
        ),
        (
            UncertainPolicy::Ask,
            idempotent,
            EntryState::Sent,
            vec!["text", "text"],
        ),
    ];
    for (policy, guarantee, state, texts) in table {
        let fixture = start(vec![
            RecordingChannel::new("chat").with_guarantee(guarantee),
        ]);
        fixture
            .settings
            .send_modify(|settings| settings.delivery.uncertain = policy);
        let channel = &fixture.channels[0];
        channel.fail_next(SendFault::TakeThenFail(ChannelError::Ambiguous(
            "reset".to_owned(),
        )));
        fixture.publish(reply("1", 0, "text")).await;
        assert_eq!(fixture.settled().await[0].1, state, "{policy:?}");
        assert_eq!(channel.texts(), texts, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn repetition_keeps_its_order_and_is_limited() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    fixture
        .settings
        .send_modify(|settings| settings.delivery.uncertain = UncertainPolicy::ResendMarked);
    let channel = &fixture.channels[0];
    for _ in 0..4 {
        channel.fail_next(SendFault::TakeThenFail(ChannelError::Ambiguous(
            "reset".to_owned(),
        )));
    }
    fixture.publish(reply("1", 0, "first")).await;
    fixture.publish(reply("1", 1, "second")).await;
    let ledger = fixture.settled().await;
    let states: Vec<_> = ledger
        .iter()
        .map(|(content, state, _)| (content.as_str(), *state))
        .collect();
    let expected = [
        ("first", EntryState::Uncertain),
        ("second", EntryState::Sent),
        (UNCERTAIN, EntryState::Sent),
    ];
    assert_eq!(states, expected);
    let again = "↻ This may be a repetition:\nfirst";
    assert_eq!(
        channel.texts(),
        ["first", again, again, again, UNCERTAIN, "second"]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_reply_is_reported_once_and_failed_notice_never() {
    let too_large = || SendFault::Refuse(ChannelError::TooLarge("50 MB".to_owned()));
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    for _ in 0..3 {
        channel.fail_next(too_large());
    }
    fixture.publish(reply("1", 0, "text")).await;
    fixture.settled().await;
    assert_eq!(
        channel.texts(),
        Vec::<String>::new(),
        "the notice failed too, and nothing was said about it"
    );
    let failed = fixture
        .bus
        .list(Queue::Outbound, LedgerFilter::Failed, 10)
        .await
        .unwrap();
    assert_eq!(failed.len(), 2);
    for entry in failed.iter().rev() {
        fixture.bus.retry(&entry.id).await.unwrap();
    }
    let ledger = fixture.settled().await;
    let notice = "A message of mine could not be sent: too large for the platform: 50 MB. /pending shows it.";
    assert_eq!(channel.texts(), [notice]);
    assert_eq!(ledger.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn doubt_after_a_crash_follows_the_guarantee() {
    let table = [
        (
            DeliveryGuarantee::Idempotent { window: None },
            EntryState::Sent,
            "text",
        ),
        (DeliveryGuarantee::Detectable, EntryState::Sent, "text"),
        (
            DeliveryGuarantee::PartlyDetectable,
            EntryState::Sent,
            "text",
        ),
        (
            DeliveryGuarantee::BestEffort,
            EntryState::Uncertain,
            UNCERTAIN,
        ),
    ];
    for (guarantee, state, text) in table {
        let bus = MemoryBus::new();
        bus.publish_outbound(reply("1", 0, "text")).await.unwrap();
        let mut crashed = bus.outbound(&"chat".into()).await.unwrap();
        crashed
            .next()
            .await
            .unwrap()
            .settle(SettleOutcome::Begin)
            .await
            .unwrap();
        drop(crashed);
        let fixture = start_on(
            bus,
            vec![RecordingChannel::new("chat").with_guarantee(guarantee)],
        );
        assert_eq!(fixture.settled().await[0].1, state, "{guarantee:?}");
        assert_eq!(fixture.channels[0].texts(), [text], "{guarantee:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_channel_does_not_delay_others() {
    let fixture = start(vec![
        RecordingChannel::new("chat"),
        RecordingChannel::new("other"),
    ]);
    fixture.channels[0].fail_next(SendFault::Hang);
    let began = Instant::now();
    fixture.publish(reply("1", 0, "hangs")).await;
    fixture
        .publish(outbound("other", "2", 0, "goes", OutboundKind::Final))
        .await;
    fixture.channels[1].wait_for_parts(1).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
}

/// A sent message is settled together with the begin of the next one. A kill during the next send
/// must leave no doubt about it.
#[tokio::test(start_paused = true)]
async fn message_is_settled_before_the_next_is_sent() {
    let bus = MemoryBus::new();
    for (chat, text) in [("1", "goes"), ("2", "hangs")] {
        bus.publish_outbound(reply(chat, 0, text)).await.unwrap();
    }
    let channel = RecordingChannel::new("chat");
    channel.fail_next(SendFault::None);
    channel.fail_next(SendFault::Hang);
    let fixture = start_on(bus, vec![channel]);
    fixture.channels[0].wait_for_parts(1).await.unwrap();
    // The second one has begun by now, and hangs for a minute.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let states: Vec<_> = fixture
        .ledger()
        .await
        .into_iter()
        .map(|(_, state, _)| state)
        .collect();
    assert_eq!(states, [EntryState::Sent, EntryState::Sending]);
}

#[tokio::test(start_paused = true)]
async fn message_to_unknown_channel_fails() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    fixture
        .publish(outbound("nowhere", "1", 0, "text", OutboundKind::Final))
        .await;
    let why = "no channel called `nowhere` is configured and enabled here".to_owned();
    assert_eq!(
        fixture.settled().await,
        [("text".to_owned(), EntryState::Failed, Some(why))]
    );
}

#[tokio::test(start_paused = true)]
async fn progress_and_drafts_follow_the_settings() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    let offer = |kind, content: &str| fixture.bus.offer(outbound("chat", "1", 0, content, kind));
    let stream = || "s".into();
    fixture
        .publish(outbound("chat", "1", 1, "begin", OutboundKind::Notice))
        .await;
    channel.wait_for_parts(1).await.unwrap();
    offer(OutboundKind::Progress, "thinking");
    offer(OutboundKind::ToolHint, "exec(\"ls\")");
    offer(OutboundKind::Delta { stream: stream() }, "do");
    offer(
        OutboundKind::StreamEnd {
            stream: stream(),
            resuming: false,
        },
        "",
    );
    fixture.publish(reply("1", 2, "done")).await;
    channel.wait_for_parts(3).await.unwrap();
    assert_eq!(channel.texts(), ["begin", "thinking", "done"]);
    let drafts: Vec<_> = channel
        .draft_events()
        .into_iter()
        .map(|draft| draft.kind)
        .collect();
    let expected = [
        OutboundKind::Delta { stream: stream() },
        OutboundKind::StreamEnd {
            stream: stream(),
            resuming: false,
        },
    ];
    assert_eq!(drafts, expected);
    fixture.settings.send_modify(|settings| {
        settings.delivery.send_progress = false;
        settings.delivery.send_tool_hints = true;
    });
    offer(OutboundKind::Progress, "thinking");
    offer(OutboundKind::ToolHint, "exec(\"ls\")");
    channel.wait_for_parts(4).await.unwrap();
    assert_eq!(channel.texts()[3], "exec(\"ls\")");
}

#[tokio::test(start_paused = true)]
async fn lossy_messages_have_keys_of_their_own() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    fixture
        .publish(outbound("chat", "1", 1, "begin", OutboundKind::Notice))
        .await;
    channel.wait_for_parts(1).await.unwrap();
    for thought in ["let me see", "and there"] {
        let thought = outbound("chat", "1", 0, thought, OutboundKind::Progress);
        fixture.bus.offer(thought);
    }
    channel.wait_for_parts(3).await.unwrap();
    fixture.publish(reply("1", 0, "done")).await;
    channel.wait_for_parts(4).await.unwrap();
    let parts = channel.parts();
    let keys: BTreeSet<_> = parts.iter().map(OutboundPart::idempotency_key).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
    let answer = outbound("chat", "1", 0, "done", OutboundKind::Final);
    assert_eq!(parts[3].message.key, answer.key);
}

#[tokio::test(start_paused = true)]
async fn send_progress_also_applies_to_streamed_text() {
    let stream = || "s".into();
    let withdrawn = OutboundKind::Withdrawn { stream: stream() };
    let ended = OutboundKind::StreamEnd {
        stream: stream(),
        resuming: true,
    };
    for (send_progress, has_drafts, end, texts) in [
        (true, true, Some(&ended), vec!["done"]),
        (false, true, Some(&withdrawn), vec!["done"]),
        (true, false, None, vec!["let me see", "done"]),
        (false, false, None, vec!["done"]),
    ] {
        let channel = RecordingChannel::new("chat");
        let fixture = start(vec![if has_drafts {
            channel
        } else {
            channel.without_abilities()
        }]);
        fixture
            .settings
            .send_modify(|settings| settings.delivery.send_progress = send_progress);
        let offer = |kind, content: &str, completes| {
            fixture.bus.offer(OutboundMessage {
                completes,
                ..outbound("chat", "1", 0, content, kind)
            });
        };
        let channel = &fixture.channels[0];
        fixture
            .publish(outbound("chat", "1", 1, "begin", OutboundKind::Notice))
            .await;
        channel.wait_for_parts(1).await.unwrap();
        offer(OutboundKind::Delta { stream: stream() }, "let me see", None);
        offer(ended.clone(), "", None);
        offer(OutboundKind::Progress, "let me see", Some(stream()));
        fixture.publish(reply("1", 2, "done")).await;
        channel.wait_for_parts(texts.len() + 1).await.unwrap();
        assert_eq!(channel.texts()[1..], texts);
        assert_eq!(
            channel.draft_events().last().map(|draft| &draft.kind),
            end,
            "{send_progress}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn draft_without_reply_is_withdrawn() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    let withdrawn = OutboundKind::Withdrawn { stream: "s".into() };
    fixture
        .publish(outbound("chat", "1", 1, "begin", OutboundKind::Notice))
        .await;
    channel.wait_for_parts(1).await.unwrap();
    fixture
        .bus
        .offer(outbound("chat", "1", 0, "", withdrawn.clone()));
    fixture
        .bus
        .offer(outbound("chat", "1", 0, "after it", OutboundKind::Progress));
    channel.wait_for_parts(2).await.unwrap();
    assert_eq!(
        channel
            .draft_events()
            .into_iter()
            .map(|draft| draft.kind)
            .collect::<Vec<_>>(),
        [withdrawn]
    );
}

#[tokio::test(start_paused = true)]
async fn strangers_are_rejected_until_the_list_changes() {
    let fixture = start(vec![RecordingChannel::new("chat").without_abilities()]);
    let allow = |list| {
        fixture
            .settings
            .send_modify(|settings| settings.access.allow_from = list);
    };
    let say = async |id: &str| {
        let mut message = InboundMessage::text("forged", "ann", "1", "hi");
        message.id = Some(id.into());
        fixture.channels[0]
            .receive(message, &Arrival::direct())
            .await
            .unwrap()
    };
    allow(AllowFrom::Unset);
    assert_eq!(say("1").await, Admission::NotAllowed);
    allow(AllowFrom::listed(["ann"]));
    assert_eq!(say("1").await, Admission::Accepted);
    assert_eq!(say("1").await, Admission::Duplicate);
    allow(AllowFrom::listed(["bob"]));
    assert_eq!(say("2").await, Admission::NotAllowed);
    let mut inbound = fixture.bus.inbound().await.unwrap();
    let first = inbound.next().await.unwrap();
    assert_eq!(first.message.channel, "chat".into());
    allow(AllowFrom::listed(["*"]));
    fixture.manager.close_intake();
    assert_eq!(say("3").await, Admission::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn full_ledger_asks_to_try_later() {
    let fixture = start_on(MemoryBus::bounded(1), vec![RecordingChannel::new("chat")]);
    let say = async |text: &str| {
        let message = InboundMessage::text("chat", "ann", "1", text);
        fixture.channels[0]
            .receive(message, &Arrival::direct())
            .await
            .unwrap()
    };
    assert_eq!(say("a").await, Admission::Accepted);
    assert_eq!(say("b").await, Admission::TryLater);
}

#[tokio::test(start_paused = true)]
async fn only_recoverable_channels_are_restarted() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    let health = |fixture: &Fixture| fixture.manager.health().snapshot()["chat"].clone();
    channel.wait_for_runs(1).await.unwrap();
    assert_eq!(health(&fixture), HealthState::Running);
    let broken = fixture.manager.health().snapshot()["broken"].clone();
    assert_eq!(
        broken,
        HealthState::Failed {
            why: "no token".to_owned()
        }
    );

    let mut watched = fixture.manager.health().subscribe();
    watched.mark_unchanged();
    channel.crash(ChannelError::Unavailable("no route".to_owned()));
    watched.changed().await.unwrap();
    let HealthState::Degraded { why, .. } = health(&fixture) else {
        panic!("{:?}", health(&fixture))
    };
    assert_eq!(why, "the platform cannot be reached: no route");
    channel.wait_for_runs(2).await.unwrap();
    assert_eq!(health(&fixture), HealthState::Running);

    // The channel gives no sign of life from here on: it is stopped and restarted as a whole.
    let began = Instant::now();
    channel.wait_for_runs(3).await.unwrap_err();
    fixture
        .settings
        .send_modify(|settings| settings.delivery.alive_within_s = 5);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(
        channel.runs() > 3,
        "{} runs after {:?}",
        channel.runs(),
        began.elapsed()
    );

    channel.crash(ChannelError::Auth("revoked".to_owned()));
    tokio::time::sleep(Duration::from_mins(10)).await;
    let why = "the platform refuses the credentials: revoked".to_owned();
    assert_eq!(health(&fixture), HealthState::Failed { why });
    assert!(fixture.manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn flush_sends_due_messages_and_leaves_delayed_ones() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let channel = &fixture.channels[0];
    channel.fail_next(SendFault::Refuse(ChannelError::RateLimited {
        retry_after: Duration::from_mins(5),
    }));
    fixture.publish(reply("1", 0, "later")).await;
    fixture.publish(reply("2", 0, "now")).await;
    let began = Instant::now();
    assert!(fixture.manager.flush(Duration::from_secs(5)).await);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(fixture.manager.stop().await);
    let ledger = fixture
        .bus
        .list(Queue::Outbound, LedgerFilter::Open, 10)
        .await
        .unwrap();
    assert_eq!(
        ledger
            .into_iter()
            .map(|entry| entry.outbound.unwrap().content)
            .collect::<Vec<_>>(),
        ["later"]
    );
    assert_eq!(channel.texts(), ["now"]);
}

#[tokio::test(start_paused = true)]
async fn stickers_are_sent_as_pictures() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("index.json"),
        r#"{"wave": "https://x.test/wave.png"}"#,
    )
    .unwrap();
    let stickers = Stickers::in_folder(folder.path(), folder.path().join("outbox"));
    let fixture = start_with(
        MemoryBus::new(),
        vec![RecordingChannel::new("chat")],
        stickers,
    );
    fixture
        .publish(reply("1", 0, "Hello [sticker:wave] [sticker:nobody]"))
        .await;
    fixture.publish(reply("1", 1, "[sticker:wave]")).await;
    let ledger = fixture.settled().await;
    let stored: Vec<_> = ledger
        .iter()
        .map(|(content, state, _)| (content.as_str(), *state))
        .collect();
    let sent = EntryState::Sent;
    assert_eq!(
        stored,
        [
            ("Hello [sticker:wave] [sticker:nobody]", sent),
            ("[sticker:wave]", sent)
        ]
    );
    let parts = fixture.channels[0].parts();
    let seen: Vec<_> = parts
        .iter()
        .map(|part| {
            (
                part.plain.as_str(),
                part.message
                    .media
                    .iter()
                    .map(|media| media.location.as_str())
                    .collect(),
            )
        })
        .collect();
    let wave = || vec!["https://x.test/wave.png"];
    assert_eq!(seen, [("Hello [sticker:nobody]", wave()), ("", wave())]);
    assert!(fixture.manager.stop().await);
}
