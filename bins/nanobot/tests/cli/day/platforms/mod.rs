//! The platforms of the day, one module each.

mod dingtalk;
mod discord;
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

use super::platform::DayPlatform;

/// Starts the fakes of all platforms.
pub(super) async fn start() -> Vec<Box<dyn DayPlatform>> {
    vec![
        Box::new(telegram::TelegramDay::start().await),
        Box::new(discord::DiscordDay::start().await),
        Box::new(slack::SlackDay::start().await),
        Box::new(matrix::MatrixDay::start().await),
        Box::new(feishu::FeishuDay::start().await),
        Box::new(dingtalk::DingTalkDay::start().await),
        Box::new(qq::QqDay::start().await),
        Box::new(wecom::WeComDay::start().await),
        Box::new(mochat::MochatDay::start().await),
        Box::new(whatsapp::WhatsAppDay::start().await),
        Box::new(mail::MailDay::start().await),
        Box::new(websocket::WebSocketDay::start()),
    ]
}
