//! The contract's own suite.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, Credentials, DraftView, IncomingFiles, Oddities, OutgoingFiles, Pairing, Pulse,
    Redelivery, Rivals, Rooms, SampleFile, SendFault, SendFaults, Transport,
};
use nanobot_testkit::telegram::{BOT_USERNAME, Call, Fault, FileKind, Incoming, Person, Pushed, SentMessage, TOKEN};
use nanobot_testkit::{TelegramFake, abilities};
use serde_json::json;

use crate::support::{GROUP, ann, channel, mallory};

struct Harness {
    fake: TelegramFake,
    channel: Arc<dyn Channel>,
    last: Option<Pushed>,
    /// The friend's last message as the API has it.
    said: Value,
}

impl Harness {
    /// The friend's message, noted for when it has to come again.
    fn say(&mut self, incoming: Incoming) {
        self.last = Some(self.fake.push(incoming));
        self.said = self.fake.pending().pop().unwrap_or_default()["message"].clone();
    }

    fn offer(&mut self, kind: &str, content: Value) {
        let update_id = self.fake.push_raw(kind, content);
        self.last = Some(Pushed { chat_id: ann().id, message_id: 0, update_id });
    }

    /// The calls that people of a chat notice, and downloads.
    fn noticed(&self, chat: i64) -> Vec<String> {
        let is_noticed = |call: &Call| call.params["chat_id"] == json!(chat) || call.method == "getFile";
        self.fake.calls().into_iter().filter(is_noticed).map(|call| call.method).collect()
    }
}

fn with_file(person: &Person, file: &SampleFile, text: &str) -> Incoming {
    let kind = if file.mime == "image/png" { FileKind::Photo } else { FileKind::Document };
    Incoming::private(person, text).with_file(kind, &file.name, &file.mime, file.bytes.clone())
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        "7|ann_x".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.say(Incoming::private(&ann(), text));
        Ok(())
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.fake.push(Incoming::private(&mallory(), text));
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(mallory().id))
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
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
        Ok(self.fake.texts_in(ann().id))
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned(), TOKEN.split_once(':').unwrap().1.to_owned()]
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
        self.offer("message", self.said.clone());
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (id, text) in [(9001, later), (9000, earlier)] {
            let mut message = self.said.clone();
            message["message_id"] = json!(id);
            message["text"] = json!(text);
            self.offer("message", message);
        }
        Ok(())
    }
}

#[async_trait]
impl Rooms for Harness {
    async fn friend_says_in_room(&mut self, text: &str, addressed: bool) -> anyhow::Result<()> {
        let text = if addressed { format!("@{BOT_USERNAME} {text}") } else { text.to_owned() };
        self.say(Incoming::group(GROUP, &ann(), text));
        Ok(())
    }

    async fn stranger_says_in_room(&mut self, text: &str) -> anyhow::Result<()> {
        self.fake.push(Incoming::group(GROUP, &mallory(), format!("@{BOT_USERNAME} {text}")));
        Ok(())
    }

    async fn room_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed(GROUP))
    }
}

#[async_trait]
impl Pairing for Harness {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        let told = |sent: &[SentMessage]| sent.iter().any(|sent| sent.chat_id == mallory().id).then_some(());
        self.fake.wait_for("something that the stranger is told", told).await?;
        Ok(self.fake.texts_in(mallory().id))
    }
}

