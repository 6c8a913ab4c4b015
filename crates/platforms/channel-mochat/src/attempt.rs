//! Attempts to connect, and lists of sessions and panels, in the background of a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel_kit::jittered_backoff;

use crate::channel::Mochat;
use crate::error::CallError;
use crate::socket::{SocketEvent, SocketIo};
use crate::wire::Directory;

/// Number of targets of one subscription.
const SUBSCRIBED_AT_ONCE: usize = 200;
/// Events that may arrive before the answers to the subscriptions, and the memory that they may
/// take, with the answers, in bytes. With more, the socket is given up, and polls bring all of it.
const MAX_EARLY_EVENTS: usize = 10_000;
const MAX_EARLY_MEMORY: usize = 64 << 20;

/// Something that is waited for in the background.
pub(crate) type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// An attempt to connect.
pub(crate) type Attempt = Waiting<Result<Established, CallError>>;

/// A socket with answered subscriptions, and what it brought meanwhile.
pub(crate) struct Established {
    pub(crate) socket: Box<SocketIo>,
    pub(crate) events: Vec<SocketEvent>,
}

/// Opens a socket, subscribes, and waits for all answers.
async fn establish(platform: Arc<Mochat>) -> Result<Established, CallError> {
    let mut socket = Box::new(SocketIo::open(&platform.api, &platform.config).await?);
    let events = subscribe(&platform, &mut socket).await;
    let events = events.map_err(CallError::Unreachable)?;
    Ok(Established { socket, events })
}

/// Subscribes to all targets. If one is gone, Mochat refuses all of a subscription: then each is
/// subscribed to alone, and only those that are refused are left out.
async fn subscribe(platform: &Mochat, socket: &mut SocketIo) -> Result<Vec<SocketEvent>, String> {
    let targets = platform.positions(&platform.targets.all());
    socket.subscribe(&targets, SUBSCRIBED_AT_ONCE).await?;
    let (mut events, mut memory) = (Vec::new(), 0_usize);
    let (mut subscribed, mut refused) = (false, None);
    while !socket.is_subscribed() {
        let event = socket.next().await?;
        memory = memory.saturating_add(event.memory());
        match event {
            SocketEvent::Refused(targets, _) if targets.len() > 1 => {
                socket.subscribe(&platform.positions(&targets), 1).await?;
                continue;
            }
            SocketEvent::Refused(targets, why) => {
                refused = Some(why.clone());
                events.push(SocketEvent::Refused(targets, why));
            }
            event => {
                subscribed |= matches!(event, SocketEvent::Subscribed(..));
                events.push(event);
            }
        }
        if events.len() > MAX_EARLY_EVENTS || memory > MAX_EARLY_MEMORY {
            return Err("too much arrived before the answer to a subscription".to_owned());
        }
    }
    match refused {
        Some(why) if !subscribed => Err(format!("every subscription was refused: {why}")),
        _ => Ok(events),
    }
}

/// Returns an attempt that begins at once.
pub(crate) fn first_attempt(platform: &Arc<Mochat>) -> Attempt {
    Box::pin(establish(Arc::clone(platform)))
}

/// Returns the next attempt to connect, after so many failures; none if there are no more.
pub(crate) fn later_attempt(platform: &Arc<Mochat>, failures: u32) -> Attempt {
    let most = platform.config.max_retry_attempts;
    if most > 0 && failures >= most {
        tracing::warn!(channel = %platform.base.name, "the socket is given up until the next start");
        return Box::pin(std::future::pending());
    }
    let platform = Arc::clone(platform);
    Box::pin(async move {
        let pause = platform.config.reconnect_delay(failures);
        tokio::time::sleep(jittered_backoff(pause, 0)).await;
        establish(platform).await
    })
}

/// Returns the next list of sessions and panels; none if nothing is looked for.
pub(crate) fn next_directory(platform: &Arc<Mochat>) -> Waiting<Result<Directory, CallError>> {
    let config = &platform.config;
    if config.discovers_sessions() || config.discovers_panels() {
        directory_after(platform, config.refresh_interval())
    } else {
        Box::pin(std::future::pending())
    }
}

/// Returns a list of sessions and panels after a pause.
pub(crate) fn directory_after(
    platform: &Arc<Mochat>,
    pause: Duration,
) -> Waiting<Result<Directory, CallError>> {
    let platform = Arc::clone(platform);
    Box::pin(async move {
        tokio::time::sleep(pause).await;
        let has_panels = platform.config.discovers_panels();
        platform.api.directory(has_panels).await
    })
}
