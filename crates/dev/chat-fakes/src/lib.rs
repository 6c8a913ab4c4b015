//! The fakes of all platforms behind one trait.
//!
//! A test or a measurement that treats all platforms alike starts them with [`start`], enables the
//! [`section`](ChatFake::section) of each in a gateway, and talks to it as the people on the
//! platforms. Only what all platforms have is part of [`ChatFake`]; a test of one platform uses its
//! fake directly.

mod dingtalk;
mod discord;
mod error;
mod fake;
mod feishu;
mod friend;
mod mail;
mod matrix;
mod mochat;
mod qq;
mod slack;
mod telegram;
mod websocket;
mod wecom;
mod whatsapp;

pub use error::FakeError;
pub use fake::{ANSWER_PREFIX, ChatFake, Fault, Place, Thread};

/// The names of all platforms.
pub const PLATFORMS: [&str; 12] = [
    "telegram",
    "discord",
    "slack",
    "matrix",
    "feishu",
    "dingtalk",
    "qq",
    "wecom",
    "mochat",
    "whatsapp",
    "email",
    "websocket",
];

/// Starts the fakes of all platforms, in the order of [`PLATFORMS`].
///
/// # Errors
/// Returns the error of the first fake that cannot start.
pub async fn start() -> Result<Vec<Box<dyn ChatFake>>, FakeError> {
    let mut fakes = Vec::with_capacity(PLATFORMS.len());
    for name in PLATFORMS {
        fakes.push(start_one(name).await?);
    }
    Ok(fakes)
}

/// Starts the fake of one platform.
///
/// # Errors
/// Returns [`FakeError::UnknownPlatform`] for a name that is not in [`PLATFORMS`], and the error of
/// a fake that cannot start.
pub async fn start_one(name: &str) -> Result<Box<dyn ChatFake>, FakeError> {
    Ok(match name {
        "telegram" => Box::new(telegram::TelegramChats::start().await?),
        "discord" => Box::new(discord::DiscordChats::start().await?),
        "slack" => Box::new(slack::SlackChats::start().await?),
        "matrix" => Box::new(matrix::MatrixChats::start().await?),
        "feishu" => Box::new(feishu::FeishuChats::start().await?),
        "dingtalk" => Box::new(dingtalk::DingTalkChats::start().await?),
        "qq" => Box::new(qq::QqChats::start().await?),
        "wecom" => Box::new(wecom::WeComChats::start().await?),
        "mochat" => Box::new(mochat::MochatChats::start().await?),
        "whatsapp" => Box::new(whatsapp::WhatsAppChats::start().await?),
        "email" => Box::new(mail::MailChats::start().await?),
        "websocket" => Box::new(websocket::WebSocketChats::start()?),
        _ => return Err(FakeError::UnknownPlatform(name.to_owned())),
    })
}
