//! Receives by being told: Telegram posts each update to an address of ours.
//!
//! Decision: a post is answered with success only when what it brought is durable; whatever else
//! becomes of it, Telegram posts it again. TLS is left to a proxy in front, so the listener belongs
//! on this machine alone. The webhook stays set when the channel ends, so that updates wait.
//!
//! Telegram has a limited number of posts under way (`webhookMaxConnections`), so an album with more
//! pieces than that comes in several messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use nanobot_channel::{CancellationToken, ChannelContext, ChannelError};
use nanobot_channel_kit::wrong;
use reqwest::Url;
use serde::de::IgnoredAny;
use teloxide::payloads::{SetWebhook, SetWebhookSetters as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::Secret;
use crate::address::BotIdentity;
use crate::album::Joined;
use crate::channel::TelegramChannel;
use crate::error::CallError;
use crate::receive::{ALBUM_TIME, Next, Received};

/// The header in which Telegram shows that it is Telegram.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// The largest post, in bytes: updates are texts.
const LARGEST_POST: usize = 1 << 20;
/// How many posts wait for their turn. Telegram has at most 100 under way.
const QUEUE: usize = 128;
/// How long a post is kept open; Telegram gives up a little later.
const HOLD: Duration = Duration::from_secs(50);
/// How often Telegram is asked whether its posts arrive.
const CHECK: Duration = Duration::from_secs(25);
/// How long connections may linger when the listener ends.
const LINGER: Duration = Duration::from_secs(1);
/// Nothing more of an album comes after so long without a piece of it.
const SETTLED: Duration = Duration::from_millis(150);
/// How many updates are remembered as dealt with.
const REMEMBERED: usize = 1024;

/// A post that waits for its answer.
#[derive(Debug)]
struct Post {
    update: Received,
    answer: oneshot::Sender<()>,
}

/// Those that came together, by the ids of their updates; a post may come twice.
type Batch = BTreeMap<u32, (Received, Vec<oneshot::Sender<()>>)>;

/// Where posts come in.
#[derive(Debug)]
struct Door {
    path: String,
    secret: Secret,
    posts: mpsc::Sender<Post>,
}

impl TelegramChannel {
    /// Takes posts until the assistant goes down.
    pub(crate) async fn receive_by_webhook(
        &self,
        bot: &BotIdentity,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let url = Url::parse(self.config.webhook_url.trim())
            .map_err(|error| wrong("webhookUrl", &format!("is no address: {error}")))?;
        let (sender, mut posts) = mpsc::channel(QUEUE);
        let ends = context.cancel.child_token();
        let _ends_with_this = ends.clone().drop_guard();
        self.listen(sender, ends, context).await?;
        self.announce(&url).await?;
        let mut handled = BTreeSet::new();
        let mut checks = tokio::time::interval(CHECK);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let first = tokio::select! {
                post = posts.recv() => post,
                _ = checks.tick() => {
                    self.check_posts(&url, context).await?;
                    continue;
                }
            };
            let Some(first) = first else {
                return Err(ChannelError::Unavailable("the webhook's listener has ended".to_owned()));
            };
            let batch = gather(first, &mut posts).await;
            context.progress.alive();
            if self.take_batch(bot, batch, &mut handled, context).await == Next::Stop {
                return Ok(());
            }
        }
    }

    async fn listen(
        &self,
        posts: mpsc::Sender<Post>,
        ends: CancellationToken,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let (host, port) = (self.config.webhook_listen_host.trim(), self.config.webhook_listen_port);
        let listener = TcpListener::bind((host, port))
            .await
            .map_err(|error| ChannelError::Unavailable(format!("cannot listen on {host}:{port}: {error}")))?;
        let (path, secret) = (self.config.webhook_path.clone(), self.config.webhook_secret_token.clone());
        let door = Arc::new(Door { path, secret, posts });
        let router = Router::new().fallback(take_in).with_state(door);
        let name = self.name.clone();
        context.tasks.spawn(async move {
            let serving = axum::serve(listener, router).with_graceful_shutdown(ends.clone().cancelled_owned());
            let lingering = async {
                ends.cancelled().await;
                tokio::time::sleep(LINGER).await;
            };
            tokio::select! {
                outcome = serving => if let Err(error) = outcome {
                    tracing::error!(channel = %name, %error, "the webhook's listener has failed");
                },
                () = lingering => {}
            }
        });
        Ok(())
    }

    /// Tells Telegram where to post.
    async fn announce(&self, url: &Url) -> Result<(), ChannelError> {
        let request = SetWebhook::new(url.clone())
            .secret_token(self.config.webhook_secret_token.expose())
            .max_connections(self.config.webhook_max_connections)
            .allowed_updates(self.wanted_updates());
        self.api.call::<_, IgnoredAny>(&request).await.map(drop).map_err(CallError::repeatable)
    }

    /// Asks Telegram whether its posts arrive.
    async fn check_posts(&self, url: &Url, context: &ChannelContext) -> Result<(), ChannelError> {
        let waiting = match self.waiting().await {
            Ok(waiting) => waiting,
            Err(error) if error.is_permanent() => return Err(error),
            Err(error) => {
                context.progress.degraded(&error.to_string());
                return Ok(());
            }
        };
        if Url::parse(&waiting.url).ok().as_ref() != Some(url) {
            return Err(ChannelError::Conflict("another program has changed the webhook of this bot".to_owned()));
        }
        match waiting.last_error_message.filter(|_| waiting.pending_update_count > 0) {
            Some(why) => context.progress.degraded(&format!(
                "Telegram cannot post to webhookUrl: {why} ({} updates wait)",
                waiting.pending_update_count
            )),
            None => context.progress.alive(),
        }
        Ok(())
    }

    async fn take_batch(
        &self,
        bot: &BotIdentity,
        batch: Batch,
        handled: &mut BTreeSet<u32>,
        context: &ChannelContext,
    ) -> Next {
        let mut joined = Joined::default();
        let (updates, answers): (Vec<_>, Vec<_>) = batch.into_values().unzip();
        let mut updates = updates.as_slice();
        let mut held = Vec::new();
        let mut answers = answers.into_iter();
        while let Some((update, later)) = updates.split_first() {
            let is_known = joined.take(update.id) || handled.contains(&update.id);
            let later_new = later.iter().filter(|update| !handled.contains(&update.id));
            if !is_known && self.take(bot, update, later_new, &mut joined, context).await == Next::Stop {
                return Next::Stop;
            }
            held.extend(answers.next().map(|answers| (update.id, answers)));
            // The pieces of an album are durable together, but their turns come one by one.
            if joined.is_empty() {
                for (id, answers) in held.drain(..) {
                    handled.insert(id);
                    answers.into_iter().for_each(confirm);
                }
            }
            updates = later;
        }
        while handled.len() > REMEMBERED {
            handled.pop_first();
        }
        Next::Confirm
    }
}