#[async_trait]
impl IncomingFiles for Harness {
    async fn friend_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.say(with_file(&ann(), file, text));
        Ok(())
    }

    async fn stranger_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        self.fake.push(with_file(&mallory(), file, text));
        Ok(())
    }

    async fn downloads(&mut self) -> anyhow::Result<usize> {
        Ok(self.fake.calls_of("getFile").len())
    }

    async fn break_next_download(&mut self) -> anyhow::Result<Arranged> {
        self.fake.fail_next("getFile", Fault::Status(400, "Bad Request: file is too big".to_owned()));
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl OutgoingFiles for Harness {
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<SampleFile>> {
        let files = |sent: &[SentMessage]| -> Vec<SampleFile> {
            let files = sent.iter().filter_map(|sent| sent.file.as_ref());
            let sample = |file: &nanobot_testkit::telegram::SentFile| SampleFile {
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
        50 << 20
    }
}

#[async_trait]
impl SendFaults for Harness {
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged> {
        let refusal = |code, text: &str| Fault::Status(code, text.to_owned());
        let fault = match fault {
            SendFault::RateLimited(seconds) => Fault::RetryAfter(seconds),
            SendFault::Broken => Fault::bad_gateway(),
            SendFault::CutAfterEffect => Fault::DropAfterEffect,
            SendFault::Refused => refusal(400, "Bad Request: message text is empty"),
            SendFault::ChatGone => refusal(403, "Forbidden: bot was kicked from the supergroup chat"),
            SendFault::TooLarge => refusal(400, "Bad Request: message is too long"),
            SendFault::Unauthorized => Fault::unauthorized(),
        };
        self.fake.fail_next("sendMessage", fault);
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl Transport for Harness {
    async fn cut(&mut self) -> anyhow::Result<()> {
        self.fake.server().cut();
        Ok(())
    }

    async fn go_down(&mut self) -> anyhow::Result<Arranged> {
        self.fake.server().go_down().await?;
        Ok(Arranged::Done)
    }

    async fn come_back(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.server().come_back().await?)
    }
}

#[async_trait]
impl Pulse for Harness {
    async fn beat(&mut self) -> anyhow::Result<()> {
        self.fake.end_poll();
        Ok(())
    }

    async fn stall(&mut self) -> anyhow::Result<()> {
        self.fake.server().stall();
        Ok(())
    }

    async fn recover(&mut self) -> anyhow::Result<()> {
        self.fake.server().recover();
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
        let chat = ann().id;
        let shown = |sent: &[SentMessage]| {
            let shown = sent.iter().filter(|sent| sent.chat_id == chat && !sent.is_deleted);
            shown.map(|sent| sent.text.as_str()).eq(texts.iter().copied()).then_some(())
        };
        Ok(self.fake.wait_for("nothing but replies", shown).await?)
    }
}

#[async_trait]
impl Oddities for Harness {
    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let mut dated = self.said.clone();
        dated["date"] = json!("yesterday");
        let mut chatless = self.said.clone();
        chatless["chat"] = Value::Null;
        let mut absurd = self.said.clone();
        absurd["message_id"] = json!(u64::MAX);
        absurd["from"]["id"] = json!(-1.5);
        let mut senderless = self.said.clone();
        senderless.as_object_mut().context("a message is an object")?.remove("from");
        let mut silent = self.said.clone();
        silent.as_object_mut().context("a message is an object")?.remove("text");
        silent["something_of_tomorrow"] = json!({"nobody": ["knows"]});
        silent["from"]["is_bot"] = json!(true);
        let messages = [json!(null), json!([]), json!("text"), json!({}), dated, chatless, absurd, senderless, silent];
        let messages = messages.into_iter().map(|message| ("message", message));
        let others =
            [("edited_message", json!(7)), ("edited_message", json!({})), ("callback_query", json!({"id": 1}))];
        let pushed = messages.chain(others).filter_map(|(kind, content)| self.fake.push_raw(kind, content));
        Ok(pushed.count())
    }
}

#[async_trait]
impl Credentials for Harness {
    async fn revoke(&mut self) -> anyhow::Result<()> {
        self.fake.revoke_token();
        // A poll that is open stays open until its time is over.
        self.fake.end_poll();
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
        Ok(channel(&self.fake, &json!({})))
    }

    fn tells(&self) -> Arranged {
        Arranged::Done
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let open = async || {
        let fake = TelegramFake::start().await?;
        let channel = channel(&fake, &json!({}));
        Ok(Harness { fake, channel, last: None, said: Value::Null })
    };
    assert_eq!(conformance::channel(open).await.unwrap(), []);
}
