//! Indicators and notices of work in progress, and how long a chat sees them.

use std::time::Duration;

use nanobot_bus::{Bus as _, MemoryBus, SettleOutcome};
use nanobot_channel::{
    Arrival, DeliveryContext, InboundMessage, MessageId, Origin, OutboundKey, OutboundKind,
    OutboundMessage,
};
use nanobot_channels::DeliverySettings;
use nanobot_testkit::RecordingChannel;
use tokio::time::sleep;

use super::{Fixture, start, start_on};

/// A message of chat 1, or of a thread of it.
fn inbound_message(id: &str, thread: Option<&str>, words: &str) -> InboundMessage {
    InboundMessage {
        id: Some(MessageId::from(id)),
        delivery: DeliveryContext {
            thread: thread.map(str::to_owned),
            ..DeliveryContext::default()
        },
        ..InboundMessage::text("chat", "ann", "1", words)
    }
}

/// A message of the turn that answers `message`.
fn of_turn(message: &InboundMessage, kind: OutboundKind, content: &str) -> OutboundMessage {
    let turn = message.journal_id().unwrap();
    let key = OutboundKey {
        turn: turn.as_str().into(),
        position: 0,
    };
    OutboundMessage::in_reply_to(message, key, kind, content.to_owned())
}

fn turn_end() -> OutboundKind {
    OutboundKind::TurnEnd { unfinished: 0 }
}

impl Fixture {
    async fn receive(&self, message: &InboundMessage) {
        self.channels[0]
            .receive(message.clone(), &Arrival::direct())
            .await
            .unwrap();
    }

    /// Counts how often the indicator is shown in the next minute.
    async fn typing_in_a_minute(&self) -> usize {
        // Lossy messages have to arrive first.
        sleep(Duration::from_millis(1)).await;
        let before = self.channels[0].typing_shown().len();
        sleep(Duration::from_mins(1)).await;
        self.channels[0].typing_shown().len() - before
    }
}

#[tokio::test(start_paused = true)]
async fn the_typing_indicator_lasts_from_acceptance_to_the_reply() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let message = inbound_message("1", None, "hi");
    fixture.receive(&message).await;
    sleep(Duration::from_millis(8500)).await;
    assert_eq!(
        fixture.channels[0].typing_shown(),
        ["1", "1", "1"].map(Into::into)
    );
    let mut on_the_way = of_turn(&message, OutboundKind::Final, "a file");
    on_the_way.key.position = 1;
    fixture.publish(on_the_way).await;
    assert!(fixture.typing_in_a_minute().await > 0);
    fixture
        .publish(of_turn(&message, OutboundKind::Final, "done"))
        .await;
    assert_eq!(fixture.typing_in_a_minute().await, 0);
}

#[tokio::test(start_paused = true)]
async fn typing_ends_with_the_answer_to_a_refused_command() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let message = inbound_message("1", None, "/nonsense");
    fixture.receive(&message).await;
    assert!(fixture.typing_in_a_minute().await > 0);
    fixture
        .publish(of_turn(&message, OutboundKind::Notice, "no such command"))
        .await;
    assert_eq!(fixture.typing_in_a_minute().await, 0);
}

/// A bus to which these messages were published before it had a consumer.
async fn unanswered(messages: &[&InboundMessage]) -> MemoryBus {
    let bus = MemoryBus::new();
    for message in messages {
        bus.publish_inbound((*message).clone()).await.unwrap();
    }
    bus
}

#[tokio::test(start_paused = true)]
async fn resumed_turns_show_typing_and_alive_notices() {
    let (first, second) = (
        inbound_message("1", None, "hi"),
        inbound_message("2", None, "hi"),
    );
    let elsewhere = InboundMessage {
        channel: "other".into(),
        chat_id: "2".into(),
        ..inbound_message("3", None, "hi")
    };
    let job = InboundMessage {
        chat_id: "3".into(),
        origin: Origin::Cron { job: "j".into() },
        ..inbound_message("4", None, "hi")
    };
    let bus = unanswered(&[&first, &second, &elsewhere, &job]).await;
    let fixture = start_on(bus, vec![RecordingChannel::new("chat")]);
    assert!(fixture.typing_in_a_minute().await > 0);
    assert!(
        fixture.channels[0]
            .typing_shown()
            .iter()
            .all(|chat| *chat == "1".into()),
        "of its own people alone"
    );
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.channels[0].texts(), ["Still at work, for 1 min."]);
    fixture.bus.offer(of_turn(&first, turn_end(), ""));
    assert!(fixture.typing_in_a_minute().await > 0);
    fixture
        .publish(of_turn(&second, OutboundKind::Final, "done"))
        .await;
    assert_eq!(fixture.typing_in_a_minute().await, 0);
}

