//! The key `replyDelayMode`.

use nanobot_channel::Value;
use nanobot_channel_kit::settings::Setting;
use serde::Deserialize;
use serde_json::json;

/// The messages of panels that are collected before they are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyDelayMode {
    /// Messages without a mention of the agent.
    #[default]
    NonMention,
    /// None.
    Off,
}

impl Setting for ReplyDelayMode {
    const EXPECTED: &'static str = "write \"non-mention\" or \"off\"";

    fn shown(&self) -> Value {
        match self {
            Self::NonMention => "non-mention".into(),
            Self::Off => "off".into(),
        }
    }

    fn schema() -> Value {
        json!({"enum": ["non-mention", "off"]})
    }
}
