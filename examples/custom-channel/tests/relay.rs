//! The channel against a relay on loopback, held to the public suite of all channels.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use custom_channel::RelayFactory;
use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{
    Channel, ChannelFactory as _, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, OutboundPart, RawConfig,
    SendRecovery, SenderId, TaskTracker, Value, async_trait,
};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, Credentials, Oddities, Pairing, Pulse, Redelivery, SendFault, SendFaults, Transport,
};
use nanobot_testkit::{ReservedPort, TestkitError, Watched, abilities};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::codec::{Framed, LinesCodec};

const TOKEN: &str = "relay-token-5f1c";

/// What the relay knows, and how it is.
#[derive(Default)]
struct Board {
    /// Lines to the channel, in order. Messages have an id; a string stands for itself.
    lines: Vec<Value>,
    acknowledged: BTreeSet<String>,
    /// Parts by key: to whom, and what.
    shown: Vec<(String, String, String)>,
    fault: Option<SendFault>,
    is_down: bool,
    listens: bool,
    is_stalled: bool,
    forgot_the_token: bool,
    cuts: u64,
}

impl Board {
    /// Whether a message was acknowledged.
    fn knows(&self, message: &Value) -> bool {
        message["id"].as_str().is_some_and(|id| self.acknowledged.contains(id))
    }
}

/// The platform: it takes one connection at a time and goes with its harness.
struct Relay {
    channel: Arc<dyn Channel>,
    section: Value,
    board: Watched<Board>,
    said: usize,
    last: Value,
    served: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Relay {
    async fn open() -> anyhow::Result<Self> {
        let port = ReservedPort::new()?;
        let section = json!({"enabled": true, "server": port.address().to_string(), "token": TOKEN});
        let channel = RelayFactory.create("relay".into(), &RawConfig::new(section.clone()))?;
        let board = Watched::new(Board::default());
        let served = TaskTracker::new().spawn(serve(port, board.clone()));
        let relay = Self { channel, section, board, said: 0, last: Value::Null, served };
        relay.wait_for("the relay to listen", |board| board.listens).await?;
        Ok(relay)
    }

    fn line(&self, line: Value) {
        self.board.change(|board| board.lines.push(line));
    }

    fn message(&mut self, sender: &str, text: &str) {
        self.said += 1;
        self.last = json!({"id": format!("m{}", self.said), "sender": sender, "text": text});
        self.line(self.last.clone());
    }

    async fn wait_for(&self, what: &str, seen: impl Fn(&Board) -> bool) -> Result<(), TestkitError> {
        self.board.wait_for(what, |board| seen(board).then_some(())).await
    }

    fn shown_to(&self, person: &str) -> Vec<String> {
        let to_person = |(_, to, text): &(String, String, String)| (to == person).then(|| text.clone());
        self.board.read(|board| board.shown.iter().filter_map(to_person).collect())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// Listens, except while the relay is down.
async fn serve(port: ReservedPort, board: Watched<Board>) -> anyhow::Result<()> {
    loop {
        board.reached(|board| !board.is_down).await;
        let listener = TcpListener::bind(port.address()).await?;
        board.change(|board| board.listens = true);
        loop {
            tokio::select! {
                biased;
                () = board.reached(|board| board.is_down) => break,
                accepted = listener.accept() => until_cut(accepted?.0, &board).await,
            }
        }
        drop(listener);
        board.change(|board| board.listens = false);
    }
}

async fn until_cut(stream: TcpStream, board: &Watched<Board>) {
    let cuts = board.read(|board| board.cuts);
    tokio::select! {
        () = board.reached(|board| board.cuts != cuts) => {}
        // However a connection ends, the next one is served.
        _ended = converse(stream, board) => {}
    }
}

async fn converse(stream: TcpStream, board: &Watched<Board>) -> anyhow::Result<()> {
    let mut wire = Framed::new(stream, LinesCodec::new());
    let hello: Value = serde_json::from_str(&wire.next().await.context("no token")??)?;
    if hello != json!({"token": TOKEN}) || board.read(|board| board.forgot_the_token) {
        return Ok(wire.send(json!({"denied": "unknown token"}).to_string()).await?);
    }
    let mut news = board.subscribe();
    // What was not acknowledged on earlier connections comes again.
    let mut sent = 0;
    let earlier = board.read(|board| board.lines.len());
    loop {
        board.reached(|board| !board.is_stalled).await;
        news.mark_unchanged();
        let (waiting, total) = board.read(|board| {
            let is_due = |(at, line): &(usize, &Value)| *at >= earlier || !board.knows(line);
            let due = board.lines.iter().enumerate().skip(sent).filter(is_due).map(|(_, line)| line.clone());
            (due.collect::<Vec<Value>>(), board.lines.len())
        });
        sent = total;
        for line in waiting {
            wire.send(line.as_str().map_or_else(|| line.to_string(), str::to_owned)).await?;
        }
        tokio::select! {
            line = wire.next() => answer(&mut wire, board, &line.context("the channel hung up")??).await?,
            changed = news.changed() => changed?,
        }
    }
}

async fn answer(wire: &mut Framed<TcpStream, LinesCodec>, board: &Watched<Board>, line: &str) -> anyhow::Result<()> {
    let said: Value = serde_json::from_str(line)?;
    if let Some(id) = said["ack"].as_str() {
        board.change(|board| board.acknowledged.insert(id.to_owned()));
        return Ok(());
    }
    let text = |name: &str| said[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {said}"));
    let part = (text("key")?, text("to")?, text("text")?);
    let fault = board.change(|board| board.fault.take());
    if fault == Some(SendFault::Refused) {
        return Ok(wire.send(json!({"refused": part.0, "why": "not that"}).to_string()).await?);
    }
    let taken = json!({"taken": part.0});
    board.change(|board| {
        if !board.shown.iter().any(|(key, _, _)| *key == part.0) {
            board.shown.push(part);
        }
    });
    ensure!(fault.is_none(), "the connection breaks here");
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
        self.line(self.last.clone());
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.board.read(|board| board.knows(&self.last)))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.wait_for("an acknowledgement", |board| board.knows(&self.last)).await?)
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        self.wait_for("parts", |board| board.shown.len() >= count).await?;
        Ok(self.shown_to("ann"))
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }

    abilities! {
        redelivery,
        rooms: "every chat of the relay is one person's",
        pairing,
        incoming_files: "the relay carries text only",
        outgoing_files: "the relay carries text only",
        send_faults,
        transport,
        pulse,
        draft_view: "what the relay has shown does not change",
        oddities,
        credentials,
        rivals: "the relay takes one connection at a time, and another program waits for its end",
    }
}

#[async_trait]
impl Redelivery for Relay {
    async fn reopen(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        self.channel = RelayFactory.create("relay".into(), &RawConfig::new(self.section.clone()))?;
        Ok(Arc::clone(&self.channel))
    }

