//! Receives by a webhook: Telegram posts each update to an address of this machine.
//!
//! Decision: a post is answered with success only if its message is durable; otherwise Telegram
//! repeats it. TLS is left to a reverse proxy, so the listener belongs on the loopback interface.
//! The webhook stays set when the channel ends, so that updates wait.
//!
//! Telegram sends a limited number of posts at a time (`webhookMaxConnections`), so an album with
//! more pieces becomes several messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use nanobot_channel::{CancellationToken, ChannelContext, ChannelError};
use nanobot_channel_kit::{Recent, wrong};
use nanobot_listen::{SeatLimits, http};
use reqwest::Url;
use serde::de::IgnoredAny;
use teloxide::payloads::{SetWebhook, SetWebhookSetters as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::Secret;
use crate::address::BotIdentity;
use crate::album::{UpdateJob, jobs};
use crate::channel::Telegram;
use crate::error::CallError;
use crate::lanes::{Settle, UpdateLanes};
use crate::receive::ALBUM_WAIT;
use crate::wire::RawUpdate;

/// The header with the secret of the webhook.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// The largest post, in bytes: updates are texts.
const MAX_POST_SIZE: usize = 1 << 20;
/// Capacity of the queue of posts. Telegram sends at most 100 at a time.
const QUEUE_CAPACITY: usize = 128;
/// Time that a post is kept open; Telegram's timeout is a little longer.
const POST_TIMEOUT: Duration = Duration::from_secs(50);
/// Interval of asking Telegram for failed posts.
const CHECK_INTERVAL: Duration = Duration::from_secs(25);
/// Telegram opens at most 100 connections, all from one address after a reverse proxy.
const SEAT_LIMITS: SeatLimits = SeatLimits {
    total: 128,
    per_address: 128,
};
/// Silence after which an album is complete, and the limit of its whole time.
const ALBUM_SILENCE: Duration = Duration::from_millis(150);
const ALBUM_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of updates that are remembered as handled.
const CAPACITY: usize = 1024;

/// A post that waits for its answer.
#[derive(Debug)]
struct WebhookPost {
    update: RawUpdate,
    answer: oneshot::Sender<()>,
}

/// Posts that arrived together, by the ids of their updates; a post may be repeated.
type Batch = BTreeMap<u32, (RawUpdate, Vec<oneshot::Sender<()>>)>;

/// Posts that wait for their answers, and the updates that were handled.
#[derive(Debug)]
struct PendingPosts {
    waiting: BTreeMap<u32, Vec<oneshot::Sender<()>>>,
    handled: Recent<u32>,
}

impl Default for PendingPosts {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            handled: Recent::new(CAPACITY),
        }
    }
}

impl PendingPosts {
    /// Adds posts, and returns the new updates.
    fn accept(&mut self, batch: Batch) -> Vec<RawUpdate> {
        let mut news = Vec::new();
        for (id, (update, answers)) in batch {
            if self.handled.contains(&id) {
                answers.into_iter().for_each(confirm);
                continue;
            }
            let waiting = self.waiting.entry(id).or_insert_with(|| {
                news.push(update);
                Vec::new()
            });
            waiting.retain(|answer| !answer.is_closed());
            waiting.extend(answers);
        }
        news
    }

    /// Drops posts: Telegram repeats them.
    fn drop_job(&mut self, job: &UpdateJob) {
        for update in job.updates() {
            self.waiting.remove(&update.id);
        }
    }
}

impl Settle for PendingPosts {
    fn settle(&mut self, updates: &[u32]) {
        for id in updates {
            self.handled.insert(*id);
            self.waiting
                .remove(id)
                .into_iter()
                .flatten()
                .for_each(confirm);
        }
    }
}

/// State of the HTTP handler.
#[derive(Debug)]
struct WebhookState {
    path: String,
    secret: Secret,
    posts: mpsc::Sender<WebhookPost>,
}

