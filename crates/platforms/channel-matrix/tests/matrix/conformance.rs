//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_matrix_fake::{
    BOT_TOKEN, Fault, Incoming, MatrixFake, Pushed, SentFile, SentMessage,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, fake, mallory};

struct Harness {
    fake: MatrixFake,
    last: Option<Pushed>,
    is_down: bool,
}

impl Harness {
    async fn open() -> anyhow::Result<Self> {
        Ok(Self {
            fake: fake().await,
            last: None,
            is_down: false,
        })
    }

    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }

    /// Waits until the channel receives for the first time: what came before is history.
    async fn received(&self) -> anyhow::Result<()> {
        if self.last.is_none() && !self.is_down {
            self.fake.wait_for_waiting_syncs(1).await?;
        }
        Ok(())
    }
}

fn room(chat: ObservedChat) -> String {
    match chat {
        ObservedChat::Friend => ann().direct(),
        ObservedChat::Stranger => mallory().direct(),
        ObservedChat::Room => ROOM.to_owned(),
    }
}

fn fault(fault: SendFault) -> Fault {
    match fault {
        SendFault::RateLimited => Fault::RateLimitedFor(SendFault::PAUSE_SECONDS),
        SendFault::Broken => Fault::Status(502),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::Error("M_BAD_JSON"),
        SendFault::ChatGone => Fault::Error("M_FORBIDDEN"),
        SendFault::TooLarge => Fault::Error("M_TOO_LARGE"),
        SendFault::Unauthorized => Fault::Error("M_UNKNOWN_TOKEN"),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().user_id.into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![BOT_TOKEN.to_owned()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({"reactEmoji": ""})))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text),
            Destination::Room { addressed: false } => Incoming::to(ROOM, &person, posted.text),
            Destination::Room { .. } => Incoming::to(ROOM, &person, posted.text).mentioning_bot(),
        };
        if let Some(file) = posted.file {
            let kind = match file.mime.split('/').next() {
                Some("image") => "m.image",
                Some("audio") => "m.audio",
                _ => "m.file",
            };
            incoming = incoming.with_file(kind, &file.name, &file.mime, file.bytes.clone());
        }
        self.received().await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.received().await?;
        let [earlier, later] = [earlier, later].map(|text| Incoming::direct(&ann(), text));
        let [_, later] = self.fake.push_reversed(earlier, later);
        self.last = Some(later);
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| self.fake.is_acknowledged(last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_acknowledged(self.last()?).await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let room = room(chat);
        let seen = |sent: &SentMessage| {
            let files = sent.files.iter();
            let files: Vec<_> = files
                .map(|file: &SentFile| (file.name.clone(), file.bytes.to_vec()))
                .collect();
            let text = if files.is_empty() { &sent.text } else { "" };
            VisibleMessage::new(text).with_files(files)
        };
        let visible = |sent: &&SentMessage| {
            sent.room_id == room && !sent.is_redacted && sent.kind == "m.room.message"
        };
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let room = room(chat);
        let sent = self.fake.sent().into_iter();
        let sent = sent.filter(|sent| sent.room_id == room && !sent.is_redacted);
        let typing = self.fake.is_typing(&room).then(|| "typing".to_owned());
        let bot = self.fake.bot().user_id;
        let receipts = self.fake.receipts(&room).into_iter();
        let receipts = receipts.filter(|receipt| receipt.user_id == bot);
        sent.map(|sent| format!("{} {}", sent.kind, sent.text))
            .chain(typing)
            .chain(receipts.map(|receipt| format!("receipt {}", receipt.event_id)))
            .collect()
    }

    fn downloads(&self) -> usize {
        self.fake.calls_of("download").len()
    }

    /// An event has at most 65,536 bytes.
    fn longest_text(&self) -> usize {
        60_000
    }

    fn largest_file(&self) -> Option<u64> {
        Some(20 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => self.fake.fail_next("download", Fault::Truncated),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("send", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => {
                self.is_down = true;
                self.fake.go_down().await?;
            }
            PlatformEvent::Up => {
                self.is_down = false;
                self.fake.come_back().await?;
            }
            PlatformEvent::Beat => self.fake.end_syncs(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let room = ann().direct();
        let whole = json!({
            "type": "m.room.message", "sender": ann().user_id, "event_id": "$odd",
            "origin_server_ts": 1, "content": {"msgtype": "m.nothing", "body": "odd"},
        });
        let changes = [
            ("type", json!(5)),
            ("type", json!("m.room.of.tomorrow")),
            ("sender", Value::Null),
            ("sender", json!(ann().direct())),
            ("sender", json!(self.fake.bot().user_id)),
            ("event_id", json!(["$odd"])),
            ("content", Value::Null),
            ("content", json!("odd")),
            ("content", json!({"msgtype": ["m.text"], "body": {}})),
            (
                "content",
                json!({"msgtype": "m.image", "url": 5, "file": []}),
            ),
            ("content", json!({"m.relates_to": "none", "m.mentions": []})),
            ("origin_server_ts", json!(-1.5e300)),
            ("state_key", json!(5)),
        ];
        for (name, value) in &changes {
            let mut event = whole.clone();
            event[*name] = value.clone();
            self.fake.push_event(&room, event);
        }
        Ok(changes.len())
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let missing = [
        (
            Ability::OthersWords,
            "a forwarded message is a copy that says nothing of its author",
        ),
        (
            Ability::NewsOfRivals,
            "a homeserver serves every program with a token, and tells none of the others",
        ),
    ];
    conformance::channel(Harness::open, &missing).await.unwrap();
}
