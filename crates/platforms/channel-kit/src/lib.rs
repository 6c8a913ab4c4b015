//! The skeleton of a channel: REST and WebSocket, lanes, intake, drafts, quarantine, keys.
//!
//! Decision: an addition to the contract, not a part of it. A channel needs [`nanobot_channel`]
//! alone; this is for platforms that are like most others: a token, a section of keys, an API over
//! HTTP, messages that can be edited. [`Platform`] combines the parts; each of them can be used
//! alone, and none depends on a platform:
//!
//! - [`Platform`], [`PlatformChannel`], [`PlatformFactory`]: the contract, derived from the
//!   platform's own code.
//! - [`settings!`], [`read_section`], [`wrong`]: configuration keys, declared once.
//! - [`Secret`]: a token or a password that no log and no error shows.
//! - [`rest`], [`call`], [`http`]: calls of a REST API, and one enum for their failures.
//! - [`Downloads`]: files at addresses that the platform names, from public hosts only.
//! - [`websocket`]: a WebSocket through the same client.
//! - [`push`]: the receive loop of platforms that push over a connection.
//! - [`Rejection`]: a send that is refused for the credentials ends the run.
//! - [`Reconnect`], [`backoff()`], [`jittered_backoff`]: the pace of attempts.
//! - [`Lanes`]: order within a chat, several chats at once.
//! - [`Recent`]: a bounded set against duplicates.
//! - [`catch_up`]: marks of conversations, and the delivery of missed messages.
//! - [`intake`]: from a candidate message to the assistant, with its [files](attachment).
//! - [`attribute_text`]: the mark of text that the sender did not write.
//! - [`Quarantine`]: sets messages aside that end the process repeatedly.
//! - [`upload`], [`Attempts`]: outgoing files, and progress of parts that are sent again.
//! - [`DraftBoard`], [`DraftPlace`]: growing text, shown in one message that is edited until the
//!   reply replaces it, and deleted if a killed process left it; or in a [`DraftPreview`].
//! - [`Reactions`]: reactions from the receipt of a message to the end of its turn.
//! - [`BackgroundWork`]: work that runs concurrently with receiving and ends with it.
//! - [`LateNote`]: a note that changes often and is written with a delay.
//! - [`Trouble`]: signs of life that report why the channel is impaired.
//! - [`repeatable`]: the error of a call that may be repeated without harm.
//!
//! It does not parse the platform's refusals, limit the rate of calls, or decide who has access.

pub mod attachment;
mod attempts;
mod attribution;
mod background;
mod backoff;
pub mod call;
pub mod catch_up;
mod download;
mod draft;
mod draft_pause;
mod error;
pub mod http;
pub mod intake;
mod lanes;
mod late_note;
mod platform;
pub mod push;
mod quarantine;
mod reaction;
mod recent;
mod reconnect;
mod rejection;
pub mod rest;
mod section;
pub mod settings;
mod token;
mod trouble;
pub mod upload;
pub mod websocket;

pub use attempts::Attempts;
pub use attribution::attribute_text;
pub use background::BackgroundWork;
pub use backoff::{backoff, chance, jittered_backoff};
pub use call::{CallError, Refusal};
pub use download::Downloads;
pub use draft::{
    BegunDraft, DraftBoard, DraftPlace, DraftPreview, DraftSlot, NoDraft, OrphanedDraft,
};
pub use draft_pause::DraftPause;
pub use error::repeatable;
pub use ipnet::IpNet;
pub use lanes::Lanes;
pub use late_note::{LateNote, Noted};
pub use nanobot_redact::Secret;
pub use platform::{
    ChannelBase, DraftMessage, EarlierDraft, Platform, PlatformChannel, PlatformFactory,
};
pub use quarantine::{Handling, Quarantine};
pub use reaction::{ReactionEmoji, Reactions, Reactor};
pub use recent::Recent;
pub use reconnect::Reconnect;
pub use rejection::Rejection;
pub use rest::Rest;
pub use section::{read_section, wrong};
pub use token::{TokenCache, lifetime};
pub use trouble::Trouble;
pub use websocket::WebSocket;
