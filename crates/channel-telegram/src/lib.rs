//! Telegram over the Bot API, by long polling.
//!
//! Decision: requests and updates have teloxide's types, but neither its dispatcher nor its sender
//! is used. The dispatcher confirms an update before anybody has stored it, while here the offset
//! moves past one only after [`nanobot_channel::Intake::deliver`] acknowledged it. The sender waits
//! ten seconds inside on every server error, while here retrying belongs to whoever calls
//! [`nanobot_channel::Channel::send`].
//!
//! What it does not do: webhooks, inline keyboards (buttons are shown as text), transcription.

mod address;
mod album;
mod api;
mod attachment;
mod attempts;
mod channel;
mod config;
mod draft;
mod error;
mod factory;
mod inbound;
mod outbound;
mod place;
mod poll;
mod secret;
mod upload;

pub use channel::TelegramChannel;
pub use config::TelegramConfig;
pub use factory::TelegramFactory;
pub use secret::Secret;