impl Telegram {
    /// Receives posts until the run ends.
    pub(crate) async fn receive_by_webhook(
        &self,
        bot: &BotIdentity,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let url = Url::parse(self.config.webhook_url.trim())
            .map_err(|error| wrong("webhookUrl", &format!("is no address: {error}")))?;
        let (sender, mut posts) = mpsc::channel(QUEUE_CAPACITY);
        let ends = context.cancel.child_token();
        let _ends_with_this = ends.clone().drop_guard();
        self.listen(sender, ends, context).await?;
        self.set_webhook(&url).await?;
        let (mut lanes, mut pending) = (
            UpdateLanes::new(self, bot, context),
            PendingPosts::default(),
        );
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = async {
                tokio::select! {
                    post = posts.recv() => Some(post),
                    _ = checks.tick() => None,
                }
            };
            let Some(event) = lanes.run_until(event, &mut pending).await else {
                return Ok(());
            };
            let Some(post) = event else {
                let Some(outcome) = lanes
                    .run_until(self.check_posts(&url, context), &mut pending)
                    .await
                else {
                    return Ok(());
                };
                outcome?;
                continue;
            };
            let Some(first) = post else {
                if context.cancel.is_cancelled() {
                    return Ok(());
                }
                return Err(ChannelError::Unavailable(
                    "the webhook's listener has ended".to_owned(),
                ));
            };
            self.report_alive(context);
            let news = pending.accept(drain_ready(first, &mut posts));
            let parsed = lanes
                .run_until(self.parse_updates(news, context), &mut pending)
                .await;
            let Some(mut updates) = parsed else {
                return Ok(());
            };
            if updates.iter().any(|update| update.album().is_some()) {
                let Some(batch) = lanes
                    .run_until(collect_album(&mut posts), &mut pending)
                    .await
                else {
                    return Ok(());
                };
                let news = pending.accept(batch);
                let parsed = lanes
                    .run_until(self.parse_updates(news, context), &mut pending)
                    .await;
                let Some(more) = parsed else { return Ok(()) };
                updates.extend(more);
                updates.sort_by_key(|update| update.id);
            }
            for job in jobs(updates) {
                if lanes.waiting() < QUEUE_CAPACITY {
                    lanes.add(job);
                } else {
                    pending.drop_job(&job);
                }
            }
        }
    }

    async fn listen(
        &self,
        posts: mpsc::Sender<WebhookPost>,
        ends: CancellationToken,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let (host, port) = (
            self.config.webhook_listen_host.trim(),
            self.config.webhook_listen_port,
        );
        let listener = TcpListener::bind((host, port)).await.map_err(|error| {
            ChannelError::Unavailable(format!("cannot listen on {host}:{port}: {error}"))
        })?;
        let (path, secret) = (
            self.config.webhook_path.clone(),
            self.config.webhook_secret_token.clone(),
        );
        let state = Arc::new(WebhookState {
            path,
            secret,
            posts,
        });
        let router = Router::new().fallback(handle_post).with_state(state);
        context
            .tasks
            .spawn(http::serve(listener, router, SEAT_LIMITS, ends));
        Ok(())
    }

    /// Sets the webhook.
    async fn set_webhook(&self, url: &Url) -> Result<(), ChannelError> {
        let request = SetWebhook::new(url.clone())
            .secret_token(self.config.webhook_secret_token.expose())
            .max_connections(self.config.webhook_max_connections)
            .allowed_updates(Self::allowed_updates());
        self.api
            .call::<_, IgnoredAny>(&request)
            .await
            .map(drop)
            .map_err(CallError::repeatable)
    }

    /// Checks that Telegram's posts arrive.
    async fn check_posts(&self, url: &Url, context: &ChannelContext) -> Result<(), ChannelError> {
        let waiting = match self.webhook_info().await {
            Ok(waiting) => waiting,
            Err(error) if error.is_permanent() => return Err(error),
            Err(error) => {
                context.progress.degraded(&error.to_string());
                return Ok(());
            }
        };
        if Url::parse(&waiting.url).ok().as_ref() != Some(url) {
            return Err(ChannelError::Conflict(
                "another program has changed the webhook of this bot".to_owned(),
            ));
        }
        match waiting
            .last_error_message
            .filter(|_| waiting.pending_update_count > 0)
        {
            Some(why) => context.progress.degraded(&format!(
                "Telegram cannot post to webhookUrl: {why} ({} updates wait)",
                waiting.pending_update_count
            )),
            None => self.report_alive(context),
        }
        Ok(())
    }
}

/// Confirms an update to Telegram. It may have given up waiting; then it posts again.
fn confirm(answer: oneshot::Sender<()>) {
    if answer.send(()).is_err() {
        tracing::debug!("a post was given up before it was dealt with");
    }
}

/// Adds a post to its batch.
fn add(batch: &mut Batch, post: WebhookPost) {
    batch
        .entry(post.update.id)
        .or_insert_with(|| (post.update, Vec::new()))
        .1
        .push(post.answer);
}

/// Returns the first post and all that are queued.
fn drain_ready(first: WebhookPost, posts: &mut mpsc::Receiver<WebhookPost>) -> Batch {
    let mut batch = Batch::new();
    add(&mut batch, first);
    while let Ok(post) = posts.try_recv() {
        add(&mut batch, post);
    }
    batch
}

/// Collects the rest of an album, and all posts that arrive meanwhile.
async fn collect_album(posts: &mut mpsc::Receiver<WebhookPost>) -> Batch {
    let mut batch = Batch::new();
    tokio::time::sleep(ALBUM_WAIT).await;
    let settling = async {
        while let Ok(Some(post)) = tokio::time::timeout(ALBUM_SILENCE, posts.recv()).await {
            add(&mut batch, post);
        }
    };
    if tokio::time::timeout(ALBUM_TIMEOUT, settling).await.is_err() {
        tracing::debug!("what came after an album has not settled");
    }
    batch
}

/// Queues one post, and answers it after its update was handled.
async fn handle_post(State(state): State<Arc<WebhookState>>, request: Request) -> StatusCode {
    if request.uri().path() != state.path {
        return StatusCode::NOT_FOUND;
    }
    if request.method() != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED;
    }
    if !request
        .headers()
        .get(SECRET_HEADER)
        .is_some_and(|shown| state.secret.is(shown.as_bytes()))
    {
        tracing::warn!("a post without the webhook's secret was refused");
        return StatusCode::UNAUTHORIZED;
    }
    let body = match http::read_body(request.into_body(), MAX_POST_SIZE).await {
        Ok(body) => body,
        Err(status) => return status,
    };
    let Some(update) = std::str::from_utf8(&body).ok().and_then(RawUpdate::peek) else {
        return StatusCode::BAD_REQUEST;
    };
    let (answer, answered) = oneshot::channel();
    if state
        .posts
        .try_send(WebhookPost { update, answer })
        .is_err()
    {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match tokio::time::timeout(POST_TIMEOUT, answered).await {
        Ok(Ok(())) => StatusCode::OK,
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