#[tokio::test(start_paused = true)]
async fn resumed_turn_ends_when_its_message_is_settled() {
    let (first, second) = (
        inbound_message("1", None, "hi"),
        inbound_message("2", Some("7"), "hi"),
    );
    let fixture = start_on(
        unanswered(&[&first, &second]).await,
        vec![RecordingChannel::new("chat")],
    );
    assert!(fixture.typing_in_a_minute().await > 20, "in both places");
    let mut inbound = fixture.bus.inbound().await.unwrap();
    for left in [true, false] {
        inbound
            .next()
            .await
            .unwrap()
            .settle(SettleOutcome::Ack)
            .await
            .unwrap();
        sleep(Duration::from_secs(6)).await;
        assert_eq!(fixture.typing_in_a_minute().await > 0, left);
    }
}

#[tokio::test(start_paused = true)]
async fn typing_ends_with_the_last_turn_even_without_reply() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let (first, second, elsewhere) = (
        inbound_message("1", None, "hi"),
        inbound_message("2", None, "hi"),
        inbound_message("3", Some("7"), "hi"),
    );
    for message in [&first, &second, &elsewhere] {
        fixture.receive(message).await;
    }
    fixture.bus.offer(of_turn(&elsewhere, turn_end(), ""));
    fixture.bus.offer(of_turn(&first, turn_end(), ""));
    assert!(fixture.typing_in_a_minute().await > 0);
    fixture.bus.offer(of_turn(&second, turn_end(), ""));
    assert_eq!(fixture.typing_in_a_minute().await, 0);
}

#[tokio::test(start_paused = true)]
async fn typing_times_out_if_the_turn_end_is_lost() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let message = inbound_message("1", None, "hi");
    fixture.receive(&message).await;
    sleep(Duration::from_mins(8)).await;
    fixture
        .bus
        .offer(of_turn(&message, OutboundKind::ToolHint, "exec(\"ls\")"));
    sleep(Duration::from_mins(8)).await;
    assert!(fixture.typing_in_a_minute().await > 0);
    sleep(Duration::from_mins(2)).await;
    let told = fixture.channels[0].texts().len();
    assert_eq!(fixture.typing_in_a_minute().await, 0);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(fixture.channels[0].texts().len(), told);
}

#[tokio::test(start_paused = true)]
async fn silent_turn_sends_alive_notices() {
    let fixture = start(vec![RecordingChannel::new("chat").without_abilities()]);
    let message = inbound_message("1", Some("7"), "hi");
    fixture.receive(&message).await;
    sleep(Duration::from_secs(59)).await;
    assert_eq!(fixture.channels[0].texts(), [""; 0]);
    sleep(Duration::from_secs(2)).await;
    fixture.bus.offer(of_turn(
        &message,
        OutboundKind::ToolHint,
        "exec(\"make `all`\")",
    ));
    sleep(Duration::from_mins(7)).await;
    fixture
        .bus
        .offer(of_turn(&message, OutboundKind::Progress, "Almost there."));
    sleep(Duration::from_mins(7)).await;
    fixture.bus.offer(of_turn(&message, turn_end(), ""));
    sleep(Duration::from_hours(1)).await;
    let expected = [
        "Still at work, for 1 min.",
        "Still at work, for 3 min: exec(\"make 'all'\")",
        "Still at work, for 7 min: exec(\"make 'all'\")",
        "Almost there.",
    ];
    assert_eq!(fixture.channels[0].texts(), expected);
    for part in fixture.channels[0].parts() {
        assert_eq!(part.message.delivery, message.delivery);
    }
}

#[tokio::test(start_paused = true)]
async fn alive_notice_is_in_the_draft_and_its_language() {
    let fixture = start(vec![RecordingChannel::new("chat")]);
    let message = inbound_message("1", None, "你好");
    let stream = || "s".into();
    fixture.receive(&message).await;
    fixture.bus.offer(of_turn(
        &message,
        OutboundKind::Delta { stream: stream() },
        "好的",
    ));
    sleep(Duration::from_secs(61)).await;
    fixture.bus.offer(of_turn(
        &message,
        OutboundKind::StreamEnd {
            stream: stream(),
            resuming: true,
        },
        "",
    ));
    sleep(Duration::from_secs(121)).await;
    let drafts: Vec<_> = fixture.channels[0]
        .draft_events()
        .into_iter()
        .map(|draft| draft.content)
        .collect();
    assert_eq!(drafts, ["好的", "\n\n还在处理，已用 1 分钟。\n\n", ""]);
    assert_eq!(fixture.channels[0].texts(), ["还在处理，已用 3 分钟。"]);
}

#[tokio::test(start_paused = true)]
async fn alive_notices_can_be_disabled() {
    for quiet in [
        |delivery: &mut DeliverySettings| delivery.alive_notice_s = 0,
        |delivery: &mut DeliverySettings| delivery.send_progress = false,
    ] {
        let fixture = start_on(MemoryBus::new(), vec![RecordingChannel::new("chat")]);
        fixture
            .settings
            .send_modify(|settings| quiet(&mut settings.delivery));
        fixture.receive(&inbound_message("1", None, "hi")).await;
        sleep(Duration::from_mins(9)).await;
        assert_eq!(fixture.channels[0].texts(), [""; 0]);
    }
}
