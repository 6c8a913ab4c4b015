//! Services that connections use.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Bus, EventFeed, Ledger};
use nanobot_types::{OutboundMessage, SessionKey};
use tokio_util::sync::CancellationToken;

use crate::terminals::Terminals;
use crate::{Channels, GatewayInfo, SessionEditor, SubagentName};

/// Services that requests use.
#[derive(Clone, Debug)]
pub struct ControlParts {
    /// Receives the messages of terminals, and delivers the replies.
    pub bus: Arc<dyn Bus>,
    /// The ledger of `inbox` requests.
    pub ledger: Arc<dyn Ledger>,
    /// The states of channels.
    pub channels: Arc<dyn Channels>,
    /// Changes conversations.
    pub session_editor: Arc<dyn SessionEditor>,
    /// Lists subagents.
    pub subagents: Arc<dyn SubagentNames>,
    /// Reports the ends of turns.
    pub events: EventFeed,
    /// Tokens to stop or restart the gateway.
    pub ending: ShutdownTokens,
    /// The gateway's description of itself.
    pub about: GatewayInfo,
    /// Keeps replies that no terminal shows.
    pub unseen: Arc<dyn UnseenReplies>,
    /// Folder of the files that terminals attach to messages.
    pub media: PathBuf,
}

/// Keeps replies that arrive while no terminal is connected.
#[async_trait]
pub trait UnseenReplies: Send + Sync + std::fmt::Debug {
    /// Returns `true` if the reply is kept for the next terminal; otherwise it is in its session
    /// only.
    async fn keep(&self, message: &OutboundMessage) -> bool;
}

/// Lists subagents.
pub trait SubagentNames: Send + Sync + std::fmt::Debug {
    /// Returns the unfinished subagents of a session, in the order of arrival.
    fn of_session(&self, session: &SessionKey) -> Vec<SubagentName>;
}

/// Tokens that end a gateway.
#[derive(Clone, Debug)]
pub struct ShutdownTokens {
    /// Cancelled to stop.
    pub stop: CancellationToken,
    /// Cancelled to restart.
    pub restart: CancellationToken,
}

/// State shared by connections.
#[derive(Debug)]
pub(crate) struct ControlState {
    pub(crate) parts: ControlParts,
    pub(crate) terminals: Terminals,
    /// Cancelled when no new messages are accepted.
    pub(crate) closing: CancellationToken,
}
