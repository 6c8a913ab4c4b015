//! The control socket of a gateway, through which other commands of the same user work with it.
//!
//! Decision: JSON lines over a Unix socket in the home. Each line is a request; responses come in
//! the order of their requests, with events in between. The operating system controls access: only
//! the owner can open the socket, and a peer of another user is disconnected before a byte is read.
//! So there is no token to keep, and nothing listens on the network. A gateway owns its home's
//! ledger and sessions, and other commands access them through it ([`ControlClient`] is a
//! [`nanobot_bus::Ledger`], and a [`ControlConversation`] is one of the gateway's own sessions).
//!
//! On systems without Unix sockets, [`ControlServer::bind`] and [`ControlClient::reach`] return
//! [`ControlError::Unsupported`], and commands work on the files. This crate does not lock the home
//! and reads no configuration: a caller that gets no response has to check the home's lock before
//! it touches a file.

mod attachment;
mod channels;
mod client;
mod connection;
mod error;
mod frame;
mod lines;
mod parts;
mod seats;
mod server;
mod session_editor;
mod socket;
mod terminals;

/// Name of the socket in the home's data directory.
pub const SOCKET: &str = "gateway.sock";

pub use channels::{ChannelState, Channels};
pub use client::{ControlClient, ControlConversation, ConversationEvent, PreparedMessage};
pub use error::ControlError;
pub use frame::{
    ControlRequest, ControlResponse, GatewayInfo, REQUEST_LIMIT, SubagentName, TerminalEvent,
};
pub use parts::{ControlParts, ShutdownTokens, SubagentNames, UnseenReplies};
pub use server::{ControlServer, RunningControl};
pub use session_editor::{SessionEditError, SessionEditor, UndoneExchange};
pub use terminals::{TERMINAL_CHANNEL, terminal_message};
