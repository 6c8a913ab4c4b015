//! The contract's own suite.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, async_trait};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, Credentials, DraftView, IncomingFiles, Oddities, OutgoingFiles, Pairing, Pulse,
    Redelivery, Rivals, Rooms, SampleFile, SendFault, SendFaults, Transport,
};
use nanobot_testkit::slack::{APP_TOKEN, BOT_TOKEN, BOT_USER, Call, Fault, Incoming, Person, Pushed, SentMessage};
use nanobot_testkit::{SlackFake, abilities};
use serde_json::json;

use crate::support::{ROOM, ann, channel, mallory};

struct Harness {
    fake: SlackFake,
    channel: Arc<dyn Channel>,
    last: Option<Pushed>,
}

impl Harness {
    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }

    /// The calls that people of a chat notice, and downloads.
    fn noticed(&self, chat: &str) -> Vec<String> {
        let is_noticed = |call: &Call| {
            let is_there = [&call.params["channel"], &call.params["channel_id"]].contains(&&json!(chat));
            is_there && !call.method.starts_with("conversations.")
        };
        let calls = self.fake.calls().into_iter().filter(is_noticed).map(|call| call.method);
        calls.chain((0..self.fake.downloads()).map(|_| "download".to_owned())).collect()
    }
}

fn with_file(person: &Person, file: &SampleFile, text: &str) -> Incoming {
    Incoming::direct(person, text).with_file(&file.name, &file.mime, file.bytes.clone())
}

/// What a person sees: the bot's texts that are not deleted.
fn visible(sent: &[SentMessage], chat: &str) -> Vec<String> {
    let is_shown = |sent: &&SentMessage| sent.channel == chat && !sent.is_deleted && sent.file.is_none();
    sent.iter().filter(is_shown).map(|sent| sent.text.clone()).collect()
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        "U0ANN".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.last = Some(self.fake.push(Incoming::direct(&ann(), text)));
        Ok(())
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.fake.push(Incoming::direct(&mallory(), text));
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(&mallory().direct()))
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.fake.is_acknowledged(self.last()?))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_acknowledged(self.last()?).await?)
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        let chat = ann().direct();
        let enough = |sent: &[SentMessage]| Some(visible(sent, &chat)).filter(|shown| shown.len() >= count);
        Ok(self.fake.wait_for("shown messages", enough).await?)
    }

    fn secrets(&self) -> Vec<String> {
        // The ticket of a connection is as good as a token for as long as it lasts.
        [BOT_TOKEN, APP_TOKEN, "ticket-"].map(str::to_owned).to_vec()
    }

    abilities! {
        redelivery,
        rooms,
        pairing,
        incoming_files,
        outgoing_files,
        send_faults,
        transport,
        pulse,
        draft_view,
        oddities,
        credentials,
        rivals,
    }
}

#[async_trait]
impl Redelivery for Harness {
    async fn reopen(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({})))
    }

    async fn repeat(&mut self) -> anyhow::Result<()> {
        self.fake.repeat(self.last()?);
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (ts, text) in [("1900000002.000002", later), ("1900000001.000001", earlier)] {
            self.last = Some(self.fake.push_event(&json!({
                "type": "message", "channel_type": "im", "user": ann().id, "channel": ann().direct(), "ts": ts,
                "text": text,
            })));
        }
        Ok(())
    }
}

#[async_trait]
impl Rooms for Harness {
    async fn friend_says_in_room(&mut self, text: &str, addressed: bool) -> anyhow::Result<()> {
        let text = if addressed { format!("<@{BOT_USER}> {text}") } else { text.to_owned() };
        self.last = Some(self.fake.push(Incoming::to(ROOM, &ann(), &text)));
        Ok(())
    }

    async fn stranger_says_in_room(&mut self, text: &str) -> anyhow::Result<()> {
        self.fake.push(Incoming::to(ROOM, &mallory(), &format!("<@{BOT_USER}> {text}")));
        Ok(())
    }

    async fn room_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(ROOM))
    }
}

#[async_trait]
impl Pairing for Harness {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        let chat = mallory().direct();
        let told = |sent: &[SentMessage]| Some(visible(sent, &chat)).filter(|shown| !shown.is_empty());
        Ok(self.fake.wait_for("something that the stranger is told", told).await?)
    }
}

