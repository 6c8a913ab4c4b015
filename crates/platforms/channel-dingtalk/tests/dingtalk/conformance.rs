//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_dingtalk_fake::{
    CARD_KEY, CARD_TEMPLATE, CLIENT_SECRET, DingTalkFake, Fault, Incoming, Person, Pushed,
    ROBOT_USER_ID, SentFile, SentMessage, TOKEN_PREFIX,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{ROOM, ann, channel, fake, mallory};

struct Harness {
    fake: DingTalkFake,
    /// The keys of the channel.
    keys: Value,
    last: Option<Pushed>,
    /// Number of files of the friend that are too large to be stored.
    oversized: usize,
    /// Number of messages that DingTalk would not deliver.
    foreign: usize,
}

impl Harness {
    async fn open(keys: Value) -> anyhow::Result<Self> {
        Ok(Self {
            fake: fake().await,
            keys,
            last: None,
            oversized: 0,
            foreign: 0,
        })
    }

    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }

    /// Pushes a message of the group that does not mention the robot. DingTalk delivers none; the
    /// channel has to recognise one all the same.
    fn push_unaddressed(&mut self, person: &Person, text: &str) -> Pushed {
        self.foreign += 1;
        let message = message(person, &format!("msgForeign{}", self.foreign), text);
        let room = json!({"conversationId": ROOM, "conversationType": "2", "isInAtList": false});
        self.fake.push_payload(&merged(message, &room).to_string())
    }
}

/// Returns a text as DingTalk pushes it.
fn message(person: &Person, id: &str, text: &str) -> Value {
    json!({
        "msgId": id, "conversationId": person.direct(), "conversationType": "1", "msgtype": "text",
        "senderId": person.sender_id, "senderStaffId": person.staff_id, "senderNick": person.name,
        "chatbotUserId": ROBOT_USER_ID, "text": {"content": text},
    })
}

fn merged(mut message: Value, changes: &Value) -> Value {
    let changes = changes.as_object().unwrap().clone();
    message.as_object_mut().unwrap().extend(changes);
    message
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
        SendFault::RateLimited => Fault::RateLimitedFor(SendFault::PAUSE_SECONDS),
        SendFault::Broken => Fault::Status(502),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::error("invalidParameter.msgParam"),
        SendFault::ChatGone => Fault::error("staffId.notExisted"),
        SendFault::TooLarge => Fault::error("msgParam.tooLong"),
        SendFault::Unauthorized => Fault::error("invalidClientIdOrSecret"),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().staff_id.into()
    }

    fn secrets(&self) -> Vec<String> {
        // The ticket of a connection is as good as a token for as long as it lasts.
        [CLIENT_SECRET, TOKEN_PREFIX, "ticket="]
            .map(str::to_owned)
            .to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &self.keys))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        if posted.place == (Destination::Room { addressed: false }) {
            self.last = Some(self.push_unaddressed(&person, posted.text));
            return Ok(());
        }
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text),
            Destination::Room { .. } => Incoming::to(ROOM, &person, posted.text).mentioning_robot(),
        };
        if let Some(file) = posted.file {
            // A file has no text at DingTalk, so people quote it.
            let quoted = Incoming::direct(&person, "");
            let quoted = quoted.with_file(&file.name, &file.mime, file.bytes.clone());
            let quoted = self.fake.push_silently(quoted).message_id;
            incoming = incoming.quoting(&quoted);
            self.oversized += usize::from(is_friend && file.bytes.len() > 64 << 10);
        }
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        let records = json!([{"senderNick": "Mallory", "msgType": "text", "content": text}]);
        let content = json!({"summary": json!([format!("Mallory: {text}")]).to_string(),
                             "chatRecord": records.to_string()});
        let incoming = Incoming::direct(&ann(), "").of_kind("chatRecord", content);
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (created, text) in [(1_900_000_002_000, later), (1_900_000_001_000, earlier)] {
            let incoming = Incoming::direct(&ann(), text).created_at(created);
            self.last = Some(self.fake.push(incoming));
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
            let files = files.map(|file: &SentFile| (file.name.clone(), file.bytes.to_vec()));
            VisibleMessage {
                is_draft: sent.is_streaming,
                ..VisibleMessage::new(&sent.text).with_files(files)
            }
        };
        // Cards cannot be deleted; an ellipsis is as much as there is of a deletion.
        let is_withdrawn = |sent: &SentMessage| sent.card.is_some() && sent.text == "…";
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

    /// DingTalk announces the length of a file in the headers of its download, and nowhere else.
    /// One that is too large is left at that.
    fn downloads(&self) -> usize {
        self.fake.downloads().saturating_sub(self.oversized)
    }

    fn largest_file(&self) -> Option<u64> {
        Some(20 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => self.fake.fail_next("file.get", Fault::Truncated),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("robot.private", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back().await?,
            PlatformEvent::Beat => self.fake.send_ping(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = |changes: Value| merged(message(&ann(), "msgOdd", "odd"), &changes).to_string();
        let frames = [
            "",
            "no json",
            "[]",
            "{}",
            "5",
            r#"{"type": 5, "headers": []}"#,
        ];
        let payloads = [
            String::new(),
            "no json".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            odd(json!({"msgId": null})),
            odd(json!({"senderId": 7, "senderStaffId": null, "conversationType": {}})),
            odd(json!({"senderId": null, "senderStaffId": null})),
            odd(json!({"conversationType": "2", "conversationId": ""})),
            odd(json!({"conversationType": "9"})),
            odd(json!({"senderId": ROBOT_USER_ID, "senderStaffId": ""})),
        ];
        frames
            .iter()
            .for_each(|frame| self.fake.push_text_frame(frame));
        self.fake.push_binary_frame(vec![0xff; 40]);
        self.fake.send_system("topicOfTomorrow", &json!({}));
        self.fake.push_callback("/v9/of/tomorrow", "{}");
        self.fake
            .push_event("user_add_org", &json!({"userId": ["ben"]}));
        for payload in &payloads {
            self.fake.push_payload(payload);
        }
        Ok(frames.len() + payloads.len() + 4)
    }
}

const DIVIDED: (Ability, &str) = (
    Ability::NewsOfRivals,
    "DingTalk divides the messages among the connections of an app and tells none about the others",
);

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let whole = (
        Ability::DraftView,
        "without the template of a card, replies arrive whole",
    );
    let open = async || Harness::open(json!({})).await;
    conformance::channel(open, &[whole, DIVIDED]).await.unwrap();
}

#[tokio::test]
async fn channel_with_cards_passes_the_conformance_suite() {
    let keys = json!({"cardTemplateId": CARD_TEMPLATE, "cardContentVariable": CARD_KEY});
    let open = async || Harness::open(keys.clone()).await;
    let repeated = (
        Ability::LostDrafts,
        "the suite cuts messages, and a card is created by another call; see the tests of cards",
    );
    conformance::channel(open, &[DIVIDED, repeated])
        .await
        .unwrap();
}
