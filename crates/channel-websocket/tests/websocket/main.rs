//! The channel on real sockets: the contract's suite, and the protocol.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]

mod protocol;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, ChannelName, SenderId, Value, async_trait};
use nanobot_channel_websocket::{Token, WebSocketChannel, WebSocketConfig};
use nanobot_testkit::conformance::{self, ChannelHarness};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, WebSocketClient};
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

/// A friend who keeps one connection and sends again what was not taken, as a client should.
struct Harness {
    channel: Arc<WebSocketChannel>,
    friend: Option<WebSocketClient>,
    last: Value,
    acknowledged: Vec<Value>,
    shown: Vec<String>,
    waiting: Vec<String>,
}

impl Harness {
    async fn friend(&mut self) -> anyhow::Result<&mut WebSocketClient> {
        if self.friend.is_none() {
            let mut client = connect(&self.channel, "client_id=friend&chat_id=room").await?;
            client.receive_until("ready").await?;
            self.friend = Some(client);
        }
        self.friend.as_mut().context("just connected")
    }

    async fn next(&mut self) -> anyhow::Result<Value> {
        let event = self.friend().await?.receive().await?;
        match event["event"].as_str() {
            Some("ack") => self.acknowledged.push(event["id"].clone()),
            Some("message") => self.shown.push(event["text"].as_str().unwrap().to_owned()),
            _ => {}
        }
        Ok(event)
    }

    async fn say(&mut self) -> anyhow::Result<()> {
        let last = self.last.clone();
        Ok(self.friend().await?.send(&last).await?)
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
        self.last = json!({ "content": text, "id": format!("id-{text}").replace(' ', "-") });
        self.say().await
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        let mut stranger = connect(&self.channel, "client_id=stranger").await?;
        // The server may have hung up already.
        let sent = stranger.send_text(text).await;
        let events = stranger.receive_until("error").await?;
        sent.ok();
        let noticed = events.iter().filter(|event| event["event"] != "error").map(Value::to_string);
        self.waiting.extend(noticed);
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.waiting.clone())
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        while self.next().await?["event"] != "error" {}
        self.say().await
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
        Ok(self.shown.clone())
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }
}

#[tokio::test]
async fn it_keeps_the_promises_of_a_channel() {
    let open = async || {
        let channel = channel(with_token());
        let (acknowledged, shown, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Harness { channel, friend: None, last: Value::Null, acknowledged, shown, waiting })
    };
    conformance::channel(open).await.unwrap();
}
