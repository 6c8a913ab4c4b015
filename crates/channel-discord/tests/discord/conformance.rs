//! The contract's own suite.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, Credentials, DraftView, Gap, IncomingFiles, Oddities, OutgoingFiles, Pairing,
    Pulse, Redelivery, Rivals, Rooms, SampleFile, SendFault, SendFaults, Transport,
};
use nanobot_testkit::discord::{BOT_ID, CHANNELS, Fault, Incoming, Order, Person, Pushed, SentMessage, TOKEN};
use nanobot_testkit::{DiscordFake, abilities};
use serde_json::json;

use crate::support::{ann, channel, mallory};

struct Harness {
    fake: DiscordFake,
    channel: Arc<dyn Channel>,
    last: Option<Pushed>,
    /// How many sessions have to be there before somebody speaks: nobody asks for what was said where
    /// the assistant was never talked to.
    sessions: usize,
}

impl Harness {
    async fn say(&mut self, incoming: Incoming) -> anyhow::Result<()> {
        self.fake.wait_for_identifies(self.sessions).await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    /// The friend's last message as the gateway shows it.
    fn said(&self) -> anyhow::Result<Value> {
        let last = self.last.context("nothing was said")?;
        self.fake.message(last.message_id).context("the message is gone")
    }

    /// The calls that people of a channel notice.
    fn noticed(&self, channel: u64) -> Vec<String> {
        let channel = channel.to_string();
        let calls = self.fake.calls().into_iter().filter(|call| call.path.contains(&channel));
        calls
            .map(|call| call.method)
            .filter(|method| !["getChannel", "getMessages"].contains(&method.as_str()))
            .collect()
    }
}

fn with_file(person: &Person, file: &SampleFile, text: &str) -> Incoming {
    Incoming::direct(person, text).with_file(&file.name, &file.mime, file.bytes.clone())
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        "7".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.say(Incoming::direct(&ann(), text)).await
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.say(Incoming::direct(&mallory(), text)).await
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(self.fake.direct_channel(&mallory())))
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        // A channel that still runs tries again by itself. A new one asks for what it does not know,
        // which is no event of its session and not confirmed to it.
        if let Some(last) = self.last.as_mut().filter(|_| self.sessions > 1) {
            last.number = Some(0);
        }
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.fake.is_acknowledged(self.last.context("nothing was said")?))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_acknowledged(self.last.context("nothing was said")?).await?)
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        self.fake.wait_for("shown messages", |sent| (sent.len() >= count).then_some(())).await?;
        Ok(self.fake.texts_in(self.fake.direct_channel(&ann())))
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned(), TOKEN.rsplit_once('.').unwrap().1.to_owned()]
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
        self.sessions += 1;
        Ok(channel(&self.fake, &json!({})))
    }

    async fn repeat(&mut self) -> anyhow::Result<()> {
        self.fake.wait_for_identifies(self.sessions).await?;
        let last = self.last.context("nothing was said")?;
        self.last = Some(Pushed { number: self.fake.push_raw("MESSAGE_CREATE", &self.said()?), ..last });
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        let last = self.last.context("nothing was said")?;
        for (id, text) in [(9001, later), (9000, earlier)] {
            let mut message = self.said()?;
            message["id"] = json!((last.message_id + id).to_string());
            message["content"] = json!(text);
            let number = self.fake.push_raw("MESSAGE_CREATE", &message);
            self.last = Some(Pushed { number, ..last });
        }
        Ok(())
    }
}

#[async_trait]
impl Rooms for Harness {
    async fn friend_says_in_room(&mut self, text: &str, addressed: bool) -> anyhow::Result<()> {
        let text = if addressed { format!("<@{BOT_ID}> {text}") } else { text.to_owned() };
        self.say(Incoming::in_channel(CHANNELS[0], &ann(), &text)).await
    }

    async fn stranger_says_in_room(&mut self, text: &str) -> anyhow::Result<()> {
        self.say(Incoming::in_channel(CHANNELS[0], &mallory(), &format!("<@{BOT_ID}> {text}"))).await
    }