#[async_trait]
impl IncomingFiles for Harness {
    async fn friend_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.last = Some(self.fake.push(with_file(&ann(), file, text)));
        Ok(())
    }

    async fn stranger_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.fake.push(with_file(&mallory(), file, text));
        Ok(())
    }

    async fn downloads(&mut self) -> anyhow::Result<usize> {
        Ok(self.fake.downloads())
    }

    async fn break_next_download(&mut self) -> anyhow::Result<Arranged> {
        self.fake.fail_next("download", Fault::Status(500));
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl OutgoingFiles for Harness {
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<SampleFile>> {
        let files = |sent: &[SentMessage]| -> Vec<SampleFile> {
            let files = sent.iter().filter_map(|sent| sent.file.clone());
            files.map(|file| SampleFile { name: file.name, mime: String::new(), bytes: file.bytes.to_vec() }).collect()
        };
        let enough = |sent: &[SentMessage]| Some(files(sent)).filter(|files| files.len() >= count);
        Ok(self.fake.wait_for("files", enough).await?)
    }

    fn largest_file(&self) -> u64 {
        1 << 30
    }
}

#[async_trait]
impl SendFaults for Harness {
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged> {
        let fault = match fault {
            SendFault::RateLimited(seconds) => Fault::RetryAfter(seconds),
            SendFault::Broken => Fault::Status(502),
            SendFault::CutAfterEffect => Fault::DropAfterEffect,
            SendFault::Refused => Fault::error("invalid_blocks"),
            SendFault::ChatGone => Fault::error("channel_not_found"),
            SendFault::TooLarge => Fault::error("msg_too_long"),
            SendFault::Unauthorized => Fault::error("token_revoked"),
        };
        self.fake.fail_next("chat.postMessage", fault);
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl Transport for Harness {
    async fn cut(&mut self) -> anyhow::Result<()> {
        self.fake.cut();
        Ok(())
    }

    async fn go_down(&mut self) -> anyhow::Result<Arranged> {
        self.fake.go_down().await?;
        Ok(Arranged::Done)
    }

    async fn come_back(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.come_back().await?)
    }
}

#[async_trait]
impl Pulse for Harness {
    async fn beat(&mut self) -> anyhow::Result<()> {
        self.fake.ping();
        Ok(())
    }

    async fn stall(&mut self) -> anyhow::Result<()> {
        self.fake.stall();
        Ok(())
    }

    async fn recover(&mut self) -> anyhow::Result<()> {
        self.fake.recover();
        Ok(())
    }
}

#[async_trait]
impl DraftView for Harness {
    async fn friend_sees(&mut self, text: &str) -> anyhow::Result<()> {
        let is_shown = |sent: &[SentMessage]| sent.iter().any(|sent| sent.text == text).then_some(());
        Ok(self.fake.wait_for(text, is_shown).await?)
    }

    async fn friend_sees_only(&mut self, texts: &[&str]) -> anyhow::Result<()> {
        let chat = ann().direct();
        let shown = |sent: &[SentMessage]| (visible(sent, &chat) == texts).then_some(());
        Ok(self.fake.wait_for("nothing but replies", shown).await?)
    }
}

#[async_trait]
impl Oddities for Harness {
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
        let said = json!({
            "type": "message", "channel_type": "im", "user": ann().id, "channel": ann().direct(),
            "ts": "1900000003.000001", "text": "odd",
        });
        let with = |key: &str, value: serde_json::Value| {
            let mut event = said.clone();
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
        frames.into_iter().for_each(|frame| self.fake.push_frame(frame));
        for event in events {
            self.fake.push_event(&event);
        }
        Ok(count)
    }
}

#[async_trait]
impl Credentials for Harness {
    async fn revoke(&mut self) -> anyhow::Result<()> {
        self.fake.revoke_tokens();
        self.fake.push_event(&json!({"type": "tokens_revoked", "tokens": {"bot": [BOT_USER]}}));
        Ok(())
    }

    async fn restore(&mut self) -> anyhow::Result<()> {
        self.fake.restore_tokens();
        Ok(())
    }
}

#[async_trait]
impl Rivals for Harness {
    async fn rival(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &json!({})))
    }

    fn tells(&self) -> Arranged {
        Arranged::Done
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let open = async || {
        let fake = SlackFake::start().await?;
        let channel = channel(&fake, &json!({}));
        Ok(Harness { fake, channel, last: None })
    };
    assert_eq!(conformance::channel(open).await.unwrap(), Vec::new());
}
