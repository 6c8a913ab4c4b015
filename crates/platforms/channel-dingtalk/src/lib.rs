//! DingTalk: messages over Stream mode, everything else over the open API.
//!
//! Decision: written by hand. Stream mode is one request and JSON over a WebSocket, and the usual
//! clients acknowledge a message before it is stored. Here a message is acknowledged only after
//! [`nanobot_channel::Intake::deliver`] has it; DingTalk sends the others again.
//!
//! Replies are whole messages. With the template of an AI card (`cardTemplateId`), they are shown
//! while they are generated.
//!
//! Not supported: messages over HTTP, webhooks of groups, buttons of cards, reactions, a typing
//! indicator, edited and recalled messages.

mod api;
mod attachment;
mod candidate;
mod card;
mod channel;
mod config;
mod content;
mod draft;
mod error;
mod forward;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod markup;
mod outbound;
mod outgoing;
mod quote;
mod receive;
mod rich_text;
mod socket;
mod target;
mod upload;
mod verdict;
mod wire;

pub use channel::{DingTalk, DingTalkChannel, DingTalkFactory};
pub use config::DingTalkConfig;
pub use markup::DingTalkMarkdown;
pub use nanobot_channel_kit::Secret;
