//! WeCom's gateway: the address, the credentials and the current connection.
//!
//! Decision: commands go through the connection of the run. Without one they fail at once: a
//! subscription would take the messages away from another program.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::{Downloads, IpNet, Rest, WebSocket};
use reqwest::{Response, Url};
use serde_json::json;
use tokio::sync::mpsc;

use crate::command::Command;
use crate::config::WS_URL;
use crate::error::CallError;
use crate::{Secret, WeComConfig};

/// The time that the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// The time that the answer to a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Normal closure (RFC 6455).
const NORMAL: u16 = 1000;

/// The gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    rest: Rest,
    downloads: Downloads,
    address: String,
    bot_id: String,
    secret: Secret,
    current: Mutex<Current>,
    /// The beginning of the ids of this process.
    seed: String,
    count: AtomicU64,
}

/// The current connection.
#[derive(Debug, Default)]
struct Current {
    number: u64,
    commands: Option<mpsc::Sender<Command>>,
    /// The reason why WeCom rejects the credentials.
    rejected: Option<String>,
}

impl Gateway {
    /// Creates the gateway. Does no I/O.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub(crate) fn new(
        config: &WeComConfig,
        shared_proxy: Option<&str>,
        opened: &[IpNet],
    ) -> Result<Self, ChannelError> {
        let address = config.ws_url().to_owned();
        let own_proxy = config.proxy.as_ref().map(Secret::expose);
        let base = address.replacen("ws", "http", 1);
        let rest = || {
            let proxy = ProxyMode::new(own_proxy, shared_proxy)?;
            let rest = Rest::new(&base, WS_URL, proxy, config.request_timeout())?;
            Ok::<_, ChannelError>(rest.redacting(&config.secret))
        };
        let downloads = Downloads::new(rest()?, own_proxy.or(shared_proxy), opened);
        Ok(Self {
            rest: rest()?,
            // Files are not at the port of the gateway.
            downloads: downloads.with_local_ports(),
            address,
            bot_id: config.bot_id.clone(),
            secret: config.secret.clone(),
            current: Mutex::default(),
            seed: format!("{:016x}", RandomState::new().build_hasher().finish()),
            count: AtomicU64::new(0),
        })
    }

    /// Opens a connection without a subscription.
    pub(crate) async fn handshake(&self) -> Result<WebSocket, CallError> {
        WebSocket::open(&self.rest, &self.address, HANDSHAKE_TIMEOUT).await
    }

    /// Returns the body of the subscription. It holds the secret.
    pub(crate) fn subscription(&self) -> Value {
        json!({"bot_id": self.bot_id, "secret": self.secret.expose_exact()})
    }

    /// Makes a subscribed connection the current one. Returns its number.
    pub(crate) fn connected(&self, commands: mpsc::Sender<Command>) -> u64 {
        let mut current = self.current();
        *current = Current {
            number: current.number + 1,
            commands: Some(commands),
            rejected: None,
        };
        current.number
    }

    /// Returns the number of the current or the last connection.
    pub(crate) fn connection(&self) -> u64 {
        self.current().number
    }

    /// Notes that WeCom rejects the credentials, if this is the reason.
    pub(crate) fn observe(&self, error: &ChannelError) {
        if let ChannelError::Auth(why) = error {
            self.current().rejected = Some(why.clone());
        }
    }

    /// Returns the account, as far as it can be checked without a subscription.
    ///
    /// # Errors
    /// [`ChannelError::Auth`] if the credentials were rejected, [`ChannelError::Unavailable`] if
    /// the gateway cannot be reached.
    pub(crate) async fn account(&self) -> Result<String, ChannelError> {
        {
            let current = self.current();
            if let Some(why) = &current.rejected {
                return Err(ChannelError::Auth(why.clone()));
            }
            let mut commands = current.commands.iter();
            if commands.any(|commands| !commands.is_closed()) {
                return Ok(self.bot_id.clone());
            }
        }
        let socket = self.handshake().await;
        socket.map_err(CallError::repeatable)?.close(NORMAL).await;
        let bot_id = &self.bot_id;
        Ok(format!(
            "{bot_id} (the secret is checked when `nanobot gateway` connects)"
        ))
    }

    /// Makes a call and returns the body of its answer.
    pub(crate) async fn call(&self, cmd: &'static str, body: Value) -> Result<Value, CallError> {
        let req_id = self.new_id(cmd);
        self.send(cmd, req_id, body, self.rest.timeout()).await
    }

    /// Replies to a callback.
    pub(crate) async fn reply(
        &self,
        cmd: &'static str,
        req_id: &str,
        body: Value,
    ) -> Result<(), CallError> {
        let patience = self.reply_timeout();
        let sent = self.send(cmd, req_id.to_owned(), body, patience).await;
        sent.map(drop)
    }

    /// Returns the time that the answer to a reply may take.
    pub(crate) fn reply_timeout(&self) -> Duration {
        REPLY_TIMEOUT.min(self.rest.timeout())
    }

    /// Returns the time that the answer to any other command may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.rest.timeout()
    }

    async fn send(
        &self,
        cmd: &'static str,
        req_id: String,
        body: Value,
        patience: Duration,
    ) -> Result<Value, CallError> {
        let commands = self.current().commands.clone();
        let unreachable =
            || CallError::Unreachable("there is no connection to WeCom now".to_owned());
        let commands = commands.ok_or_else(unreachable)?;
        let (command, reply) = Command::new(cmd, req_id, body, patience);
        let submitted = tokio::time::timeout(patience, commands.send(command)).await;
        if !matches!(submitted, Ok(Ok(()))) {
            return Err(unreachable());
        }
        let answer = reply.wait(patience).await;
        answer.map_err(|error| self.scrubbed(error))
    }

    /// Begins a download from an address that WeCom gave.
    pub(crate) async fn download(&self, address: Url) -> Result<Response, CallError> {
        self.downloads.begin(&self.rest, address).await
    }

    /// Reads the body of a download; `None` when it is larger than `limit` bytes.
    pub(crate) async fn body_within(
        &self,
        response: Response,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, CallError> {
        self.rest.body_within(response, limit).await
    }

    /// Returns an id that no other command or stream has.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}_{}_{count}", self.seed)
    }

    /// Removes the secret from the texts of an error.
    pub(crate) fn scrubbed(&self, error: CallError) -> CallError {
        match error {
            CallError::Refused(refusal) => {
                CallError::Refused(refusal.with_text(|text| self.rest.scrub(text)))
            }
            CallError::Unreachable(why) => CallError::Unreachable(self.rest.scrub(&why)),
            error => error,
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
