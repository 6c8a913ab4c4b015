//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_discord_fake::{
    BOT_ID, CHANNELS, DiscordFake, Fault, Incoming, Order, Pushed, SentMessage, TOKEN,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ann, channel, mallory};

struct Harness {
    fake: DiscordFake,
    last: Option<Pushed>,
    /// Number of sessions to wait for before a message is pushed: channels without a mark are not
    /// caught up with.
    sessions: usize,
}

impl Harness {
    fn last(&self) -> anyhow::Result<Pushed> {
        self.last.context("nothing was said")
    }

    /// Returns the last pushed message as the gateway shows it.
    fn said(&self) -> anyhow::Result<Value> {
        self.fake
            .message(self.last()?.message_id)
            .context("the message is gone")
    }

    /// Everybody hears this message, as they heard the last one.
    fn offer(&mut self, message: &Value) -> anyhow::Result<()> {
        let number = self.fake.push_raw("MESSAGE_CREATE", message);
        self.last = Some(Pushed {
            number,
            ..self.last()?
        });
        Ok(())
    }

    fn channel_id(&self, chat: ObservedChat) -> u64 {
        match chat {
            ObservedChat::Friend => self.fake.direct_channel(&ann()),
            ObservedChat::Stranger => self.fake.direct_channel(&mallory()),
            ObservedChat::Room => CHANNELS[0],
        }
    }
}

fn fault(fault: SendFault) -> Fault {
    let refusal = |status, code, text: &str| Fault::Status(status, code, text.to_owned());
    match fault {
        SendFault::RateLimited => Fault::retry_after(SendFault::PAUSE_SECONDS.into()),
        SendFault::Broken => Fault::unavailable(),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => refusal(400, 50_035, "Invalid Form Body"),
        SendFault::ChatGone => refusal(404, 10_003, "Unknown Channel"),
        SendFault::TooLarge => refusal(413, 40_005, "Request entity too large"),
        SendFault::Unauthorized => Fault::unauthorized(),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "7".into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            TOKEN.to_owned(),
            TOKEN.rsplit_once('.').unwrap().1.to_owned(),
        ]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.sessions += 1;
        Ok(channel(&self.fake, &json!({})))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let person = if posted.by == Participant::Friend {
            ann()
        } else {
            mallory()
        };
        let text = posted.text_with(&format!("<@{BOT_ID}>"));
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, &text),
            Destination::Room { .. } => Incoming::in_channel(CHANNELS[0], &person, &text),
        };
        if let Some(file) = posted.file {
            incoming = incoming.with_file(&file.name, &file.mime, file.bytes.clone());
        }
        self.fake.wait_for_identifies(self.sessions).await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        self.last = Some(
            self.fake
                .push(Incoming::direct(&ann(), "").forwarding(text)),
        );
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        let last = self.last()?.message_id;
        for (id, text) in [(last + 9001, later), (last + 9000, earlier)] {
            let mut message = self.said()?;
            message["id"] = json!(id.to_string());
            message["content"] = json!(text);
            self.offer(&message)?;
        }
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.last
            .is_some_and(|last| self.fake.is_acknowledged(last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_acknowledged(self.last()?).await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let seen = |sent: &SentMessage| {
            let files = sent
                .files
                .iter()
                .map(|file| (file.name.clone(), file.bytes.to_vec()));
            VisibleMessage::new(&sent.text).with_files(files)
        };
        let channel = self.channel_id(chat);
        let visible = |sent: &&SentMessage| sent.channel_id == channel && !sent.is_deleted;
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let channel = self.channel_id(chat).to_string();
        let calls = self
            .fake
            .calls()
            .into_iter()
            .filter(|call| call.path.contains(&channel));
        let is_unnoticed =
            |method: &String| ["getChannel", "getMessages"].contains(&method.as_str());
        calls
            .map(|call| call.method)
            .filter(|method| !is_unnoticed(method))
            .collect()
    }

    fn downloads(&self) -> usize {
        self.fake.calls_of("download").len()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(10 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {
                // A channel that still runs tries again by itself. A new one asks for what it does
                // not know, which is no event of its session and not confirmed to it.
                if let Some(last) = self.last.as_mut().filter(|_| self.sessions > 1) {
                    last.number = Some(0);
                }
            }
            PlatformEvent::Repeated => {
                self.fake.wait_for_identifies(self.sessions).await?;
                self.offer(&self.said()?)?;
            }
            PlatformEvent::BrokenDownload => self.fake.fail_next("download", Fault::Page(404)),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("createMessage", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.order(Order::AskForHeartbeat),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_token(),
            PlatformEvent::Restored => self.fake.restore_token(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let said = self.said()?;
        let changed = |key: &str, value: Value| {
            let mut message = said.clone();
            message[key] = value;
            message
        };
        let contents = [
            json!(null),
            json!([]),
            json!("text"),
            json!({}),
            changed("timestamp", json!("yesterday")),
            changed("channel_id", Value::Null),
            changed("id", json!(-1.5)),
            changed("author", json!({"id": 0})),
            changed("type", json!(99)),
            changed("webhook_id", json!("31")),
        ];
        let names = [
            "MESSAGE_CREATE",
            "INTERACTION_CREATE",
            "SOMETHING_OF_TOMORROW",
            "",
            "RESUMED",
        ];
        for content in &contents {
            for name in names {
                self.fake.push_raw(name, content);
            }
        }
        let frames = [
            "no json",
            "{}",
            "[]",
            r#"{"op":"ten"}"#,
            r#"{"op":99,"d":{}}"#,
            r#"{"op":0,"t":"MESSAGE_CREATE","d":{}}"#,
            r#"{"op":0,"t":"MESSAGE_CREATE","s":-1,"d":{}}"#,
            r#"{"op":0,"t":"MESSAGE_CREATE","s":18446744073709551615,"d":{}}"#,
            r#"{"op":0,"t":"READY","s":1,"d":{}}"#,
            r#"{"op":11}"#,
        ];
        for frame in frames {
            self.fake.order(Order::Raw(frame.to_owned()));
        }
        Ok(contents.len() * names.len() + frames.len())
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let open = async || {
        let fake = DiscordFake::start().await?;
        fake.set_heartbeat_interval(150);
        Ok(Harness {
            fake,
            last: None,
            sessions: 0,
        })
    };
    let silent = "Discord sends everything to every session of a bot, and tells none of the others";
    conformance::channel(open, &[(Ability::NewsOfRivals, silent)])
        .await
        .unwrap();
}
