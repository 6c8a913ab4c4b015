//! The channel against a relay on loopback, with the public conformance suite of all channels.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod platform;

use std::sync::Arc;

use anyhow::bail;
use custom_channel::{RelayFactory, RelayMarkup};
use nanobot_channel::{
    Channel, ChannelFactory as _, Format, InboundMessage, Measure, OutboundKey, OutboundKind,
    OutboundMessage, OutboundPart, RawConfig, SendRecovery, SenderId, TextStyle, Value,
    async_trait,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, MessageCondition, ObservedChat, Participant, PlatformEvent,
    SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use platform::{Board, Relay, TOKEN};

/// The relay's end of the conversations.
struct Harness {
    relay: Relay,
    said: usize,
    last: Value,
}

impl Harness {
    async fn open() -> anyhow::Result<Self> {
        Ok(Self {
            relay: Relay::start().await?,
            said: 0,
            last: Value::Null,
        })
    }
}

fn person(chat: ObservedChat) -> &'static str {
    if chat == ObservedChat::Stranger {
        "mallory"
    } else {
        "ann"
    }
}

fn seen_by(person: &str, board: &Board) -> Vec<VisibleMessage> {
    board
        .shown
        .iter()
        .filter(|(_, to, _)| to == person)
        .map(|(_, _, text)| VisibleMessage::new(text))
        .collect()
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "ann".into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        let section = json!({"enabled": true, "server": self.relay.server, "token": TOKEN});
        Ok(RelayFactory.create("relay".into(), &RawConfig::new(section))?)
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        self.said += 1;
        let sender = if posted.by == Participant::Friend {
            "ann"
        } else {
            "mallory"
        };
        self.last = json!({"id": format!("m{}", self.said), "sender": sender, "text": posted.text});
        self.relay.line(self.last.clone());
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.relay.board.read(|board| board.knows(&self.last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self
            .relay
            .wait_for("an acknowledgement", |board| board.knows(&self.last))
            .await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let probe = |board: &Board| condition.matching(seen_by(person(chat), board));
        Ok(self.relay.board.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let seen = self.relay.board.read(|board| seen_by(person(chat), board));
        seen.into_iter().map(|seen| seen.text).collect()
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        let board = &self.relay.board;
        match event {
            PlatformEvent::OfferedAgain | PlatformEvent::Repeated => {
                self.relay.line(self.last.clone());
            }
            PlatformEvent::FailedSend(fault) => board.change(|board| board.fault = Some(fault)),
            PlatformEvent::Cut => self.relay.cut(),
            PlatformEvent::Down => self.relay.go_down().await?,
            PlatformEvent::Up => self.relay.come_back().await?,
            PlatformEvent::Beat => self.relay.line(json!({"ping": 1})),
            PlatformEvent::Stalled => board.change(|board| board.is_stalled = true),
            PlatformEvent::Recovered => board.change(|board| board.is_stalled = false),
            PlatformEvent::Revoked => {
                board.change(|board| board.forgot_the_token = true);
                self.relay.cut();
            }
            PlatformEvent::Restored => board.change(|board| board.forgot_the_token = false),
            PlatformEvent::BrokenDownload => bail!("the relay carries text only"),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = [
            json!(""),
            json!("nonsense"),
            json!({}),
            json!([]),
            json!({"id": 7, "sender": null, "text": []}),
            json!({"id": "m", "sender": "ann"}),
            json!({"taken": "what nobody sent"}),
            json!({"refused": "what nobody sent", "why": "why not"}),
            json!({"news": "of tomorrow"}),
        ];
        let count = odd.len();
        odd.into_iter().for_each(|line| self.relay.line(line));
        Ok(count)
    }
}

#[tokio::test]
async fn passes_the_channel_suite() {
    let takes_or_refuses = "the relay takes a part or refuses it";
    let missing = [
        (Ability::Rooms, "every chat of the relay is one person's"),
        (
            Ability::OthersWords,
            "the relay carries what its user types, and nothing else",
        ),
        (Ability::IncomingFiles, "the relay carries text only"),
        (Ability::OutgoingFiles, "the relay carries text only"),
        (
            Ability::DraftView,
            "what the relay has shown does not change",
        ),
        (
            Ability::Rivals,
            "the relay takes one connection at a time, and another program waits for its end",
        ),
        (Ability::SendFault(SendFault::RateLimited), takes_or_refuses),
        (Ability::SendFault(SendFault::Broken), takes_or_refuses),
        (Ability::SendFault(SendFault::ChatGone), takes_or_refuses),
        (Ability::SendFault(SendFault::TooLarge), takes_or_refuses),
        (
            Ability::SendFault(SendFault::Unauthorized),
            takes_or_refuses,
        ),
    ];
    conformance::channel(Harness::open, &missing).await.unwrap();
}

#[tokio::test]
async fn disconnected_send_is_retryable() {
    let mut harness = Harness::open().await.unwrap();
    let channel = harness.connect().unwrap();
    let inbound = InboundMessage::text("relay", "ann", "ann", "hi");
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    let message =
        OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, "hello".to_owned());
    let (text, plain, blocks) = ("hello".to_owned(), "hello".to_owned(), Vec::new());
    let part = OutboundPart {
        message: Arc::new(message),
        index: 0,
        count: 1,
        text,
        plain,
        blocks,
        in_doubt: false,
    };
    let error = channel.send(&part).await.unwrap_err();
    assert_eq!(
        error.recovery(),
        SendRecovery::Retry { after: None },
        "{error}"
    );
}

/// Removes the relay's markup.
fn visible(text: &str) -> anyhow::Result<String> {
    let mut letters = text.chars();
    let (mut visible, mut marks) = (String::new(), String::new());
    while let Some(c) = letters.next() {
        match c {
            '\\' => visible.extend(letters.next()),
            '*' | '_' if marks.ends_with(c) => drop(marks.pop()),
            '*' | '_' => marks.push(c),
            _ => visible.push(c),
        }
    }
    anyhow::ensure!(marks.is_empty(), "{marks} is open in {text}");
    Ok(visible)
}

#[test]
fn markup_passes_the_text_style_suite() {
    let style = TextStyle {
        format: Format::Markup(&RelayMarkup),
        measure: Measure::CodePoints,
        limit: 2000,
    };
    conformance::text_style(style, visible).unwrap();
}