    async fn repeat(&mut self) -> anyhow::Result<()> {
        self.line(self.last.clone());
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.message("ann", later);
        self.message("ann", earlier);
        Ok(())
    }
}

#[async_trait]
impl Pairing for Relay {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        self.wait_for("something for the stranger", |board| !board.shown.is_empty()).await?;
        Ok(self.shown_to("mallory"))
    }
}

#[async_trait]
impl SendFaults for Relay {
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged> {
        if !matches!(fault, SendFault::Refused | SendFault::CutAfterEffect) {
            return Ok(Arranged::Impossible("the relay takes a part or refuses it"));
        }
        self.board.change(|board| board.fault = Some(fault));
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl Transport for Relay {
    async fn cut(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| board.cuts += 1);
        Ok(())
    }

    async fn go_down(&mut self) -> anyhow::Result<Arranged> {
        self.board.change(|board| {
            board.is_down = true;
            board.cuts += 1;
        });
        self.wait_for("the relay to go down", |board| !board.listens).await?;
        Ok(Arranged::Done)
    }

    async fn come_back(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| board.is_down = false);
        Ok(self.wait_for("the relay to come back", |board| board.listens).await?)
    }
}

#[async_trait]
impl Pulse for Relay {
    async fn beat(&mut self) -> anyhow::Result<()> {
        self.line(json!({"ping": 1}));
        Ok(())
    }

    async fn stall(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| board.is_stalled = true);
        Ok(())
    }

    async fn recover(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| board.is_stalled = false);
        Ok(())
    }
}

#[async_trait]
impl Oddities for Relay {
    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = [
            json!(""),
            json!("nonsense"),
            json!({}),
            json!([]),
            json!({"id": 7, "sender": null, "text": []}),
            json!({"id": "m", "sender": "ann"}),
            json!({"taken": "what nobody sent"}),
            json!({"refused": "what nobody sent", "why": "why not"}),
            json!({"news": "of tomorrow"}),
        ];
        let count = odd.len();
        odd.into_iter().for_each(|line| self.line(line));
        Ok(count)
    }
}

#[async_trait]
impl Credentials for Relay {
    async fn revoke(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| {
            board.forgot_the_token = true;
            board.cuts += 1;
        });
        Ok(())
    }

    async fn restore(&mut self) -> anyhow::Result<()> {
        self.board.change(|board| board.forgot_the_token = false);
        Ok(())
    }
}

#[tokio::test]
async fn the_channel_keeps_every_promise() {
    let gaps = conformance::channel(Relay::open).await.unwrap();
    let gaps: Vec<_> = gaps.into_iter().map(|gap| gap.ability).collect();
    let expected = [
        "rooms",
        "incoming files",
        "outgoing files",
        "draft view",
        "rivals",
        "send faults: rate limited",
        "send faults: broken",
        "send faults: chat gone",
        "send faults: too large",
        "send faults: unauthorized",
    ];
    assert_eq!(gaps, expected);
}

#[tokio::test]
async fn without_a_connection_a_part_has_surely_not_arrived() {
    let relay = Relay::open().await.unwrap();
    let inbound = InboundMessage::text("relay", "ann", "ann", "hi");
    let key = OutboundKey { turn: "turn".into(), position: 0 };
    let message = OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, "hello".to_owned());
    let (text, plain, blocks) = ("hello".to_owned(), "hello".to_owned(), Vec::new());
    let part = OutboundPart { message: Arc::new(message), index: 0, count: 1, text, plain, blocks, in_doubt: false };
    let error = relay.channel.send(&part).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Retry { after: None }, "{error}");
}
