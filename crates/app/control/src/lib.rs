//! The local socket of a gateway: how other commands of the same person work beside it.
//!
//! Decision: JSON lines over a Unix socket in the home, a request a line, answers in the order of
//! their requests with events in between. Who may talk is decided by the system: the socket is its
//! owner's, and a peer of another user is hung up on before a byte is read. So there is no token to
//! keep, and nothing listens on the network. A gateway owns its home's ledger and sessions; what
//! others want of them they ask it ([`ControlClient`] is a [`nanobot_bus::Ledger`], and a
//! [`Conversation`] is one of the gateway's own sessions).
//!
//! Where there are no Unix sockets, [`ControlServer::bind`] and [`ControlClient::reach`] say so,
//! and commands work on the files. It takes no home and reads no configuration: a caller that finds
//! no answer has to look at the home's lock before it touches a file.

mod channels;
mod client;
mod connection;
mod cuts;
mod error;
mod frame;
mod lines;
mod seats;
mod server;
mod socket;
mod terminals;

/// The socket's name in the folder of a home's data.
pub const SOCKET: &str = "gateway.sock";

pub use channels::{ChannelState, Channels};
pub use client::{ControlClient, Conversation, Told};
pub use cuts::{CutError, Cuts};
pub use error::ControlError;
pub use frame::{About, Answer, Request, TerminalEvent};
pub use server::{ControlParts, ControlServer, Ending, RunningControl};
pub use terminals::{TERMINAL_CHANNEL, said};
