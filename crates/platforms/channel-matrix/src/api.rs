//! Calls of the client-server API.
//!
//! Decision: parts of a path are percent-encoded one by one, because room ids come from the
//! homeserver and may contain any character. Of answers only what is needed is read. A session that
//! the homeserver ended is replaced by a new login, if there is a password; otherwise the channel
//! needs a person.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use nanobot_channel::json::{self, MemoryEstimate};
use nanobot_channel::{ChannelError, ChannelName, Value};
use nanobot_channel_kit::call::retry_after;
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::FILE_TIMEOUT;
use nanobot_channel_kit::{Rest, wrong};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::json;
use tokio::sync::Mutex;

use crate::config::HOMESERVER;
use crate::error::{CallError, Refusal, from_answer};
use crate::session::{self, Session};
use crate::{MatrixConfig, Secret};

/// The name of the device of a login by password.
const DEVICE_NAME: &str = "nanobot";
/// Largest answer to a sync, in bytes.
const SYNC_LIMIT: u64 = 32 << 20;
/// Largest estimated memory of an answer to a sync, in bytes.
const SYNC_MEMORY: usize = 96 << 20;

/// Largest estimated memory of the content of an event, in bytes. An event has at most 65,536 bytes.
const EVENT_MEMORY: usize = 256 << 10;

/// The parts of a path and of its query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    pub(crate) segments: &'a [&'a str],
    pub(crate) query: &'a [(&'a str, &'a str)],
}

impl<'a> Path<'a> {
    pub(crate) fn new(segments: &'a [&'a str]) -> Self {
        Self {
            segments,
            query: &[],
        }
    }
}

/// The answer to a sync.
#[derive(Debug)]
pub(crate) enum SyncAnswer {
    /// The parsed answer.
    Changes(Value),
    /// It is larger than what is read.
    TooLarge,
}

/// The homeserver, and the session to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    homeserver: String,
    user_id: String,
    device_id: String,
    token: Secret,
    password: Secret,
    /// The folder of the session.
    pub(crate) folder: Option<PathBuf>,
    session: Mutex<Option<Session>>,
}

impl Api {
    /// Creates the API by its configuration. Does no I/O.
    pub(crate) fn new(
        config: &MatrixConfig,
        name: &ChannelName,
        data_dir: Option<&std::path::Path>,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = ProxyMode::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?;
        let rest = Rest::new(
            &config.homeserver,
            HOMESERVER,
            proxy,
            config.request_timeout(),
        )
        .map_err(|error| match error {
            ChannelError::Config { key, message } if key == "apiBase" => {
                wrong("homeserver", &message)
            }
            error => error,
        })?;
        let rest = rest
            .redacting(&config.access_token)
            .redacting(&config.password);
        Ok(Self {
            homeserver: rest.base().to_string(),
            rest,
            user_id: config.user_id.clone(),
            device_id: config.device_id.clone(),
            token: config.access_token.clone(),
            password: config.password.clone(),
            folder: data_dir.map(|data| session::folder(data, name)),
            session: Mutex::new(None),
        })
    }

    /// Returns the name of the account in notes: the homeserver and the user.
    pub(crate) fn account_key(&self, user_id: &str) -> String {
        format!("{user_id} {}", self.homeserver)
    }

    /// Returns the session, logging in if it is needed.
    pub(crate) async fn session(&self) -> Result<Session, CallError> {
        let mut current = self.session.lock().await;
        if let Some(session) = &*current {
            return Ok(session.clone());
        }
        let found = match &self.folder {
            _ if !self.token.expose().is_empty() => Some(Session {
                user_id: self.user_id.clone(),
                device_id: self.device_id.clone(),
                token: Secret::new(self.token.expose()),
            }),
            Some(folder) => session::read(folder, &self.homeserver, &self.user_id).await,
            None => None,
        };
        let session = match found {
            Some(session) => session,
            None => self.log_in(&self.device_id).await?,
        };
        Ok(current.insert(session).clone())
    }

    /// Asks for the user and the device of the session.
    pub(crate) async fn identify(&self) -> Result<Session, CallError> {
        let path = Path::new(&["_matrix", "client", "v3", "account", "whoami"]);
        let me = self.call(Method::GET, path, None).await?;
        let text = |name: &str| me.get(name).and_then(Value::as_str).unwrap_or_default();
        let (user, device) = (text("user_id"), text("device_id"));
        if !crate::id::is_user_id(user) {
            let why = "the homeserver does not name the account".to_owned();
            return Err(CallError::Unreachable(why));
        }
        if !self.user_id.is_empty() && self.user_id != user {
            let why = format!(
                "the token belongs to {user}, and userId is {}",
                self.user_id
            );
            return Err(CallError::Refused(Refusal::own(why)));
        }
        let mut current = self.session.lock().await;
        let session = current.as_mut().ok_or_else(|| {
            CallError::Unreachable("the session ended meanwhile; it begins again".to_owned())
        })?;
        user.clone_into(&mut session.user_id);
        if session.device_id.is_empty() {
            device
                .chars()
                .take(255)
                .collect::<String>()
                .clone_into(&mut session.device_id);
        }
        Ok(session.clone())
    }

