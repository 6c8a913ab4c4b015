//! The channel on real sockets: the contract's suite, and the protocol.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod protocol;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use nanobot_channel::{Channel, ChannelName, SenderId, Value, async_trait};
use nanobot_channel_websocket::{Token, WebSocketChannel, WebSocketConfig};
use nanobot_testkit::conformance::{
    self, Ability, ChannelHarness, MessageCondition, ObservedChat, Participant, PlatformEvent,
    UserMessage, VisibleMessage,
};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, WebSocketClient};
use serde_json::json;

const TOKEN: &str = "a-long-random-token";

fn channel(config: WebSocketConfig) -> Arc<WebSocketChannel> {
    Arc::new(WebSocketChannel::new(
        ChannelName::from("websocket"),
        WebSocketConfig { port: 0, ..config },
    ))
}

fn with_token() -> WebSocketConfig {
    WebSocketConfig {
        token: Token::new(TOKEN),
        ..WebSocketConfig::default()
    }
}

/// Waits until the channel listens.
async fn address(channel: &WebSocketChannel) -> SocketAddr {
    let mut address = channel.address();
    let listening = tokio::time::timeout(WAIT_LIMIT, address.wait_for(Option::is_some)).await;
    listening.unwrap().unwrap().unwrap()
}

async fn connect(channel: &WebSocketChannel, query: &str) -> Result<WebSocketClient, TestkitError> {
    let url = format!("ws://{}/?token={TOKEN}&{query}", address(channel).await);
    WebSocketClient::connect(&url).await
}

/// A friend who sends again what was not acknowledged when a connection ends, and passes over
/// events that came before, as a client should.
struct Harness {
    channel: Arc<WebSocketChannel>,
    friend: Option<WebSocketClient>,
    said: usize,
    last: Value,
    unacknowledged: Vec<Value>,
    acknowledged: Vec<Value>,
    shown: Vec<(Value, String)>,
    draft: String,
    told: Vec<VisibleMessage>,
    noticed: Vec<String>,
}

impl Harness {
    fn new() -> Self {
        Self {
            channel: channel(with_token()),
            friend: None,
            said: 0,
            last: Value::Null,
            unacknowledged: Vec::new(),
            acknowledged: Vec::new(),
            shown: Vec::new(),
            draft: String::new(),
            told: Vec::new(),
            noticed: Vec::new(),
        }
    }

    async fn friend(&mut self) -> anyhow::Result<&mut WebSocketClient> {
        if self.friend.is_none() {
            let mut client = connect(&self.channel, "client_id=friend&chat_id=room").await?;
            client.receive_until("ready").await?;
            for frame in &self.unacknowledged {
                client.send(frame).await?;
            }
            self.friend = Some(client);
        }
        self.friend.as_mut().context("just connected")
    }

    async fn next(&mut self) -> anyhow::Result<Value> {
        let event = self.friend().await?.receive().await?;
        match event["event"].as_str() {
            Some("ack") => {
                self.unacknowledged
                    .retain(|frame| frame["id"] != event["id"]);
                self.acknowledged.push(event["id"].clone());
            }
            Some("delta") => self.draft.push_str(event["text"].as_str().unwrap()),
            Some("message") if !self.shown.iter().any(|(id, _)| *id == event["id"]) => {
                self.shown.push((
                    event["id"].clone(),
                    event["text"].as_str().unwrap().to_owned(),
                ));
                self.draft.clear();
            }
            Some("stream_end") if event["resuming"] == true => self.draft.clear(),
            _ => {}
        }
        Ok(event)
    }

    async fn send_last(&mut self) -> anyhow::Result<()> {
        let frame = self.last.clone();
        Ok(self.friend().await?.send(&frame).await?)
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        let mut stranger = connect(&self.channel, "client_id=stranger").await?;
        // The server may have hung up already.
        let sent = stranger.send_text(text).await;
        let first = stranger.receive().await?;
        sent.ok();
        match first["event"].as_str() {
            Some("error") => self
                .told
                .push(VisibleMessage::new(first["detail"].as_str().unwrap())),
            Some("ready") => {}
            _ => self.noticed.push(first.to_string()),
        }
        Ok(())
    }

