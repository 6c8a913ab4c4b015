//! The conformance suite of the channel contract.
//!
//! Mochat confirms nothing, so a message counts as acknowledged once the position that the channel
//! keeps in its notes is past it: then it is never asked for again.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, NoteError, Notes,
    OutboundPart, Probe, Quarantined, SenderId, Sent, TextStyle, Value, async_trait,
};
use nanobot_channel_mochat_fake::{
    CLAW_TOKEN, Fault, Incoming, Mention, MochatFake, Pushed, SentMessage, Serializer,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SendFault, UserMessage, VisibleMessage,
};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{NOTE, ROOM, ann, channel, fake_with, mallory};

/// Notes whose positions the harness sees.
#[derive(Debug)]
struct ObservedNotes {
    notes: Arc<dyn Notes>,
    position: watch::Sender<Value>,
}

impl ObservedNotes {
    fn observe(&self, name: &str, text: &str) {
        if name == NOTE {
            let position = serde_json::from_str(text).unwrap_or_default();
            self.position.send_replace(position);
        }
    }
}

#[async_trait]
impl Notes for ObservedNotes {
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError> {
        self.notes.read(name).await
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.notes.write(name, text).await?;
        self.observe(name, text);
        Ok(())
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        self.notes.remove(name).await
    }

    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.notes.write_unsynced(name, text).await
    }

    async fn quarantine(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError> {
        self.notes.quarantine(key, bytes).await
    }

    async fn quarantined(&self) -> Result<Quarantined, NoteError> {
        self.notes.quarantined().await
    }
}

/// The channel, with notes that the harness sees.
#[derive(Debug)]
struct ObservedChannel {
    channel: Arc<dyn Channel>,
    position: watch::Sender<Value>,
}

#[async_trait]
impl Channel for ObservedChannel {
    fn name(&self) -> &ChannelName {
        self.channel.name()
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let notes = ObservedNotes {
            notes: Arc::clone(&context.notes),
            position: self.position.clone(),
        };
        let notes = Arc::new(notes);
        self.channel.run(ChannelContext { notes, ..context }).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        self.channel.send(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        self.channel.guarantee()
    }

    fn text_style(&self) -> TextStyle {
        self.channel.text_style()
    }

    fn probe(&self) -> Option<&dyn Probe> {
        self.channel.probe()
    }
}

struct Harness {
    fake: MochatFake,
    /// The keys of the channel.
    keys: Value,
    last: Option<Pushed>,
    position: watch::Sender<Value>,
    is_down: bool,
}

impl Harness {
    async fn open(serializer: Serializer, keys: Value) -> anyhow::Result<Self> {
        Ok(Self {
            fake: fake_with(serializer).await,
            keys,
            last: None,
            position: watch::Sender::new(Value::Null),
            is_down: false,
        })
    }

    fn last(&self) -> anyhow::Result<&Pushed> {
        self.last.as_ref().context("nothing was said")
    }

