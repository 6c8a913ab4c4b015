//! The chat platforms that this build ships, selected by its features.

use std::sync::Arc;

use nanobot_channel::ChannelFactory;

/// Factories of the shipped platforms. They are registered like those of any other program.
pub(crate) fn channels() -> Vec<Arc<dyn ChannelFactory>> {
    vec![
        #[cfg(feature = "dingtalk")]
        Arc::new(nanobot_channel_dingtalk::DingTalkFactory::new()),
        #[cfg(feature = "discord")]
        Arc::new(nanobot_channel_discord::DiscordFactory::new()),
        #[cfg(feature = "email")]
        Arc::new(nanobot_channel_email::EmailFactory::new(Arc::new(
            nanobot_extract::HelperProcess::new(),
        ))),
        #[cfg(feature = "feishu")]
        Arc::new(nanobot_channel_feishu::FeishuFactory::new()),
        #[cfg(feature = "matrix")]
        Arc::new(nanobot_channel_matrix::MatrixFactory::new()),
        #[cfg(feature = "mochat")]
        Arc::new(nanobot_channel_mochat::MochatFactory::new()),
        #[cfg(feature = "qq")]
        Arc::new(nanobot_channel_qq::QqFactory::new()),
        #[cfg(feature = "slack")]
        Arc::new(nanobot_channel_slack::SlackFactory::new()),
        #[cfg(feature = "telegram")]
        Arc::new(nanobot_channel_telegram::TelegramFactory::new()),
        #[cfg(feature = "wecom")]
        Arc::new(nanobot_channel_wecom::WeComFactory::new()),
        #[cfg(feature = "whatsapp")]
        Arc::new(nanobot_channel_whatsapp::WhatsAppFactory::new()),
        #[cfg(feature = "websocket")]
        Arc::new(nanobot_channel_websocket::WebSocketFactory),
    ]
}

/// Returns the names of the shipped platforms, in alphabetical order.
#[must_use]
pub fn shipped_platforms() -> Vec<&'static str> {
    let mut kinds: Vec<&str> = channels().iter().map(|factory| factory.kind()).collect();
    kinds.sort_unstable();
    kinds
}
