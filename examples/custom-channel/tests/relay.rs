//! The channel against a relay on loopback, held to the public suite of all channels.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use custom_channel::RelayFactory;
use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{
    Channel, ChannelFactory as _, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, OutboundPart, RawConfig,
    SendRecovery, SenderId, TaskTracker, Value, async_trait,
};
use nanobot_testkit::WAIT_LIMIT;
use nanobot_testkit::conformance::{self, ChannelHarness};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::codec::{Framed, LinesCodec};

const TOKEN: &str = "relay-token-5f1c";

/// What the relay knows.
#[derive(Default)]
struct Board {
    /// Messages to the channel, in the order in which they are offered.
    offered: Vec<Value>,
    acknowledged: Vec<String>,
    /// Parts by key: to whom, and what.
    shown: Vec<(String, String, String)>,
}

/// The platform: it takes one connection and goes with its harness.
struct Relay {
    channel: Arc<dyn Channel>,
    board: Arc<watch::Sender<Board>>,
    last: Value,
    served: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Relay {
    async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let section = json!({"enabled": true, "server": listener.local_addr()?.to_string(), "token": TOKEN});
        let channel = RelayFactory.create("relay".into(), &RawConfig::new(section))?;
        let board = Arc::new(watch::Sender::new(Board::default()));
        let served = TaskTracker::new().spawn(serve(listener, Arc::clone(&board)));
        Ok(Self { channel, board, last: Value::Null, served })
    }

    fn message(&mut self, sender: &str, text: &str) {
        let number = self.board.borrow().offered.len();
        self.last = json!({"id": format!("m{number}"), "sender": sender, "text": text});
        self.board.send_modify(|board| board.offered.push(self.last.clone()));
    }

    async fn wait_for(&self, what: &str, mut seen: impl FnMut(&Board) -> bool) -> anyhow::Result<()> {
        let mut board = self.board.subscribe();
        let found = tokio::time::timeout(WAIT_LIMIT, board.wait_for(|board| seen(board))).await;
        found.with_context(|| format!("waited in vain for {what}"))??;
        Ok(())
    }

    fn shown_to(&self, person: &str) -> Vec<String> {
        let board = self.board.borrow();
        board.shown.iter().filter(|(_, to, _)| to == person).map(|(_, _, text)| text.clone()).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn serve(listener: TcpListener, board: Arc<watch::Sender<Board>>) -> anyhow::Result<()> {
    let (stream, _) = listener.accept().await?;
    let mut wire = Framed::new(stream, LinesCodec::new());
    let hello: Value = serde_json::from_str(&wire.next().await.context("no token")??)?;
    ensure!(hello == json!({"token": TOKEN}), "the first line is {hello}");
    let mut news = board.subscribe();
    let mut sent = 0;
    loop {
        let waiting: Vec<Value> = news.borrow_and_update().offered.iter().skip(sent).cloned().collect();
        for line in waiting {
            wire.send(line.to_string()).await?;
            sent += 1;
        }
        tokio::select! {
            line = wire.next() => answer(&mut wire, &board, &line.context("the channel hung up")??).await?,
            changed = news.changed() => changed?,
        }
    }
}

async fn answer(
    wire: &mut Framed<TcpStream, LinesCodec>,
    board: &watch::Sender<Board>,
    line: &str,
) -> anyhow::Result<()> {
    let said: Value = serde_json::from_str(line)?;
    if let Some(id) = said["ack"].as_str() {
        board.send_modify(|board| board.acknowledged.push(id.to_owned()));
        return Ok(());
    }
    let text = |name: &str| said[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {said}"));
    let part = (text("key")?, text("to")?, text("text")?);
    let taken = json!({"taken": part.0});
    board.send_modify(|board| {
        if !board.shown.iter().any(|(key, _, _)| *key == part.0) {
            board.shown.push(part);
        }
    });
    Ok(wire.send(taken.to_string()).await?)
}

#[async_trait]
impl ChannelHarness for Relay {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        "ann".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.message("ann", text);
        Ok(())
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.message("mallory", text);
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.shown_to("mallory"))
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        self.board.send_modify(|board| board.offered.push(self.last.clone()));
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.board.borrow().acknowledged.iter().any(|id| self.last["id"] == **id))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        self.wait_for("an acknowledgement", |board| board.acknowledged.iter().any(|id| self.last["id"] == **id)).await
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        self.wait_for("parts", |board| board.shown.len() >= count).await?;
        Ok(self.shown_to("ann"))
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }
}

#[tokio::test]
async fn the_channel_keeps_every_promise() {
    conformance::channel(Relay::open).await.unwrap();
}

#[tokio::test]
async fn without_a_connection_a_part_has_surely_not_arrived() {
    let relay = Relay::open().await.unwrap();
    let inbound = InboundMessage::text("relay", "ann", "ann", "hi");
    let key = OutboundKey { turn: "turn".into(), position: 0 };
    let message = OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, "hello".to_owned());
    let (text, plain) = ("hello".to_owned(), "hello".to_owned());
    let part = OutboundPart { message: Arc::new(message), index: 0, count: 1, text, plain };
    let error = relay.channel.send(&part).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Retry { after: None }, "{error}");
}