    /// Makes a call and returns its answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: Path<'_>,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let address = self.address(path)?;
        self.authorized(|| {
            let request = self.rest.request_to(method.clone(), address.clone())?;
            Ok(match body {
                Some(body) => request.json(body),
                None => request,
            })
        })
        .await
    }

    /// Sends a request of the encryption. Returns the status and the answer, also of a refusal.
    pub(crate) async fn forward(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), CallError> {
        let method: Method = method.parse().unwrap_or(Method::POST);
        let address = self.rest.address(path.trim_start_matches('/'))?;
        let session = self.session().await?;
        let request = self.rest.request_to(method, address)?;
        let request = request.bearer_auth(session.token.expose());
        let request = if body.is_null() {
            request
        } else {
            request.json(body)
        };
        let answer = self.rest.answer(request).await?;
        let value = value(&answer.body);
        let status = answer.status.as_u16();
        if answer.status == StatusCode::TOO_MANY_REQUESTS || answer.status.is_server_error() {
            return Err(self.refusal(answer.status, &answer.headers, &value, &session));
        }
        Ok((status, value))
    }

    /// Returns the answer to an interactive authentication by password; `None` without a password.
    pub(crate) async fn password_auth(&self, session: &str) -> Result<Option<Value>, CallError> {
        let password = self.password.expose_exact();
        if password.is_empty() {
            return Ok(None);
        }
        let user = self.session().await?.user_id;
        let mut auth = json!({
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password,
        });
        // A homeserver may authenticate without a session.
        if !session.is_empty()
            && let Some(members) = auth.as_object_mut()
        {
            members.insert("session".to_owned(), session.into());
        }
        Ok(Some(auth))
    }

    /// Uploads a file. Returns its `mxc://` address.
    pub(crate) async fn upload(
        &self,
        name: Option<&str>,
        mime: &str,
        bytes: Bytes,
    ) -> Result<String, CallError> {
        let query = name.map(|name| [("filename", name)]);
        let path = Path {
            segments: &["_matrix", "media", "v3", "upload"],
            query: query.as_ref().map(<[_; 1]>::as_slice).unwrap_or_default(),
        };
        let address = self.address(path)?;
        let answer = self
            .authorized(|| {
                let request = self.rest.request_to(Method::POST, address.clone())?;
                Ok(request
                    .header("Content-Type", mime)
                    .body(bytes.clone())
                    .timeout(self.rest.timeout() + FILE_TIMEOUT))
            })
            .await?;
        let address = answer.get("content_uri").and_then(Value::as_str);
        match address {
            Some(address) if address.starts_with("mxc://") => Ok(address.to_owned()),
            _ => Err(CallError::Misunderstood(
                "an upload has no address".to_owned(),
            )),
        }
    }

    /// Begins a download.
    pub(crate) async fn download(&self, path: Path<'_>) -> Result<Response, CallError> {
        let session = self.session().await?;
        let request = self.rest.request_to(Method::GET, self.address(path)?)?;
        let request = request
            .bearer_auth(session.token.expose())
            .timeout(self.rest.timeout() + FILE_TIMEOUT);
        self.rest.send(request).await
    }

    /// Waits for changes since a position. The answer is bounded.
    pub(crate) async fn sync(
        &self,
        query: &[(&str, &str)],
        wait: Duration,
    ) -> Result<SyncAnswer, CallError> {
        let path = Path {
            segments: &["_matrix", "client", "v3", "sync"],
            query,
        };
        let address = self.address(path)?;
        let mut is_renewed = false;
        loop {
            let session = self.session().await?;
            let request = self.rest.request_to(Method::GET, address.clone())?;
            let request = request.bearer_auth(session.token.expose());
            let request = request.timeout(self.rest.timeout() + wait);
            let response = self.rest.send(request).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let Some(body) = self.rest.body_within(response, SYNC_LIMIT).await? else {
                return Ok(SyncAnswer::TooLarge);
            };
            if status.is_success() {
                // One event must not make the others unreadable: anyone can send one to a device.
                let body = json::prune(&body, "content", EVENT_MEMORY);
                let mut estimate = MemoryEstimate::default();
                estimate.add(&body);
                if estimate.bytes() > SYNC_MEMORY {
                    return Ok(SyncAnswer::TooLarge);
                }
                return serde_json::from_slice(&body)
                    .map(SyncAnswer::Changes)
                    .map_err(|error| CallError::Misunderstood(error.to_string()));
            }
            let answer = value(&body);
            let error = self.refusal(status, &headers, &answer, &session);
            if is_renewed || !self.renew_session(&error, &session).await? {
                return Err(error);
            }
            is_renewed = true;
        }
    }

    /// Returns the address of a path.
    fn address(&self, path: Path<'_>) -> Result<Url, CallError> {
        let mut address = self.rest.base().clone();
        let unusable = || CallError::Setup("the homeserver has no usable address".to_owned());
        address
            .path_segments_mut()
            .map_err(|()| unusable())?
            .pop_if_empty()
            .extend(path.segments);
        if !path.query.is_empty() {
            address.query_pairs_mut().extend_pairs(path.query);
        }
        Ok(address)
    }

    /// Makes a call, and once more with a new session if the token was refused.
    async fn authorized(
        &self,
        request: impl Fn() -> Result<RequestBuilder, CallError>,
    ) -> Result<Value, CallError> {
        let session = self.session().await?;
        match self.judged(request()?, &session).await {
            Err(error) if self.renew_session(&error, &session).await? => {
                let session = self.session().await?;
                self.judged(request()?, &session).await
            }
            outcome => outcome,
        }
    }

    async fn judged(&self, request: RequestBuilder, session: &Session) -> Result<Value, CallError> {
        let request = request.bearer_auth(session.token.expose());
        let answer = self.rest.answer(request).await?;
        if answer.status.is_success() {
            return self.rest.read(&answer.body);
        }
        let value = value(&answer.body);
        Err(self.refusal(answer.status, &answer.headers, &value, session))
    }

    /// Returns the failure of an answer with an error status.
    fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        answer: &Value,
        session: &Session,
    ) -> CallError {
        let is_foreign = answer.get("errcode").is_none_or(|code| !code.is_string());
        let is_gateway = status.is_server_error() || status.is_redirection();
        if is_foreign && is_gateway {
            return Rest::intermediary_error("the homeserver", status);
        }
        let text = answer.get("error").and_then(Value::as_str);
        let text = session
            .token
            .scrub(&self.rest.scrub(text.unwrap_or_default()));
        from_answer(status, answer, &text, retry_after(headers))
    }

    /// Logs in again if the token was refused and there is a password. `true` if there is a new
    /// session.
    async fn renew_session(&self, error: &CallError, refused: &Session) -> Result<bool, CallError> {
        let can_log_in = self.token.expose().is_empty() && !self.password.expose_exact().is_empty();
        if !can_log_in || !error.is(Refusal::is_about_the_token) {
            return Ok(false);
        }
        let mut current = self.session.lock().await;
        let is_current = current
            .as_ref()
            .is_none_or(|session| session.token == refused.token);
        if is_current {
            let keeps_device = error.is(Refusal::is_soft_logout);
            let device = if keeps_device || !self.device_id.is_empty() {
                refused.device_id.as_str()
            } else {
                ""
            };
            tracing::warn!("the homeserver ended the session; logging in again");
            *current = Some(self.log_in(device).await?);
        }
        Ok(true)
    }

    async fn log_in(&self, device: &str) -> Result<Session, CallError> {
        let mut body = json!({
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.user_id},
            "password": self.password.expose_exact(),
            "initial_device_display_name": DEVICE_NAME,
        });
        if !device.is_empty()
            && let Some(members) = body.as_object_mut()
        {
            members.insert("device_id".to_owned(), device.into());
        }
        let path = Path::new(&["_matrix", "client", "v3", "login"]);
        let request = self.rest.request_to(Method::POST, self.address(path)?)?;
        let answer = self.rest.answer(request.json(&body)).await?;
        let nobody = Session {
            user_id: self.user_id.clone(),
            device_id: String::new(),
            token: Secret::default(),
        };
        let value = value(&answer.body);
        if !answer.status.is_success() {
            return Err(self.refusal(answer.status, &answer.headers, &value, &nobody));
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("access_token").is_empty() {
            let why = "the login gave no access token".to_owned();
            return Err(CallError::Unreachable(why));
        }
        let session = Session {
            user_id: text("user_id").to_owned(),
            device_id: text("device_id").to_owned(),
            token: Secret::new(text("access_token")),
        };
        if let Some(folder) = &self.folder
            && let Err(error) = session::write(folder, &self.homeserver, &session).await
        {
            tracing::warn!(%error, "the session cannot be kept; the next start logs in again");
        }
        Ok(session)
    }
}

/// Reads an answer; `null` if it is not JSON.
fn value(body: &[u8]) -> Value {
    json::from_slice(body).unwrap_or_default()
}
