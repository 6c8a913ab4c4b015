//! The platform: a REST API and a stream on loopback, one connection at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use anyhow::Context as _;
use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{TaskTracker, Value};
use nanobot_testkit::Watched;
use nanobot_testkit::conformance::SendFault;
use nanobot_testkit::http::{Request, Response, ResponseStep, Server};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request as Handshake, Response as Accepted,
};

/// The only token that Beacon accepts.
pub(crate) const TOKEN: &str = "beacon-token-91d2";

/// State of the platform.
#[derive(Default)]
pub(crate) struct BeaconState {
    /// Address of the stream.
    stream: String,
    /// Frames of the stream, in order. A string is sent unquoted.
    pub(crate) frames: Vec<Value>,
    acknowledged: BTreeSet<String>,
    /// Messages of the bot: key, room, text.
    pub(crate) posts: Vec<(String, String, String)>,
    /// Files by id.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) downloads: usize,
    pub(crate) fault: Option<SendFault>,
    pub(crate) has_broken_download: bool,
    pub(crate) is_stalled: bool,
    pub(crate) is_revoked: bool,
    tickets: BTreeSet<String>,
    cuts: u64,
}

impl BeaconState {
    /// Returns `true` if a message has been acknowledged.
    pub(crate) fn is_acknowledged(&self, frame: &Value) -> bool {
        let id = frame["message"]["id"].as_str();
        id.is_some_and(|id| self.acknowledged.contains(id))
    }

    fn answer(&mut self, request: &Request) -> Response {
        let token = request.header("authorization").unwrap_or_default();
        if self.is_revoked || token != format!("Bearer {TOKEN}") {
            return refusal(401, "bad_token");
        }
        match (request.method.as_str(), request.path()) {
            ("POST", "/v1/me") => Response::json(200, &json!({"name": "Lamp"})),
            ("POST", "/v1/stream") => {
                let ticket = format!("/stream?ticket-{}", self.tickets.len());
                let url = format!("{}{ticket}", self.stream);
                self.tickets.insert(ticket);
                Response::json(200, &json!({"url": url}))
            }
            ("POST", "/v1/send") => self.send(&request.json()),
            ("GET", "/v1/file") => self.download(request),
            _ => refusal(404, "no_such_method"),
        }
    }

    fn send(&mut self, post: &Value) -> Response {
        let fault = self.fault.take();
        match fault {
            Some(SendFault::RateLimited) => {
                let pause = SendFault::PAUSE_SECONDS.to_string();
                return refusal(429, "too_fast").with_header("retry-after", pause);
            }
            Some(SendFault::Broken) => return Response::bytes(502, "text/html", "<p>Bad gateway"),
            Some(SendFault::Refused) => return refusal(400, "forbidden_word"),
            Some(SendFault::ChatGone) => return refusal(404, "no_such_room"),
            Some(SendFault::TooLarge) => return refusal(413, "too_large"),
            Some(SendFault::Unauthorized) => return refusal(401, "bad_token"),
            Some(SendFault::CutAfterEffect) | None => {}
        }
        let text = |name: &str| post[name].as_str().map(str::to_owned);
        let (Some(key), Some(room), Some(text)) = (text("key"), text("room"), text("text")) else {
            return refusal(400, "missing_field");
        };
        if !self.posts.iter().any(|(known, _, _)| *known == key) {
            self.posts.push((key.clone(), room, text));
        }
        if fault.is_some() {
            return Response::headless(vec![ResponseStep::Reset]);
        }
        Response::json(200, &json!({"id": key}))
    }

    fn download(&mut self, request: &Request) -> Response {
        self.downloads += 1;
        if std::mem::take(&mut self.has_broken_download) {
            return refusal(500, "internal_error");
        }
        let query = request.query();
        let file = query.iter().find(|(name, _)| name == "id");
        match file.and_then(|(_, id)| self.files.get(id)) {
            Some(bytes) => Response::bytes(200, "application/octet-stream", bytes.clone()),
            None => refusal(404, "no_such_file"),
        }
    }
}

fn refusal(status: u16, word: &str) -> Response {
    Response::json(status, &json!({"error": word}))
}

/// A running platform; it stops when dropped.
pub(crate) struct Platform {
    pub(crate) server: Server,
    pub(crate) state: Watched<BeaconState>,
    streams: tokio::task::JoinHandle<()>,
}

impl Platform {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let state = Watched::new(BeaconState {
            stream: format!("ws://{}", listener.local_addr()?),
            ..BeaconState::default()
        });
        let shared = state.clone();
        let server = Server::start(move |request| {
            let response = shared.change(|state| state.answer(&request));
            async move { response }
        });
        Ok(Self {
            server: server.await?,
            streams: TaskTracker::new().spawn(serve_streams(listener, state.clone())),
            state,
        })
    }

    /// Adds a frame to the stream.
    pub(crate) fn push(&self, frame: Value) {
        self.state.change(|state| state.frames.push(frame));
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        self.server.cut();
        self.state.change(|state| state.cuts += 1);
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.streams.abort();
    }
}

async fn serve_streams(listener: TcpListener, state: Watched<BeaconState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let cuts = state.read(|state| state.cuts);
        tokio::select! {
            () = state.reached(|state| state.cuts != cuts) => {}
            // However a connection ends, the next one is served.
            _end = serve_stream(stream, &state) => {}
        }
    }
}

async fn serve_stream(stream: TcpStream, state: &Watched<BeaconState>) -> anyhow::Result<()> {
    let shared = state.clone();
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check_ticket = move |request: &Handshake, response: Accepted| {
        let ticket = request.uri().to_string();
        match shared.change(|state| state.tickets.contains(&ticket)) {
            true => Ok(response),
            false => Err(ErrorResponse::new(Some("unknown ticket".to_owned()))),
        }
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, check_ticket).await?;
    let mut changed = state.subscribe();
    // Messages that were not acknowledged on earlier connections are sent again.
    let mut sent = 0;
    let earlier = state.read(|state| state.frames.len());
    loop {
        state.reached(|state| !state.is_stalled).await;
        changed.mark_unchanged();
        let due = state.read(|state| {
            let frames = state.frames.iter().enumerate().skip(sent);
            let due = frames.filter(|(at, frame)| *at >= earlier || !state.is_acknowledged(frame));
            due.map(|(_, frame)| frame.clone()).collect::<Vec<Value>>()
        });
        sent = state.read(|state| state.frames.len());
        for frame in due {
            let text = frame
                .as_str()
                .map_or_else(|| frame.to_string(), str::to_owned);
            socket.send(Message::text(text)).await?;
        }
        tokio::select! {
            frame = socket.next() => match frame.context("the channel left")?? {
                Message::Text(text) => acknowledge(state, text.as_str())?,
                Message::Close(_) => return Ok(()),
                _ => {}
            },
            changed = changed.changed() => changed?,
        }
    }
}

fn acknowledge(state: &Watched<BeaconState>, frame: &str) -> anyhow::Result<()> {
    let frame: Value = serde_json::from_str(frame)?;
    let id = frame["ack"]
        .as_str()
        .context("an unknown frame")?
        .to_owned();
    state.change(|state| state.acknowledged.insert(id));
    Ok(())
}