    /// Returns the messages that the friend sees, with the draft.
    fn seen(&self) -> Vec<VisibleMessage> {
        let draft = Some(VisibleMessage {
            is_draft: true,
            ..VisibleMessage::new(&self.draft)
        })
        .filter(|draft| !draft.text.is_empty());
        self.shown
            .iter()
            .map(|(_, text)| VisibleMessage::new(text))
            .chain(draft)
            .collect()
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn friend(&self) -> SenderId {
        "friend".into()
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }

    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.friend = None;
        self.channel = channel(with_token());
        Ok(Arc::clone(&self.channel) as Arc<dyn Channel>)
    }

    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()> {
        if posted.by == Participant::Stranger {
            return self.stranger_says(posted.text).await;
        }
        self.said += 1;
        self.last = json!({ "content": posted.text, "id": format!("m-{}", self.said) });
        self.send_last().await?;
        self.unacknowledged.push(self.last.clone());
        Ok(())
    }

    fn is_acknowledged(&self) -> bool {
        self.acknowledged.contains(&self.last["id"])
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        while !self.is_acknowledged() {
            self.next().await?;
        }
        Ok(())
    }

    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>> {
        if chat == ObservedChat::Stranger {
            return condition
                .matching(self.told.clone())
                .context("the stranger hung up");
        }
        loop {
            if let Some(seen) = condition.matching(self.seen()) {
                return Ok(seen);
            }
            self.next().await?;
        }
    }

    fn visible_actions(&self, _chat: ObservedChat) -> Vec<String> {
        self.noticed.clone()
    }

    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()> {
        match event {
            PlatformEvent::OfferedAgain if self.friend.is_some() => {
                while self.next().await?["event"] != "error" {}
                self.send_last().await
            }
            PlatformEvent::OfferedAgain => self.friend().await.map(drop),
            PlatformEvent::Repeated => {
                self.acknowledged.retain(|id| *id != self.last["id"]);
                self.send_last().await
            }
            PlatformEvent::Cut => {
                // The friend notices at once, and comes back with the next thing to say.
                self.friend = None;
                Ok(())
            }
            other => bail!("no client can do this: {other:?}"),
        }
    }

    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let mut sent = 0;
        for odd in [
            "",
            " ",
            "{}",
            r#"{"type":"dance"}"#,
            r#"{"type":7,"content":"x"}"#,
            r#"{"content":null}"#,
            r#"{"content":{"deep":[[[[]]]]}}"#,
            r#"{"content":"x","id":"a b"}"#,
            r#"{"content":"x","id":{}}"#,
            r#"{"content":"x","chat_id":""}"#,
            r#"{"type":"attach"}"#,
            r#"{"type":"attach","chat_id":["room"]}"#,
        ] {
            self.friend().await?.send_text(odd).await?;
            sent += 1;
        }
        Ok(sent)
    }
}

#[tokio::test]
async fn channel_passes_the_conformance_suite() {
    let missing = [
        (
            Ability::OthersWords,
            "a client says everything in its person's name",
        ),
        (Ability::Rooms, "every chat counts as one person's"),
        (Ability::IncomingFiles, "clients send text only"),
        (
            Ability::OutgoingFiles,
            "clients get the names of files only",
        ),
        (
            Ability::SendFaults,
            "clients do not answer, so they cannot refuse",
        ),
        (Ability::Outages, "the channel is the server"),
        (
            Ability::Pulse,
            "the channel is the server; no client at all is no stall",
        ),
        (
            Ability::Credentials,
            "clients bring the credentials, and the channel checks them",
        ),
        (
            Ability::Rivals,
            "the channel is the server; a second one cannot listen at the same address",
        ),
    ];
    conformance::channel(async || Ok(Harness::new()), &missing)
        .await
        .unwrap();
}