/// Tells Telegram that an update was dealt with. It may have given up waiting; then it posts again.
fn confirm(answer: oneshot::Sender<()>) {
    if answer.send(()).is_err() {
        tracing::debug!("a post was given up before it was dealt with");
    }
}

/// What has come by now, and the rest of an album.
async fn gather(first: Post, posts: &mut mpsc::Receiver<Post>) -> Batch {
    let mut batch = Batch::new();
    let mut add = |post: Post| {
        let is_of_an_album = post.update.is_of_an_album();
        batch.entry(post.update.id).or_insert_with(|| (post.update, Vec::new())).1.push(post.answer);
        is_of_an_album
    };
    let mut waits = add(first);
    while let Ok(post) = posts.try_recv() {
        waits |= add(post);
    }
    if waits {
        tokio::time::sleep(ALBUM_TIME).await;
        let mut left = QUEUE;
        while left > 0
            && let Ok(Some(post)) = tokio::time::timeout(SETTLED, posts.recv()).await
        {
            add(post);
            left -= 1;
        }
    }
    batch
}

/// Takes one post in and holds it until it is dealt with.
async fn take_in(State(door): State<Arc<Door>>, request: Request) -> StatusCode {
    if request.uri().path() != door.path {
        return StatusCode::NOT_FOUND;
    }
    if request.method() != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED;
    }
    if !request.headers().get(SECRET_HEADER).is_some_and(|shown| door.secret.is(shown.as_bytes())) {
        tracing::warn!("a post without the webhook's secret was refused");
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(body) = to_bytes(request.into_body(), LARGEST_POST).await else { return StatusCode::PAYLOAD_TOO_LARGE };
    let Some(update) = std::str::from_utf8(&body).ok().and_then(Received::read) else {
        return StatusCode::BAD_REQUEST;
    };
    let (answer, answered) = oneshot::channel();
    if door.posts.try_send(Post { update, answer }).is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match tokio::time::timeout(HOLD, answered).await {
        Ok(Ok(())) => StatusCode::OK,
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
