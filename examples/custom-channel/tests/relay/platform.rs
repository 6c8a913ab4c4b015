//! The platform: a relay on loopback that takes one connection at a time.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{TaskTracker, Value};
use nanobot_testkit::conformance::SendFault;
use nanobot_testkit::{ReservedPort, TestkitError, Watched};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::codec::{Framed, LinesCodec};

/// The only token that the relay accepts.
pub(crate) const TOKEN: &str = "relay-token-5f1c";

/// State of the relay.
#[derive(Default)]
pub(crate) struct Board {
    /// Lines for the channel, in order. Messages have an id; a string is sent unquoted.
    pub(crate) lines: Vec<Value>,
    acknowledged: BTreeSet<String>,
    /// Parts shown: key, recipient, text.
    pub(crate) shown: Vec<(String, String, String)>,
    pub(crate) fault: Option<SendFault>,
    is_down: bool,
    listens: bool,
    pub(crate) is_stalled: bool,
    pub(crate) forgot_the_token: bool,
    cuts: u64,
}

impl Board {
    /// Returns `true` if a message has been acknowledged.
    pub(crate) fn knows(&self, message: &Value) -> bool {
        message["id"]
            .as_str()
            .is_some_and(|id| self.acknowledged.contains(id))
    }
}

/// A running relay; it stops when dropped.
pub(crate) struct Relay {
    pub(crate) server: String,
    pub(crate) board: Watched<Board>,
    served: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Relay {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let port = ReservedPort::new()?;
        let (server, board) = (port.address().to_string(), Watched::new(Board::default()));
        let served = TaskTracker::new().spawn(serve(port, board.clone()));
        let relay = Self {
            server,
            board,
            served,
        };
        relay
            .wait_for("the relay to listen", |board| board.listens)
            .await?;
        Ok(relay)
    }

    /// Queues a line for the channel.
    pub(crate) fn line(&self, line: Value) {
        self.board.change(|board| board.lines.push(line));
    }

    /// Cuts the connection.
    pub(crate) fn cut(&self) {
        self.board.change(|board| board.cuts += 1);
    }

    /// Cuts the connection and accepts no new ones.
    pub(crate) async fn go_down(&self) -> Result<(), TestkitError> {
        self.board.change(|board| {
            board.is_down = true;
            board.cuts += 1;
        });
        self.wait_for("the relay to go down", |board| !board.listens)
            .await
    }

    /// Accepts connections again, at the same address.
    pub(crate) async fn come_back(&self) -> Result<(), TestkitError> {
        self.board.change(|board| board.is_down = false);
        self.wait_for("the relay to come back", |board| board.listens)
            .await
    }

    /// Waits until the state of the relay satisfies `seen`.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        seen: impl Fn(&Board) -> bool,
    ) -> Result<(), TestkitError> {
        self.board
            .wait_for(what, |board| seen(board).then_some(()))
            .await
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
        return Ok(wire
            .send(json!({"denied": "unknown token"}).to_string())
            .await?);
    }
    let mut news = board.subscribe();
    // Messages that were not acknowledged on earlier connections are sent again.
    let mut sent = 0;
    let earlier = board.read(|board| board.lines.len());
    loop {
        board.reached(|board| !board.is_stalled).await;
        news.mark_unchanged();
        let (waiting, total) = board.read(|board| {
            let is_due = |(at, line): &(usize, &Value)| *at >= earlier || !board.knows(line);
            let due = board
                .lines
                .iter()
                .enumerate()
                .skip(sent)
                .filter(is_due)
                .map(|(_, line)| line.clone());
            (due.collect::<Vec<Value>>(), board.lines.len())
        });
        sent = total;
        for line in waiting {
            wire.send(
                line.as_str()
                    .map_or_else(|| line.to_string(), str::to_owned),
            )
            .await?;
        }
        tokio::select! {
            line = wire.next() => answer(&mut wire, board, &line.context("the channel hung up")??).await?,
            changed = news.changed() => changed?,
        }
    }
}

async fn answer(
    wire: &mut Framed<TcpStream, LinesCodec>,
    board: &Watched<Board>,
    line: &str,
) -> anyhow::Result<()> {
    let said: Value = serde_json::from_str(line)?;
    if let Some(id) = said["ack"].as_str() {
        board.change(|board| board.acknowledged.insert(id.to_owned()));
        return Ok(());
    }
    let text = |name: &str| {
        said[name]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no {name} in {said}"))
    };
    let part = (text("key")?, text("to")?, text("text")?);
    let fault = board.change(|board| board.fault.take());
    if fault == Some(SendFault::Refused) {
        return Ok(wire
            .send(json!({"refused": part.0, "why": "not that"}).to_string())
            .await?);
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
