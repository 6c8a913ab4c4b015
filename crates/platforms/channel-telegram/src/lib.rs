//! Telegram over the Bot API, by long polling or a webhook.
//!
//! Decision: requests and updates have teloxide's types, but neither its dispatcher nor its sender
//! is used. The dispatcher confirms an update before it is stored, while here the offset moves past
//! one only after [`nanobot_channel::Intake::deliver`] acknowledged it. The sender waits ten
//! seconds after each server error, while here the caller of [`nanobot_channel::Channel::send`]
//! retries.
//!
//! Decision: text that is being written is a native draft in private chats, by `sendMessageDraft`.
//! It is no message, so a kill leaves nothing behind. Groups have no such drafts, and some servers
//! do not know them: there it is one message that is edited and becomes the reply.
//!
//! Decision: `richMessages` is not read. Telegram's own Markdown is another one than that of
//! models: it reads prices as formulas, and fetches pictures from whatever address a text names.
//!
//! Not supported: business accounts, payments, inline mode.

mod address;
mod album;
mod api;
mod attachment;
mod author;
mod candidate;
mod channel;
mod config;
mod draft;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod interaction;
mod lanes;
mod markup;
mod migration;
mod outbound;
mod poll;
mod preview;
mod reaction;
mod receive;
mod salvage;
mod target;
mod upload;
mod webhook;
mod window;
mod wire;

pub use channel::{Telegram, TelegramChannel, TelegramFactory};
pub use config::TelegramConfig;
pub use markup::TelegramHtml;
pub use nanobot_channel_kit::Secret;