    async fn room_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(CHANNELS[0]))
    }
}

#[async_trait]
impl Pairing for Harness {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        let chat = self.fake.direct_channel(&mallory());
        let told = |sent: &[SentMessage]| sent.iter().any(|sent| sent.channel_id == chat).then_some(());
        self.fake.wait_for("something that the stranger is told", told).await?;
        Ok(self.fake.texts_in(chat))
    }
}

#[async_trait]
impl IncomingFiles for Harness {
    async fn friend_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.say(with_file(&ann(), file, text)).await
    }

    async fn stranger_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.say(with_file(&mallory(), file, text)).await
    }

    async fn downloads(&mut self) -> anyhow::Result<usize> {
        Ok(self.fake.calls_of("download").len())
    }

    async fn break_next_download(&mut self) -> anyhow::Result<Arranged> {
        self.fake.fail_next("download", Fault::Page(404));
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl OutgoingFiles for Harness {
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<SampleFile>> {
        let files = |sent: &[SentMessage]| -> Vec<SampleFile> {
            let files = sent.iter().flat_map(|sent| &sent.files);
            let sample = |file: &nanobot_testkit::discord::SentFile| SampleFile {
                name: file.name.clone(),
                mime: String::new(),
                bytes: file.bytes.to_vec(),
            };
            files.map(sample).collect()
        };
        let enough = |sent: &[SentMessage]| Some(files(sent)).filter(|files| files.len() >= count);
        Ok(self.fake.wait_for("files", enough).await?)
    }

    fn largest_file(&self) -> u64 {
        10 << 20
    }
}

#[async_trait]
impl SendFaults for Harness {
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged> {
        let refusal = |status, code, text: &str| Fault::Status(status, code, text.to_owned());
        let fault = match fault {
            SendFault::RateLimited(seconds) => Fault::retry_after(seconds.into()),
            SendFault::Broken => Fault::unavailable(),
            SendFault::CutAfterEffect => Fault::DropAfterEffect,
            SendFault::Refused => refusal(400, 50_035, "Invalid Form Body"),
            SendFault::ChatGone => refusal(404, 10_003, "Unknown Channel"),
            SendFault::TooLarge => refusal(413, 40_005, "Request entity too large"),
            SendFault::Unauthorized => Fault::unauthorized(),
        };
        self.fake.fail_next("createMessage", fault);
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
        self.fake.order(Order::AskForHeartbeat);
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
        let chat = self.fake.direct_channel(&ann());
        let shown = |sent: &[SentMessage]| {
            let shown = sent.iter().filter(|sent| sent.channel_id == chat && !sent.is_deleted);
            shown.map(|sent| sent.text.as_str()).eq(texts.iter().copied()).then_some(())
        };
        Ok(self.fake.wait_for("nothing but replies", shown).await?)
    }
}

#[async_trait]
impl Oddities for Harness {
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
        let names = ["MESSAGE_CREATE", "INTERACTION_CREATE", "SOMETHING_OF_TOMORROW", "", "RESUMED"];
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

#[async_trait]
impl Credentials for Harness {
    async fn revoke(&mut self) -> anyhow::Result<()> {
        self.fake.revoke_token();
        Ok(())
    }

    async fn restore(&mut self) -> anyhow::Result<()> {
        self.fake.restore_token();
        Ok(())
    }
}

#[async_trait]
impl Rivals for Harness {
    async fn rival(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.reopen().await
    }

    fn tells(&self) -> Arranged {
        Arranged::Impossible("Discord sends everything to every session of a bot, and tells none of the others")
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let open = async || {
        let fake = DiscordFake::start().await?;
        fake.set_heartbeat_interval(150);
        let channel = channel(&fake, &json!({}));
        Ok(Harness { fake, channel, last: None, sessions: 1 })
    };
    let told = Gap {
        ability: "rivals: told",
        reason: "Discord sends everything to every session of a bot, and tells none of the others",
    };
    assert_eq!(conformance::channel(open).await.unwrap(), [told]);
}
