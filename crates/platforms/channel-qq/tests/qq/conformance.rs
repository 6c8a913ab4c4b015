//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_qq_fake::{
    CLIENT_SECRET, Fault, Incoming, Pushed, QqFake, SentFile, SentMessage, TOKEN_PREFIX,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, fake, mallory};

struct Harness {
    fake: QqFake,
    last: Option<Pushed>,
}

impl Harness {
    async fn open() -> anyhow::Result<Self> {
        let fake = fake().await;
        fake.deliver_group_messages(true);
        // The suite says more than a person reads in a month.
        fake.limit_active_messages(1_000_000);
        Ok(Self { fake, last: None })
    }

    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }

    /// Pushes a message once there is a session: QQ delivers nothing to a bot without one.
    async fn push(&mut self, incoming: Incoming) -> anyhow::Result<()> {
        self.fake.wait_for_identifies(1).await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }
}

fn chat_id(chat: ObservedChat) -> String {
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
        SendFault::Refused => Fault::Error(40_034_006),
        SendFault::ChatGone => Fault::Error(40_054_004),
        SendFault::TooLarge => Fault::Error(40_054_007),
        SendFault::Unauthorized => Fault::Error(100_016),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().openid.into()
    }

    fn secrets(&self) -> Vec<String> {
        [CLIENT_SECRET, TOKEN_PREFIX].map(str::to_owned).to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({})))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text),
            Destination::Room { addressed: false } => {
                Incoming::to_group(ROOM, &person, posted.text)
            }
            Destination::Room { .. } => {
                Incoming::to_group(ROOM, &person, posted.text).mentioning_bot()
            }
        };
        if let Some(file) = posted.file {
            incoming = incoming.with_file(&file.name, &file.mime, file.bytes.clone());
        }
        self.push(incoming).await
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (created, text) in [(1_900_000_002_000, later), (1_900_000_001_000, earlier)] {
            let incoming = Incoming::direct(&ann(), text).created_at(created);
            self.push(incoming).await?;
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
        let chat = chat_id(chat);
        let seen = |sent: &SentMessage| {
            let files = sent.files.iter();
            let files = files.map(|file: &SentFile| (file.name.clone(), file.bytes.to_vec()));
            VisibleMessage::new(&sent.text).with_files(files)
        };
        let visible = |sent: &&SentMessage| sent.chat_id == chat;
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let sent = self.fake.texts_in(&chat_id(chat)).into_iter();
        let downloads = (0..self.downloads()).map(|_| "download".to_owned());
        sent.chain(downloads).collect()
    }

    fn downloads(&self) -> usize {
        self.fake.downloads()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(20 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => self.fake.fail_next("file.get", Fault::Truncated),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("user.send", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.ask_for_heartbeat(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let whole = json!({
            "id": "odd", "content": "odd", "author": {"user_openid": ann().openid},
        });
        let changed = |key: &str, value: Value| {
            let mut message = whole.clone();
            message[key] = value;
            message
        };
        let contents = [
            json!(null),
            json!([]),
            json!("text"),
            json!({}),
            changed("id", Value::Null),
            changed("author", json!({"user_openid": 0.5, "bot": true})),
            changed("author", json!([])),
        ];
        let names = [
            "C2C_MESSAGE_CREATE",
            "GROUP_AT_MESSAGE_CREATE",
            "DIRECT_MESSAGE_CREATE",
            "GROUP_ADD_ROBOT",
            "SOMETHING_OF_TOMORROW",
            "",
        ];
        for content in &contents {
            for name in names {
                self.fake.push_event(name, content);
            }
        }
        let frames = [
            "no json",
            "{}",
            "[]",
            r#"{"op":"ten"}"#,
            r#"{"op":99,"d":{}}"#,
            r#"{"op":0,"t":"C2C_MESSAGE_CREATE","d":{}}"#,
            r#"{"op":0,"t":"C2C_MESSAGE_CREATE","s":-1,"d":{}}"#,
            r#"{"op":0,"t":"C2C_MESSAGE_CREATE","s":18446744073709551615,"d":{}}"#,
            r#"{"op":0,"t":5,"s":"7","d":[]}"#,
            r#"{"op":11}"#,
        ];
        for frame in frames {
            self.fake.push_text_frame(frame);
        }
        self.fake.push_binary_frame(vec![0xff; 40]);
        Ok(contents.len() * names.len() + frames.len() + 1)
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let missing = [
        (
            Ability::OthersWords,
            "QQ shows bots no forwarded messages; a quotation is the friend's own",
        ),
        (
            Ability::DraftView,
            "replies are not streamed: QQ takes too few",
        ),
        (
            Ability::NewsOfRivals,
            "QQ sends everything to every session of a bot, and tells none of the others",
        ),
    ];
    conformance::channel(Harness::open, &missing).await.unwrap();
}
