//! The conformance suite of the channel contract.

use std::sync::{Arc, Weak};

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_wecom_fake::{
    Fault, Incoming, Pushed, SECRET, SentFile, SentMessage, WeComFake,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, fake, mallory};

struct Harness {
    fake: WeComFake,
    /// The keys of the channel.
    keys: Value,
    last: Option<Pushed>,
    /// Number of files of the friend that are too large to be stored.
    oversized: usize,
    /// Number of subscriptions to wait for before a message is pushed: the gateway learns of the
    /// end of a channel a little later, and what it pushes until then is lost.
    subscriptions: usize,
    /// The channels that were running when the last message was pushed.
    channels: Vec<Weak<dyn Channel>>,
}

impl Harness {
    async fn open(keys: Value) -> anyhow::Result<Self> {
        Ok(Self {
            fake: fake().await,
            keys,
            last: None,
            oversized: 0,
            subscriptions: 0,
            channels: Vec::new(),
        })
    }

    /// Waits until the gateway does not push to a channel that ended.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let before = self.channels.len();
        self.channels.retain(|channel| channel.strong_count() > 0);
        if self.channels.len() < before {
            self.subscriptions = self.fake.subscriptions() + 1;
        }
        Ok(self.fake.wait_for_subscriptions(self.subscriptions).await?)
    }

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
        SendFault::RateLimited => Fault::RateLimited,
        SendFault::Broken => Fault::error(-1),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::error(40_201),
        SendFault::ChatGone => Fault::error(93_006),
        SendFault::TooLarge => Fault::error(45_002),
        SendFault::Unauthorized => Fault::error(853_000),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().userid.into()
    }

    fn secrets(&self) -> Vec<String> {
        // The address of a file is as good as a password for as long as it lasts.
        [SECRET, "q-signature"].map(str::to_owned).to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.subscriptions = self.fake.subscriptions() + 1;
        self.channels.retain(|channel| channel.strong_count() > 0);
        let channel = channel(&self.fake, &self.keys);
        self.channels.push(Arc::downgrade(&channel));
        Ok(channel)
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text),
            Destination::Room { addressed } => {
                let incoming = Incoming::to(ROOM, &person, posted.text);
                if addressed {
                    incoming.mentioning_bot()
                } else {
                    incoming
                }
            }
        };
        if let Some(file) = posted.file {
            // A file has no text at WeCom, so people quote it.
            let quoted = Incoming::direct(&person, "").with_file(&file.name, file.bytes.clone());
            let quoted = self.fake.push_silently(quoted).message_id;
            incoming = incoming.quoting(&quoted);
            self.oversized += usize::from(is_friend && file.bytes.len() > 64 << 10);
        }
        self.settle().await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (created, text) in [(1_900_000_002, later), (1_900_000_001, earlier)] {
            let incoming = Incoming::direct(&ann(), text).created_at(created);
            self.last = Some(self.fake.push(incoming));
        }
        Ok(())
    }

    /// WeCom knows no confirmations.
    fn is_acknowledged(&self) -> bool {
        false
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_deliveries(self.last()?, 1).await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let chat = conversation(chat);
        let seen = |sent: &SentMessage| {
            let files = sent.files.iter();
            let files = files.map(|file: &SentFile| (file.name.clone(), file.bytes.to_vec()));
            VisibleMessage {
                is_draft: sent.is_streaming,
                ..VisibleMessage::new(&sent.text).with_files(files)
            }
        };
        // Streams cannot be deleted; an ellipsis is as much as there is of a deletion.
        let is_withdrawn = |sent: &SentMessage| sent.stream.is_some() && sent.text == "…";
        let visible = |sent: &&SentMessage| sent.chat_id == chat && !is_withdrawn(sent);
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let sent = self.fake.texts_in(&conversation(chat)).into_iter();
        let downloads = (0..self.downloads()).map(|_| "download".to_owned());
        sent.chain(downloads).collect()
    }

    /// WeCom announces the length of a file in the headers of its download, and nowhere else. One
    /// that is too large is left at that.
    fn downloads(&self) -> usize {
        self.fake.downloads().saturating_sub(self.oversized)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            // WeCom documents no repetitions. They have to be recognised all the same.
            PlatformEvent::OfferedAgain | PlatformEvent::Repeated => {
                self.settle().await?;
                self.fake.repeat(self.last()?);
            }
            PlatformEvent::BrokenDownload => self.fake.fail_next("file.get", Fault::Truncated),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("aibot_send_msg", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.ping(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = |changes: Value| {
            let mut body = json!({
                "msgid": "odd", "chattype": "single", "msgtype": "text",
                "from": {"userid": "ann"}, "text": {"content": "odd"},
            });
            let changes = changes.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(changes);
            body
        };
        let frames = [
            "",
            "no json",
            "[]",
            "{}",
            "5",
            r#"{"cmd": 5, "headers": []}"#,
        ];
        let bodies = [
            json!(null),
            json!("text"),
            json!([]),
            json!({}),
            odd(json!({"msgid": null})),
            odd(json!({"from": {}})),
            odd(json!({"from": "ann"})),
            odd(json!({"chattype": "group", "chatid": ""})),
            odd(json!({"chattype": 9})),
        ];
        let events = [
            json!(null),
            json!({"event": "odd"}),
            json!({"event": {"eventtype": "of_tomorrow"}}),
            json!({"event": {"eventtype": "enter_chat"}}),
            json!({"event": {"eventtype": "feedback_event"}, "from": {"userid": "ann"}}),
        ];
        let answers = [
            json!({"headers": {"req_id": "unknown"}, "errcode": 0}),
            json!({"headers": {"req_id": "unknown"}, "errcode": "odd", "errmsg": 5}),
            json!({"headers": {"req_id": "unknown"}}),
        ];
        frames
            .iter()
            .for_each(|frame| self.fake.push_text_frame(frame));
        for answer in &answers {
            self.fake.push_text_frame(&answer.to_string());
        }
        self.fake.push_binary_frame(vec![0xff; 40]);
        self.fake
            .push_callback("aibot_of_tomorrow", &odd(json!({})));
        for body in &bodies {
            self.fake.push_payload(body);
        }
        for event in &events {
            self.fake.push_event_payload(event);
        }
        Ok(frames.len() + answers.len() + bodies.len() + events.len() + 2)
    }
}

const MENTIONS: (Ability, &str) = (
    Ability::Rooms,
    "WeCom delivers only messages of a group that mention the bot, and does not mark the others",
);
const QUOTES: (Ability, &str) = (
    Ability::OthersWords,
    "WeCom has no mark for forwarded messages; the words of others come in quotes only",
);
const SMALL_FILES: (Ability, &str) = (
    Ability::OutgoingFiles,
    "WeCom takes no file of fewer than five bytes, and the suite sends one; see the tests of media",
);
const NO_PAUSE: (Ability, &str) = (
    Ability::SendFault(SendFault::RateLimited),
    "WeCom names no pause when it refuses one message too many",
);

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let open = async || Harness::open(json!({})).await;
    let ends_by_itself = (
        Ability::LostDrafts,
        "a stream belongs to its message, and WeCom ends it after some minutes",
    );
    let missing = [MENTIONS, QUOTES, SMALL_FILES, NO_PAUSE, ends_by_itself];
    conformance::channel(open, &missing).await.unwrap();
}

#[tokio::test]
async fn channel_without_streams_passes_the_conformance_suite() {
    let whole = (
        Ability::DraftView,
        "with `streaming` off, replies arrive whole",
    );
    let open = async || Harness::open(json!({"streaming": false})).await;
    conformance::channel(open, &[MENTIONS, QUOTES, SMALL_FILES, NO_PAUSE, whole])
        .await
        .unwrap();
}
