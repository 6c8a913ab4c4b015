//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_feishu_fake::{
    APP_SECRET, Call, Fault, FeishuFake, Incoming, Pushed, SentFile, SentMessage, TOKEN_PREFIX,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, mallory};

struct Harness {
    fake: FeishuFake,
    last: Option<Pushed>,
    /// Number of files of the friend that are too large to be stored.
    oversized: usize,
    /// Messages of people and their chats.
    posted: Vec<(String, String)>,
}

impl Harness {
    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }
}

fn conversation(chat: ObservedChat) -> String {
    match chat {
        ObservedChat::Friend => ann().direct(),
        ObservedChat::Stranger => mallory().direct(),
        ObservedChat::Room => ROOM.to_owned(),
    }
}

fn fault(fault: SendFault) -> Fault {
    match fault {
        SendFault::RateLimited => Fault::RateLimited(SendFault::PAUSE_SECONDS),
        SendFault::Broken => Fault::Status(502),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::Error(230_022),
        SendFault::ChatGone => Fault::Error(230_002),
        SendFault::TooLarge => Fault::Error(230_025),
        SendFault::Unauthorized => Fault::Error(10_014),
    }
}

/// The event of a text of the friend.
fn message(id: &str, created: &str, text: &str) -> Value {
    json!({
        "sender": {"sender_id": {"open_id": ann().open_id}, "sender_type": "user"},
        "message": {
            "message_id": id, "create_time": created, "chat_id": ann().direct(), "chat_type": "p2p",
            "message_type": "text", "content": json!({"text": text}).to_string(),
        },
    })
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().open_id.into()
    }

    fn secrets(&self) -> Vec<String> {
        // The key of a connection is as good as a token for as long as it lasts.
        [APP_SECRET, TOKEN_PREFIX, "access_key"]
            .map(str::to_owned)
            .to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({})))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let text = posted.text_with("@_user_1");
        let chat = match posted.place {
            Destination::Direct => person.direct(),
            Destination::Room { .. } => ROOM.to_owned(),
        };
        let mut incoming = Incoming::to(&chat, &person, &text);
        if posted.place == (Destination::Room { addressed: true }) {
            incoming = incoming.mentioning_bot();
        }
        if let Some(file) = posted.file {
            // A file has no text at Feishu, so people quote it.
            let quoted = Incoming::to(&chat, &person, "");
            let quoted = quoted.with_file(&file.name, &file.mime, file.bytes.clone());
            let quoted = self.fake.push_silently(quoted).message_id;
            incoming = incoming.replying_to(&quoted);
            self.oversized += usize::from(is_friend && file.bytes.len() > 64 << 10);
        }
        let pushed = self.fake.push(incoming);
        self.posted.push((pushed.message_id.clone(), chat));
        self.last = Some(pushed);
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        let forwarded = vec![Incoming::direct(&mallory(), text)];
        let incoming = Incoming::direct(&ann(), "").with_forwarded(forwarded);
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (created, text) in [("1900000002000", later), ("1900000001000", earlier)] {
            let event = message(&format!("om_{created}"), created, text);
            self.last = Some(self.fake.push_event("im.message.receive_v1", &event));
        }
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
        let chat = conversation(chat);
        let seen = |sent: &SentMessage| {
            let files = sent.files.iter();
            // Feishu drops the names of images.
            let name = |file: &SentFile| match file.kind.as_str() {
                "image" => "plot.png".to_owned(),
                _ => file.name.clone(),
            };
            let files = files.map(|file| (name(file), file.bytes.to_vec()));
            VisibleMessage {
                is_draft: sent.is_streaming,
                ..VisibleMessage::new(&sent.text).with_files(files)
            }
        };
        let visible = |sent: &&SentMessage| sent.chat_id == chat && !sent.is_deleted;
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let chat = conversation(chat);
        let sent = self.fake.sent().into_iter();
        let sent = sent
            .filter(|sent| sent.chat_id == chat)
            .map(|sent| sent.text);
        let is_there = |call: &Call| {
            let mut posted = self.posted.iter().filter(|(_, place)| *place == chat);
            posted.any(|(message, _)| call.path.contains(message))
        };
        let is_reaction = |call: &Call| call.method.starts_with("reaction.") && is_there(call);
        let calls = self.fake.calls().into_iter().filter(is_reaction);
        let reactions = calls.map(|call| call.method);
        let downloads = (0..self.downloads()).map(|_| "download".to_owned());
        sent.chain(reactions).chain(downloads).collect()
    }

    /// Feishu announces the length of a file in the headers of its download, and nowhere else. One
    /// that is too large is left at that.
    fn downloads(&self) -> usize {
        self.fake.downloads().saturating_sub(self.oversized)
    }

    fn largest_file(&self) -> Option<u64> {
        Some(30 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => {
                self.fake.fail_next("resource.get", Fault::Status(500));
            }
            PlatformEvent::FailedSend(how) => self.fake.fail_next("message.create", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.pong(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let with = |key: &str, value: Value| {
            let mut event = message(&format!("om_odd_{key}"), "1900000003000", "odd");
            event["message"][key] = value;
            event
        };
        let from = |sender: Value| {
            let mut event = message("om_odd_sender", "1900000003000", "odd");
            event["sender"] = sender;
            event
        };
        let frames: [&[u8]; 5] = [
            b"",
            b"no protobuf",
            &[0xff; 40],
            &[0x2a; 1000],
            &[0x08, 0x01],
        ];
        let payloads = [
            "",
            "no json",
            "[]",
            "{}",
            r#"{"header": 5}"#,
            r#"{"schema": "1.0"}"#,
        ];
        let kinds = [
            ("im.message.receive_v1", json!(null)),
            ("im.message.receive_v1", json!("text")),
            ("im.message.receive_v1", json!({})),
            ("im.message.receive_v1", with("message_id", json!(""))),
            ("im.message.receive_v1", with("chat_id", json!(7))),
            ("im.message.receive_v1", from(json!(null))),
            (
                "im.message.receive_v1",
                from(json!({"sender_id": {"open_id": 7}})),
            ),
            (
                "im.message.receive_v1",
                from(json!({"sender_id": {"open_id": "ou_other"}, "sender_type": "app"})),
            ),
            ("im.message.message_read_v1", json!({"reader": {}})),
            (
                "im.message.reaction.created_v1",
                json!({"message_id": "om_1"}),
            ),
            (
                "im.chat.access_event.bot_p2p_chat_entered_v1",
                json!({"chat_id": "oc_1"}),
            ),
            ("event.of_tomorrow_v9", json!({"nobody": "knows"})),
            (
                "card.action.trigger",
                json!({"action": {"tag": "button", "value": "x"}}),
            ),
            ("card.action.trigger", json!(null)),
        ];
        let count = frames.len() + payloads.len() + kinds.len() + 2;
        frames
            .into_iter()
            .for_each(|frame| self.fake.push_frame(frame));
        self.fake.push_text_frame("a text");
        self.fake.push_card_frame("{}");
        for payload in payloads {
            self.fake.push_payload(payload);
        }
        for (kind, event) in &kinds {
            self.fake.push_event(kind, event);
        }
        Ok(count)
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let open = async || {
        let fake = FeishuFake::start().await?;
        fake.add_person(&ann());
        fake.add_person(&mallory());
        fake.add_group(ROOM, true);
        Ok(Harness {
            fake,
            last: None,
            oversized: 0,
            posted: Vec::new(),
        })
    };
    let missing = [(
        Ability::NewsOfRivals,
        "Feishu divides the events among the connections of an app and tells none about the others",
    )];
    conformance::channel(open, &missing).await.unwrap();
}
