//! The conformance suite of the channel contract.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, async_trait};
use nanobot_channel_whatsapp_fake::{Fault, Incoming, Pushed, SentFile, SentMessage, WhatsAppFake};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::{Value, json};

use crate::support::{ROOM, ann, channel, fake, mallory, user};

struct Harness {
    fake: WhatsAppFake,
    keys: Value,
    last: Option<Pushed>,
}

impl Harness {
    async fn open(keys: Value) -> anyhow::Result<Self> {
        Ok(Self {
            fake: fake().await,
            keys,
            last: None,
        })
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
        SendFault::RateLimited => Fault::RateLimitedFor(u64::from(SendFault::PAUSE_SECONDS)),
        SendFault::Broken => Fault::error("failed"),
        SendFault::CutAfterEffect => Fault::DropAfterEffect,
        SendFault::Refused => Fault::error("invalid"),
        SendFault::ChatGone => Fault::error("not_found"),
        SendFault::TooLarge => Fault::error("too_large"),
        SendFault::Unauthorized => Fault::error("unlinked"),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        let ann = ann();
        format!("{}|{}", user(&ann.direct()), user(&ann.lid())).into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.fake.token()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &self.keys))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let mut incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text).by_lid(),
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
            incoming = incoming.with_file(&file.name, &file.mime, file.bytes.clone());
        }
        self.last = Some(self.fake.push(incoming));
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
            VisibleMessage::new(&sent.text).with_files(files)
        };
        let visible = |sent: &&SentMessage| sent.chat_id == chat;
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        let chat = conversation(chat);
        let sent = self.fake.texts_in(&chat).into_iter();
        let typing = self
            .fake
            .typing()
            .into_iter()
            .filter(|typing| *typing == chat);
        let reads = self.fake.calls_of("read").into_iter();
        let reacts = self.fake.calls_of("react").into_iter();
        let signs = reads.chain(reacts).map(|call| call.body.to_string());
        let names = [user(&chat), user(&mallory().lid())];
        let is_there = |sign: &String| match chat == mallory().direct() {
            true => names.iter().any(|name| sign.contains(name)),
            false => sign.contains(&names[0]),
        };
        let signs = signs.filter(is_there);
        let downloads = (0..self.downloads()).map(|_| "download".to_owned());
        sent.chain(typing).chain(signs).chain(downloads).collect()
    }

    fn downloads(&self) -> usize {
        self.fake.downloads()
    }

    fn largest_file(&self) -> Option<u64> {
        Some(100 << 20)
    }

    fn longest_text(&self) -> usize {
        60_000
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            // The bridge does so by itself with the next connection.
            PlatformEvent::OfferedAgain => self.fake.cut(),
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::BrokenDownload => self.fake.fail_next("fetch", Fault::error("failed")),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("send", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => self.fake.go_down().await?,
            PlatformEvent::Up => self.fake.come_back(),
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
                "type": "message", "id": "odd", "sender": ann().direct(), "pn": "",
                "content": "odd", "timestamp": 1_789_000_000, "isGroup": false,
            });
            let changes = changes.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(changes);
            body
        };
        let bodies = [
            json!({}),
            odd(json!({"id": null})),
            odd(json!({"id": {"x": 1}})),
            odd(json!({"sender": null})),
            odd(json!({"sender": "status@broadcast"})),
            odd(json!({"sender": ROOM})),
            odd(json!({"sender": ROOM, "participant": 5, "isGroup": true})),
        ];
        let frames = [
            json!({"type": "of_tomorrow"}),
            json!({"type": "sent", "requestId": "unknown"}),
            json!({"type": "error", "requestId": 5, "code": []}),
            json!({"type": "chunk", "data": 5}),
            json!({"type": "qr"}),
            json!({"type": "status", "status": "connected", "account": 5}),
        ];
        for frame in &frames {
            self.fake.push_text_frame(&frame.to_string());
        }
        for body in &bodies {
            self.fake.push_payload(body);
        }
        // This one ends the connection.
        self.fake.push_text_frame("no json");
        Ok(frames.len() + bodies.len() + 1)
    }
}

const QUOTES: (Ability, &str) = (
    Ability::OthersWords,
    "the bridge has no mark for forwarded messages; the words of others come in quotes only",
);
const NO_DRAFTS: (Ability, &str) = (
    Ability::DraftView,
    "each edit of a message is marked and notifies people",
);

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    // With everything that people could notice.
    let open = async || Harness::open(json!({"reactEmoji": "👀", "markRead": true})).await;
    conformance::channel(open, &[QUOTES, NO_DRAFTS])
        .await
        .unwrap();
}
