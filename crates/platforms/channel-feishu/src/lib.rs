//! Feishu and Lark: events over the long connection, everything else over the open API.
//!
//! Decision: written by hand. The API that is used is a dozen calls, the long connection one
//! protobuf message, and SDKs acknowledge events before they are stored. Here an event is
//! acknowledged only after [`nanobot_channel::Intake::deliver`] has the message; what is not
//! acknowledged, Feishu sends again.
//!
//! Not supported: events over HTTP (so there is nothing to decrypt or to verify, and `encryptKey`
//! and `verificationToken` have no effect), a typing indicator (the reaction says that work is
//! under way), edited and recalled messages, and apps of a store.

mod api;
mod attachment;
mod candidate;
mod card;
mod card_text;
mod channel;
mod config;
mod content;
mod context;
mod draft;
mod error;
mod fragment;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod interaction;
mod markup;
mod mention;
mod outbound;
mod outgoing;
mod post;
mod reaction;
mod receive;
mod reply;
mod socket;
mod target;
mod upload;
mod wire;

pub use channel::{Feishu, FeishuChannel, FeishuFactory};
pub use config::FeishuConfig;
pub use markup::CardMarkdown;
pub use nanobot_channel_kit::Secret;
