//! The conformance suite of the channel contract.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, Value, async_trait};
use nanobot_channel_telegram_fake::{
    BOT_USERNAME, Call, Fault, FileKind, Incoming, Pushed, SentDraft, SentMessage, TOKEN,
    TelegramFake,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;

use crate::support::{GROUP, ann, channel, mallory};

struct Harness {
    fake: TelegramFake,
    last: Option<Pushed>,
    /// Returns the last pushed message as the API has it.
    said: Value,
    keys: Value,
}

impl Harness {
    fn offer(&mut self, kind: &str, content: Value) {
        let update_id = self.fake.push_raw(kind, content);
        self.last = Some(Pushed {
            chat_id: ann().id,
            message_id: 0,
            update_id,
        });
    }
}

fn chat_id(chat: ObservedChat) -> i64 {
    match chat {
        ObservedChat::Friend => ann().id,
        ObservedChat::Stranger => mallory().id,
        ObservedChat::Room => GROUP,
    }
}

fn fault(fault: SendFault) -> Fault {
    let refusal = |code, text: &str| Fault::Status(code, text.to_owned());
    match fault {
        SendFault::RateLimited => Fault::RetryAfter(SendFault::PAUSE_SECONDS),
        SendFault::Broken => Fault::bad_gateway(),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => refusal(400, "Bad Request: message text is empty"),
        SendFault::ChatGone => refusal(403, "Forbidden: bot was kicked from the supergroup chat"),
        SendFault::TooLarge => refusal(400, "Bad Request: message is too long"),
        SendFault::Unauthorized => Fault::unauthorized(),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "7|ann_x".into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            TOKEN.to_owned(),
            TOKEN.split_once(':').unwrap().1.to_owned(),
        ]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &self.keys))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let person = if posted.by == Participant::Friend {
            ann()
        } else {
            mallory()
        };
        let text = posted.text_with(&format!("@{BOT_USERNAME}"));
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::private(&person, text),
            Destination::Room { .. } => Incoming::group(GROUP, &person, text),
        };
        if let Some(file) = posted.file {
            let kind = if file.mime == "image/png" {
                FileKind::Photo
            } else {
                FileKind::Document
            };
            incoming = incoming.with_file(kind, &file.name, &file.mime, file.bytes.clone());
        }
        self.last = Some(self.fake.push(incoming));
        self.said = self.fake.pending().pop().unwrap_or_default()["message"].clone();
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        for (id, text) in [(9001, later), (9000, earlier)] {
            let mut message = self.said.clone();
            message["message_id"] = json!(id);
            message["text"] = json!(text);
            self.offer("message", message);
        }
        Ok(())
    }

    async fn forward(&mut self, text: &str) -> anyhow::Result<()> {
        let mut message = self.said.clone();
        message["message_id"] = json!(9100);
        message["text"] = json!(text);
        let writer = json!({"id": 13, "is_bot": false, "first_name": "Mallory"});
        message["forward_origin"] = json!({"type": "user", "date": 1, "sender_user": writer});
        self.offer("message", message);
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.last
            .is_some_and(|last| self.fake.is_acknowledged(last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self
            .fake
            .wait_for_acknowledged(self.last.context("nothing was said")?)
            .await?)
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
        let chat = chat_id(chat);
        let visible = |sent: &&SentMessage| sent.chat_id == chat && !sent.is_deleted;
        let growing = |draft: &SentDraft| VisibleMessage {
            is_draft: true,
            ..VisibleMessage::new(&draft.text)
        };
        let probe = |sent: &[SentMessage], drafts: &[SentDraft]| {
            let drafts = drafts.iter().filter(|draft| draft.chat_id == chat);
            let messages = sent.iter().filter(visible).map(seen);
            condition.matching(messages.chain(drafts.map(growing)))
        };
        Ok(self.fake.wait_for_view("what people see", probe).await?)
    }

    fn drafts_are_messages(&self) -> bool {
        self.keys["nativeDrafts"] == json!(false)
    }

    fn drafts_expire(&mut self) {
        self.fake.advance(Duration::from_mins(1));
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let chat = json!(chat_id(chat));
        let is_noticed = |call: &Call| call.params["chat_id"] == chat || call.method == "getFile";
        self.fake
            .calls()
            .into_iter()
            .filter(is_noticed)
            .map(|call| call.method)
            .collect()
    }

    fn downloads(&self) -> usize {
        self.fake.calls_of("getFile").len()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(50 << 20)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain => {}
            PlatformEvent::Repeated => self.offer("message", self.said.clone()),
            PlatformEvent::BrokenDownload => {
                self.fake.fail_next(
                    "getFile",
                    Fault::Status(400, "Bad Request: file is too big".to_owned()),
                );
            }
            PlatformEvent::FailedSend(how) => self.fake.fail_next("sendMessage", fault(how)),
            PlatformEvent::Cut => self.fake.server().cut(),
            PlatformEvent::Down => self.fake.server().go_down().await?,
            PlatformEvent::Up => self.fake.server().come_back().await?,
            PlatformEvent::Beat => self.fake.end_poll(),
            PlatformEvent::Stalled => self.fake.server().stall(),
            PlatformEvent::Recovered => self.fake.server().recover(),
            PlatformEvent::Revoked => {
                self.fake.revoke_token();
                // A poll that is open stays open until its time is over.
                self.fake.end_poll();
            }
            PlatformEvent::Restored => self.fake.restore_token(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let mut dated = self.said.clone();
        dated["date"] = json!("yesterday");
        let mut chatless = self.said.clone();
        chatless["chat"] = Value::Null;
        let mut absurd = self.said.clone();
        absurd["message_id"] = json!(u64::MAX);
        absurd["from"]["id"] = json!(-1.5);
        let mut senderless = self.said.clone();
        senderless
            .as_object_mut()
            .context("a message is an object")?
            .remove("from");
        let mut silent = self.said.clone();
        silent
            .as_object_mut()
            .context("a message is an object")?
            .remove("text");
        silent["something_of_tomorrow"] = json!({"nobody": ["knows"]});
        silent["from"]["is_bot"] = json!(true);
        let messages = [
            json!(null),
            json!([]),
            json!("text"),
            json!({}),
            dated,
            chatless,
            absurd,
            senderless,
            silent,
        ];
        let messages = messages.into_iter().map(|message| ("message", message));
        let others = [
            ("edited_message", json!(7)),
            ("edited_message", json!({})),
            ("callback_query", json!({"id": 1})),
        ];
        let pushed = messages
            .chain(others)
            .filter_map(|(kind, content)| self.fake.push_raw(kind, content));
        Ok(pushed.count())
    }
}

async fn check(keys: Value) {
    let open = async || {
        Ok(Harness {
            fake: TelegramFake::start().await?,
            last: None,
            said: Value::Null,
            keys: keys.clone(),
        })
    };
    let nameless = (
        Ability::LostDrafts,
        "Telegram has no key of a message, and a bot cannot read a chat",
    );
    conformance::channel(open, &[nameless]).await.unwrap();
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    check(json!({})).await;
}

#[tokio::test]
async fn channel_without_native_drafts_passes_the_conformance_suite() {
    check(json!({"nativeDrafts": false})).await;
}
