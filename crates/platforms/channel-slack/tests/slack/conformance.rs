//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_slack_fake::{
    APP_TOKEN, BOT_TOKEN, BOT_USER, Call, Fault, Incoming, Pushed, SentMessage, SlackFake,
};
use nanobot_testkit::conformance::{
    self, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant, PlatformEvent,
    SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, mallory};

struct Harness {
    fake: SlackFake,
    last: Option<Pushed>,
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
        SendFault::RateLimited => Fault::RetryAfter(SendFault::PAUSE_SECONDS),
        SendFault::Broken => Fault::Status(502),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::error("invalid_blocks"),
        SendFault::ChatGone => Fault::error("channel_not_found"),
        SendFault::TooLarge => Fault::error("msg_too_long"),
        SendFault::Unauthorized => Fault::error("token_revoked"),
    }
}

/// A message of the friend as its event has it.
fn message(ts: &str, text: &str) -> Value {
    json!({
        "type": "message", "channel_type": "im", "user": ann().id, "channel": ann().direct(), "ts": ts, "text": text,
    })
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "U0ANN".into()
    }

    fn secrets(&self) -> Vec<String> {
        // The ticket of a connection is as good as a token for as long as it lasts.
        [BOT_TOKEN, APP_TOKEN, "ticket-"]
            .map(str::to_owned)
            .to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({})))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let person = if posted.by == Participant::Friend {
            ann()
        } else {
            mallory()
        };
        let text = posted.text_with(&format!("<@{BOT_USER}>"));
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, &text),
            Destination::Room { .. } => Incoming::to(ROOM, &person, &text),
        };
        if let Some(file) = posted.file {
            incoming = incoming.with_file(&file.name, &file.mime, file.bytes.clone());
        }
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        let mut event = message("1900000003.000003", "");
        event["attachments"] = json!([{"is_share": true, "author_name": "Mallory", "text": text}]);
        self.last = Some(self.fake.push_event(&event));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (ts, text) in [("1900000002.000002", later), ("1900000001.000001", earlier)] {
            self.last = Some(self.fake.push_event(&message(ts, text)));
        }
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.last
            .as_ref()
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
                .file
                .iter()
                .map(|file| (file.name.clone(), file.bytes.to_vec()));
            VisibleMessage::new(&sent.text).with_files(files)
        };
        let chat = conversation(chat);
        let visible = |sent: &&SentMessage| sent.channel == chat && !sent.is_deleted;
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let chat = json!(conversation(chat));
        let is_noticed = |call: &Call| {
            let is_there = [&call.params["channel"], &call.params["channel_id"]].contains(&&chat);
            is_there && !call.method.starts_with("conversations.")
        };
        let calls = self
            .fake
            .calls()
            .into_iter()
            .filter(is_noticed)
            .map(|call| call.method);
        calls
            .chain((0..self.fake.downloads()).map(|_| "download".to_owned()))
            .collect()
    }

    fn downloads(&self) -> usize {
        self.fake.downloads()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(1 << 30)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => self.fake.fail_next("download", Fault::Status(500)),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("chat.postMessage", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.ping(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => {
                self.fake.revoke_tokens();
                self.fake
                    .push_event(&json!({"type": "tokens_revoked", "tokens": {"bot": [BOT_USER]}}));
            }
            PlatformEvent::Restored => self.fake.restore_tokens(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let frames = [
            "no json",
            "[]",
            "{}",
            r#"{"type": 5}"#,
            r#"{"type": "of tomorrow", "envelope_id": "e1", "payload": {"nobody": "knows"}}"#,
            r#"{"type": "events_api", "envelope_id": "e2"}"#,
            r#"{"type": "events_api", "payload": {"event": {"type": "message"}}}"#,
            r#"{"type": "interactive", "envelope_id": "e3", "payload": {"type": "view_closed", "actions": null}}"#,
            r#"{"type": "interactive", "envelope_id": "e4", "payload": {"type": "block_actions", "actions": []}}"#,
            r#"{"type": "slash_commands", "envelope_id": "e5", "payload": {"command": "/new"}}"#,
        ];
        let with = |key: &str, value: Value| {
            let mut event = message("1900000003.000001", "odd");
            event[key] = value;
            event
        };
        let events = [
            json!(null),
            json!("text"),
            json!({}),
            json!({"type": "message"}),
            json!({"type": "team_join", "user": {"id": "U1"}}),
            with("subtype", json!("message_changed")),
            with("subtype", json!("message_deleted")),
            with("subtype", json!("subtype_of_tomorrow")),
            with("bot_id", json!("B1")),
            with("user", json!(null)),
            with("user", json!(BOT_USER)),
            with("user", json!({"id": 7})),
            with("channel", json!("")),
            with("ts", json!(1.5)),
        ];
        let count = frames.len() + events.len();
        frames
            .into_iter()
            .for_each(|frame| self.fake.push_frame(frame));
        for event in events {
            self.fake.push_event(&event);
        }
        Ok(count)
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let open = async || {
        Ok(Harness {
            fake: SlackFake::start().await?,
            last: None,
        })
    };
    conformance::channel(open, &[]).await.unwrap();
}