    /// Waits until the channel receives for the first time: what came before is history.
    async fn received(&self, chat: &str) -> anyhow::Result<()> {
        if self.last.is_none() && !self.is_down {
            self.fake.wait_for_subscription(chat).await?;
        }
        Ok(())
    }
}

/// `true` if the position is past the event.
fn is_past(position: &Value, pushed: &Pushed) -> bool {
    let chat = pushed.chat_id.as_str();
    let cursor = position["cursors"].get(chat).and_then(Value::as_u64);
    let marks = position["panels"].get(chat).and_then(Value::as_array);
    cursor.is_some_and(|cursor| cursor >= pushed.seq)
        || marks.is_some_and(|marks| marks.contains(&json!(pushed.message_id)))
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
        SendFault::Refused => Fault::Error(400),
        SendFault::ChatGone => Fault::Error(404),
        SendFault::TooLarge => Fault::Error(413),
        SendFault::Unauthorized => Fault::Error(401),
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        ann().id.into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![CLAW_TOKEN.to_owned()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(Arc::new(ObservedChannel {
            channel: channel(&self.fake, &self.keys),
            position: self.position.clone(),
        }))
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        let is_friend = posted.by == Participant::Friend;
        let person = if is_friend { ann() } else { mallory() };
        let incoming = match posted.place {
            Destination::Direct => Incoming::direct(&person, posted.text),
            Destination::Room { addressed } => {
                let incoming = Incoming::to(ROOM, &person, posted.text);
                if addressed {
                    incoming.mentioning_robot_as(Mention::Tag)
                } else {
                    incoming
                }
            }
        };
        let chat = match posted.place {
            Destination::Direct => person.direct(),
            Destination::Room { .. } => ROOM.to_owned(),
        };
        self.received(&chat).await?;
        self.last = Some(self.fake.push(incoming));
        Ok(())
    }

    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        let [earlier, later] = [earlier, later].map(|text| Incoming::direct(&ann(), text));
        let [_, later] = self.fake.push_reversed(earlier, later);
        self.last = Some(later);
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| is_past(&self.position.borrow(), last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        let last = self.last()?;
        let mut positions = self.position.subscribe();
        let past = positions.wait_for(|position| is_past(position, last));
        tokio::time::timeout(nanobot_testkit::WAIT_LIMIT, past)
            .await
            .context("the position stays before the message")??;
        Ok(())
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let chat = conversation(chat);
        let visible = |sent: &&SentMessage| sent.chat_id == chat;
        let seen = |sent: &SentMessage| VisibleMessage::new(&sent.text);
        let probe =
            |sent: &[SentMessage]| condition.matching(sent.iter().filter(visible).map(seen));
        Ok(self.fake.wait_for("what people see", probe).await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        self.fake.texts_in(&conversation(chat))
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain | PlatformEvent::BrokenDownload => {}
            PlatformEvent::Repeated => self.fake.repeat(self.last()?),
            PlatformEvent::FailedSend(how) => self.fake.fail_next("sessions.send", fault(how)),
            PlatformEvent::Cut => self.fake.cut(),
            PlatformEvent::Down => {
                self.is_down = true;
                self.fake.go_down().await?;
            }
            PlatformEvent::Up => {
                self.is_down = false;
                self.fake.come_back().await?;
            }
            PlatformEvent::Beat => self.fake.send_ping(),
            PlatformEvent::Stalled => self.fake.stall(),
            PlatformEvent::Recovered => self.fake.recover(),
            PlatformEvent::Revoked => self.fake.revoke_credentials(),
            PlatformEvent::Restored => self.fake.restore_credentials(),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let frames = [
            "",
            "4",
            "42",
            "42[",
            "9x",
            "語",
            "451-[\"x\",{\"_placeholder\":true}]",
        ];
        for frame in frames {
            self.fake.push_text_frame(frame);
        }
        self.fake.push_binary_frame(vec![0xff; 40]);
        self.fake
            .push_binary_frame(vec![0xdd, 0xff, 0xff, 0xff, 0xff]);
        let packets = [
            (2, None, json!(null)),
            (2, None, json!([])),
            (2, None, json!([7, {}])),
            (3, Some(99), json!([{"result": true}])),
            (5, None, json!(["claw.session.events", {}])),
        ];
        for (kind, id, data) in packets.clone() {
            self.fake.push_packet(kind, id, data);
        }
        let session = ann().direct();
        let odd = |changes: Value| {
            let mut payload = json!({"messageId": "odd", "author": "ann", "content": "odd"});
            let changes = changes.as_object().cloned().unwrap_or_default();
            payload.as_object_mut().unwrap().extend(changes);
            payload
        };
        let payloads = [
            json!(null),
            json!([]),
            odd(json!({"messageId": null, "author": null})),
            odd(json!({"author": ["ann"]})),
            odd(json!({"author": nanobot_channel_mochat_fake::BOT_USER_ID})),
        ];
        for payload in payloads.clone() {
            self.fake.push_claw_event(&session, "message.add", payload);
        }
        for kind in [
            "message.update",
            "message.recall",
            "message.delete",
            "session.renamed",
            "",
        ] {
            let payload = odd(json!({"messageId": "unknown"}));
            self.fake.push_claw_event(&session, kind, payload);
        }
        let events = [
            (
                "claw.session.events",
                json!({"sessionId": session, "events": "none"}),
            ),
            (
                "claw.session.events",
                json!({"sessionId": "session_nowhere", "events": [{"type": "message.add"}]}),
            ),
            (
                "claw.panel.events",
                json!({"sessionId": ROOM, "cursor": "x", "events": [5, null, {}]}),
            ),
            (
                "notify:chat.inbox.append",
                json!({"type": "message", "payload": {"converseId": "c"}}),
            ),
            (
                "notify:chat.message.add",
                json!({"groupId": "g", "converseId": "p"}),
            ),
            ("event.of.tomorrow", json!({})),
        ];
        for (name, payload) in &events {
            self.fake.push_event(name, payload);
        }
        Ok(frames.len() + 2 + packets.len() + payloads.len() + 5 + events.len())
    }
}

const MISSING: &[(Ability, &str)] = &[
    (
        Ability::OthersWords,
        "a client of Mochat has no way to pass on the message of another person",
    ),
    (Ability::IncomingFiles, "messages of Mochat have no files"),
    (Ability::OutgoingFiles, "Mochat takes no files"),
    (
        Ability::DraftView,
        "Mochat's API cannot change a message that was sent",
    ),
    (
        Ability::NewsOfRivals,
        "Mochat serves any number of connections and tells none about the others",
    ),
];

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let keys = json!({"replyDelayMs": 0});
    let open = async || Harness::open(Serializer::Msgpack, keys.clone()).await;
    conformance::channel(open, MISSING).await.unwrap();
}

#[tokio::test]
async fn channel_that_speaks_json_passes_the_conformance_suite() {
    let keys = json!({"socketDisableMsgpack": true, "replyDelayMode": "off"});
    let open = async || Harness::open(Serializer::Json, keys.clone()).await;
    conformance::channel(open, MISSING).await.unwrap();
}
