//! The channel on real sockets: the contract's suite, and the protocol.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]

mod protocol;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, ChannelName, SenderId, Value, async_trait};
use nanobot_channel_websocket::{Token, WebSocketChannel, WebSocketConfig};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, DraftView, Oddities, Pairing, Redelivery, Transport,
};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, WebSocketClient, abilities};
use serde_json::json;

const TOKEN: &str = "a-long-random-token";

fn channel(config: WebSocketConfig) -> Arc<WebSocketChannel> {
    Arc::new(WebSocketChannel::new(ChannelName::from("websocket"), WebSocketConfig { port: 0, ..config }))
}

fn with_token() -> WebSocketConfig {
    WebSocketConfig { token: Token::new(TOKEN), ..WebSocketConfig::default() }
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

/// A friend who sends again what was not acknowledged when a connection ends, and passes over events
/// that came before, as a client should.
struct Harness {
    channel: Arc<WebSocketChannel>,
    friend: Option<WebSocketClient>,
    said: usize,
    last: Value,
    unacknowledged: Vec<Value>,
    acknowledged: Vec<Value>,
    shown: Vec<(Value, String)>,
    draft: String,
    told: Vec<String>,
    noticed: Vec<String>,
}

impl Harness {
    fn at(channel: Arc<WebSocketChannel>) -> Self {
        Self {
            channel,
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
                self.unacknowledged.retain(|frame| frame["id"] != event["id"]);
                self.acknowledged.push(event["id"].clone());
            }
            Some("delta") => self.draft.push_str(event["text"].as_str().unwrap()),
            Some("message") if !self.shown.iter().any(|(id, _)| *id == event["id"]) => {
                self.shown.push((event["id"].clone(), event["text"].as_str().unwrap().to_owned()));
                self.draft.clear();
            }
            _ => {}
        }
        Ok(event)
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.said += 1;
        self.last = json!({ "content": text, "id": format!("m-{}", self.said) });
        let frame = self.last.clone();
        self.friend().await?.send(&frame).await?;
        self.unacknowledged.push(frame);
        Ok(())
    }
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel) as Arc<dyn Channel>
    }

    fn friend(&self) -> SenderId {
        "friend".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.say(text).await
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        let mut stranger = connect(&self.channel, "client_id=stranger").await?;
        // The server may have hung up already.
        let sent = stranger.send_text(text).await;
        let first = stranger.receive().await?;
        sent.ok();
        match first["event"].as_str() {
            Some("error") => self.told.push(first["detail"].as_str().unwrap().to_owned()),
            Some("ready") => {}
            _ => self.noticed.push(first.to_string()),
        }
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.noticed.clone())
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        if self.friend.is_some() {
            while self.next().await?["event"] != "error" {}
            let last = self.last.clone();
            self.friend().await?.send(&last).await?;
        } else {
            self.friend().await?;
        }
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.acknowledged.contains(&self.last["id"]))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        while !self.is_acknowledged().await? {
            self.next().await?;
        }
        Ok(())
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        while self.shown.len() < count {
            self.next().await?;
        }
        Ok(self.shown.iter().map(|(_, text)| text.clone()).collect())
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }

    abilities! {
        redelivery,
        rooms: "every chat counts as one person's",
        pairing,
        incoming_files: "clients send text only",
        outgoing_files: "clients get the names of files only",
        send_faults: "clients do not answer, so they cannot refuse",
        transport,
        pulse: "the channel is the server; no client at all is no stall",
        draft_view,
        oddities,
        credentials: "clients bring the credentials, and the channel checks them",
        rivals: "the channel is the server; a second one cannot listen at the same address",
    }
}

#[async_trait]
impl Redelivery for Harness {
    async fn reopen(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.friend = None;
        self.channel = channel(with_token());
        Ok(Arc::clone(&self.channel) as Arc<dyn Channel>)
    }

    async fn repeat(&mut self) -> anyhow::Result<()> {
        self.acknowledged.retain(|id| *id != self.last["id"]);
        let last = self.last.clone();
        self.friend().await?.send(&last).await?;
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.say(later).await?;
        self.say(earlier).await
    }
}

#[async_trait]
impl Pairing for Harness {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.told.clone())
    }
}

#[async_trait]
impl Transport for Harness {
    async fn cut(&mut self) -> anyhow::Result<()> {
        // The friend notices at once, and comes back with the next thing to say.
        self.friend = None;
        Ok(())
    }

    async fn go_down(&mut self) -> anyhow::Result<Arranged> {
        Ok(Arranged::Impossible("the channel is the server"))
    }

    async fn come_back(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[async_trait]
impl DraftView for Harness {
    async fn friend_sees(&mut self, text: &str) -> anyhow::Result<()> {
        while self.draft != text {
            self.next().await?;
        }
        Ok(())
    }

    async fn friend_sees_only(&mut self, texts: &[&str]) -> anyhow::Result<()> {
        while !self.draft.is_empty() || !self.shown.iter().map(|(_, text)| text).eq(texts) {
            self.next().await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Oddities for Harness {
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
async fn it_keeps_the_promises_of_a_channel() {
    let open = async || Ok(Harness::at(channel(with_token())));
    let gaps = conformance::channel(open).await.unwrap();
    let gaps: Vec<_> = gaps.into_iter().map(|gap| gap.ability).collect();
    assert_eq!(gaps, ["rooms", "incoming files", "outgoing files", "send faults", "pulse", "credentials", "rivals"]);
}
