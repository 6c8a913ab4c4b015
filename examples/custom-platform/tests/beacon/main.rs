//! The channel against a platform on loopback, with the public conformance suite of all channels.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod platform;

use std::sync::Arc;

use custom_platform::BeaconFactory;
use nanobot_channel::{
    Channel, ChannelFactory as _, InboundMessage, MediaRef, OutboundKey, OutboundKind,
    OutboundMessage, OutboundPart, RawConfig, SenderId, Value, async_trait,
};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, UserMessage, VisibleMessage,
};
use serde_json::json;

use platform::{BeaconState, Platform, TOKEN};

struct Harness {
    platform: Platform,
    count: usize,
    last: Value,
}

impl Harness {
    async fn open() -> anyhow::Result<Self> {
        Ok(Self {
            platform: Platform::start().await?,
            count: 0,
            last: Value::Null,
        })
    }
}

fn room(chat: ObservedChat) -> &'static str {
    match chat {
        ObservedChat::Friend => "with-ann",
        ObservedChat::Stranger => "with-mallory",
        ObservedChat::Room => "hall",
    }
}

fn visible_in(room: &str, state: &BeaconState) -> Vec<VisibleMessage> {
    let posts = state.posts.iter().filter(|(_, to, _)| to == room);
    posts
        .map(|(_, _, text)| VisibleMessage::new(text))
        .collect()
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "ann".into()
    }

    fn secrets(&self) -> Vec<String> {
        // A ticket gives access to the stream, like a token.
        [TOKEN, "ticket-"].map(str::to_owned).to_vec()
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        let section = json!({"apiBase": self.platform.server.url(), "token": TOKEN});
        Ok(BeaconFactory::new().create("beacon".into(), &RawConfig::new(section))?)
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        self.count += 1;
        let (sender, direct) = match posted.by {
            Participant::Friend => ("ann", ObservedChat::Friend),
            Participant::Stranger => ("mallory", ObservedChat::Stranger),
        };
        let (chat, mentioned) = match posted.place {
            Destination::Direct => (direct, false),
            Destination::Room { addressed } => (ObservedChat::Room, addressed),
        };
        let id = format!("m{}", self.count);
        let mut message = json!({
            "id": id, "room": room(chat), "sender": sender, "text": posted.text_with("@lamp"),
            "direct": posted.place == Destination::Direct, "mentioned": mentioned,
        });
        if let Some(file) = posted.file {
            message["file"] = json!({
                "id": id, "name": file.name, "mime": file.mime, "size": file.bytes.len(),
            });
            let bytes = file.bytes.clone();
            self.platform
                .state
                .change(|state| state.files.insert(id, bytes));
        }
        self.last = json!({"message": message});
        self.platform.push(self.last.clone());
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.platform
            .state
            .read(|state| state.is_acknowledged(&self.last))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        let is_acknowledged = |state: &BeaconState| state.is_acknowledged(&self.last).then_some(());
        let state = &self.platform.state;
        Ok(state
            .wait_for("an acknowledgement", is_acknowledged)
            .await?)
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        let probe = |state: &BeaconState| condition.matching(visible_in(room(chat), state));
        Ok(self
            .platform
            .state
            .wait_for("visible messages", probe)
            .await?)
    }

    fn visible_actions(&self, chat: ObservedChat) -> Vec<String> {
        self.platform.state.read(|state| {
            let posts = visible_in(room(chat), state)
                .into_iter()
                .map(|post| post.text);
            let downloads = (0..state.downloads).map(|_| "download".to_owned());
            posts.chain(downloads).collect()
        })
    }

    fn downloads(&self) -> usize {
        self.platform.state.read(|state| state.downloads)
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        let (platform, state) = (&self.platform, &self.platform.state);
        match event {
            PlatformEvent::OfferedAgain | PlatformEvent::Repeated => {
                platform.push(self.last.clone());
            }
            PlatformEvent::BrokenDownload => state.change(|state| state.has_broken_download = true),
            PlatformEvent::FailedSend(fault) => state.change(|state| state.fault = Some(fault)),
            PlatformEvent::Cut => platform.cut(),
            PlatformEvent::Down => {
                platform.cut();
                platform.server.go_down().await?;
            }
            PlatformEvent::Up => platform.server.come_back().await?,
            PlatformEvent::Beat => platform.push(json!({"ping": 1})),
            PlatformEvent::Stalled => {
                platform.server.stall();
                state.change(|state| state.is_stalled = true);
            }
            PlatformEvent::Recovered => {
                state.change(|state| state.is_stalled = false);
                platform.server.recover();
            }
            PlatformEvent::Revoked => {
                state.change(|state| state.is_revoked = true);
                platform.cut();
            }
            PlatformEvent::Restored => state.change(|state| state.is_revoked = false),
        }
        Ok(())
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = [
            json!(""),
            json!("no json"),
            json!({}),
            json!([]),
            json!({"message": null}),
            json!({"message": {"id": 7, "room": "with-ann", "sender": "ann", "text": "x"}}),
            json!({"message": {"id": "o1"}}),
            json!({"message": {"id": "o2", "room": [], "sender": "ann", "text": "x"}}),
            json!({"message": {"id": "o3", "room": "with-ann", "sender": "ann", "text": "x", "file": 5}}),
            json!({"news": "of tomorrow"}),
        ];
        let count = odd.len();
        odd.into_iter().for_each(|frame| self.platform.push(frame));
        Ok(count)
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let missing = [
        (
            Ability::OthersWords,
            "Beacon has neither quotes nor forwarding",
        ),
        (Ability::OutgoingFiles, "Beacon takes no files from bots"),
        (Ability::DraftView, "Beacon's messages cannot be edited"),
        (Ability::Rivals, "Beacon serves one stream at a time"),
    ];
    conformance::channel(Harness::open, &missing).await.unwrap();
}

#[tokio::test]
async fn message_of_a_file_alone_is_sent_as_its_name() {
    let mut harness = Harness::open().await.unwrap();
    let channel = harness.connect().unwrap();
    let inbound = InboundMessage::text("beacon", "ann", "with-ann", "hi");
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    let mut message =
        OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, String::new());
    message.media = vec![MediaRef::new("/media/cat.png")];
    let part = OutboundPart {
        message: Arc::new(message),
        index: 0,
        count: 1,
        text: String::new(),
        plain: String::new(),
        blocks: Vec::new(),
        in_doubt: false,
    };
    channel.send(&part).await.unwrap();
    let posts = harness.platform.state.read(|state| {
        let posts = state.posts.iter();
        posts.map(|(_, _, text)| text.clone()).collect::<Vec<_>>()
    });
    assert_eq!(posts, ["[attachment: cat.png - not supported]"]);
}
