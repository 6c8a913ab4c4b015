//! Posts updates to the webhook until each is accepted.

use std::net::SocketAddr;
use std::time::Duration;

use nanobot_testkit::Watched;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use url::Url;

use crate::api::{ApiError, ApiResult};
use crate::params::Params;
use crate::state::TelegramState;

/// Pause before a failed post is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// Timeout of a post.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ports that a webhook may use.
const PORTS: &[u16] = &[80, 88, 443, 8443];

/// A post of one update.
struct Post {
    update: i64,
    address: SocketAddr,
    request: String,
}

impl TelegramState {
    pub(crate) fn set_webhook(&mut self, params: &Params) -> ApiResult {
        let bad = |why: &str| ApiError::bad(format!("bad webhook: {why}"));
        if params.text("url").is_empty() {
            self.webhook.remove();
            return Ok(json!(true));
        }
        let url = Url::parse(params.text("url")).map_err(|_malformed| bad("invalid URL"))?;
        if url.scheme() != "https" {
            return Err(bad("An HTTPS URL must be provided for webhook"));
        }
        if !url
            .port_or_known_default()
            .is_some_and(|port| PORTS.contains(&port))
        {
            return Err(bad(
                "Webhook can be set up only on ports 80, 88, 443 or 8443",
            ));
        }
        let secret = params.text("secret_token");
        let is_word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
        if secret.len() > 256 || !secret.bytes().all(is_word) {
            return Err(ApiError::bad("secret token contains unallowed characters"));
        }
        let most = params.number("max_connections").unwrap_or(40);
        let allowed = params.json("allowed_updates").cloned();
        if let Some(kinds) = allowed.as_ref().and_then(Value::as_array) {
            self.allowed = Some(
                kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            );
        }
        if params.flag("drop_pending_updates") {
            self.updates.clear();
        }
        // Ends a poll in progress.
        self.poll += 1;
        self.webhook.url = Some(url);
        self.webhook.secret = Some(secret.to_owned()).filter(|secret| !secret.is_empty());
        self.webhook.most = usize::try_from(most).unwrap_or_default().clamp(1, 100);
        self.webhook.allowed = allowed;
        self.webhook.error = None;
        Ok(json!(true))
    }

    /// Returns `true` if a post may begin now.
    fn is_due(&self) -> bool {
        let webhook = &self.webhook;
        webhook.is_set()
            && webhook.address.is_some()
            && webhook.under_way.len() < webhook.most
            && self
                .updates
                .keys()
                .any(|id| !webhook.under_way.contains(id))
    }

    /// Takes the posts that may begin now.
    fn due(&mut self) -> Vec<Post> {
        let (Some(url), Some(address)) = (self.webhook.url.clone(), self.webhook.address) else {
            return Vec::new();
        };
        let free = self
            .webhook
            .most
            .saturating_sub(self.webhook.under_way.len());
        let waiting = self
            .updates
            .iter()
            .filter(|(id, _)| !self.webhook.under_way.contains(id));
        let chosen: Vec<(i64, String)> = waiting
            .take(free)
            .map(|(id, update)| (*id, update.to_string()))
            .collect();
        self.webhook
            .under_way
            .extend(chosen.iter().map(|(id, _)| *id));
        let secret = self
            .webhook
            .secret
            .as_ref()
            .map(|secret| format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n"));
        let secret = secret.unwrap_or_default();
        let request = |body: &str| {
            let (path, host, length) = (url.path(), url.host_str().unwrap_or_default(), body.len());
            format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{secret}\
                 Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
        };
        chosen
            .into_iter()
            .map(|(update, body)| Post {
                update,
                address,
                request: request(&body),
            })
            .collect()
    }

    /// Records the outcome of a post.
    fn posted(&mut self, update: i64, outcome: Result<(), String>) {
        self.webhook.under_way.remove(&update);
        match outcome {
            Ok(()) => drop(self.updates.remove(&update)),
            Err(error) => self.webhook.error = Some(error),
        }
    }
}

/// The task that posts updates; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Poster(#[expect(dead_code, reason = "its drop ends the task")] DropGuard);

impl Poster {
    pub(crate) fn start(state: Watched<TelegramState>) -> Self {
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (posts, ends) = (tasks.clone(), cancel.clone());
        tasks.spawn(async move {
            ends.run_until_cancelled(run(state, posts, ends.clone()))
                .await
        });
        Self(cancel.drop_guard())
    }
}

async fn run(state: Watched<TelegramState>, tasks: TaskTracker, cancel: CancellationToken) {
    let mut changed = state.subscribe();
    loop {
        // Changes from here on wake the loop again.
        changed.mark_unchanged();
        // Every call of `change` wakes this loop, so it is called only if there is work.
        let due = if state.read(TelegramState::is_due) {
            state.change(TelegramState::due)
        } else {
            Vec::new()
        };
        for post in due {
            let (state, cancel) = (state.clone(), cancel.clone());
            tasks.spawn(async move {
                let posting = async {
                    let outcome = send(&post).await;
                    if outcome.is_err() {
                        tokio::time::sleep(PAUSE).await;
                    }
                    state.change(|state| state.posted(post.update, outcome));
                };
                cancel.run_until_cancelled(posting).await
            });
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

async fn send(post: &Post) -> Result<(), String> {
    let exchange = async {
        let mut stream = TcpStream::connect(post.address).await?;
        stream.write_all(post.request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = match tokio::time::timeout(PATIENCE, exchange).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(format!("Connection failed: {error}")),
        Err(_) => return Err("Read timeout expired".to_owned()),
    };
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    if status.starts_with('2') {
        Ok(())
    } else {
        Err(format!("Wrong response from the webhook: {status}"))
    }
}
