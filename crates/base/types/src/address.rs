//! The address of an outbound message.

use serde::{Deserialize, Serialize};

use crate::{ChannelName, ChatId, ChatKind, DeliveryContext};

/// Channel of the terminal, which shows replies only while a person waits there.
pub const TERMINAL_CHANNEL: &str = "cli";
/// Chat of the terminal's own conversation.
const TERMINAL_CHAT: &str = "direct";

/// Address of a message: a chat on a channel, and the thread in it. As JSON it is the location that
/// a session's metadata contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatAddress {
    /// The channel instance.
    pub channel: ChannelName,
    /// The chat on that channel.
    pub chat_id: ChatId,
    /// The thread in the chat, and further data that the platform needs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: DeliveryContext,
    /// The kind of chat, which tells who else reads it; `None` if the channel did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatKind>,
}

fn is_default(delivery: &DeliveryContext) -> bool {
    *delivery == DeliveryContext::default()
}

impl ChatAddress {
    /// Creates the address of a chat of unknown kind, outside of any thread.
    pub fn new(channel: impl Into<ChannelName>, chat: impl Into<ChatId>) -> Self {
        Self {
            channel: channel.into(),
            chat_id: chat.into(),
            delivery: DeliveryContext::default(),
            chat: None,
        }
    }

    /// Returns the address of the terminal's own conversation.
    #[must_use]
    pub fn terminal() -> Self {
        Self::new(TERMINAL_CHANNEL, TERMINAL_CHAT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_json_is_stable() {
        let mut address = ChatAddress::new("t", "-1");
        let written = |address: &ChatAddress| serde_json::to_string(address).unwrap();
        assert_eq!(written(&address), r#"{"channel":"t","chatId":"-1"}"#);
        let terminal = r#"{"channel":"cli","chatId":"direct"}"#;
        assert_eq!(written(&ChatAddress::terminal()), terminal);
        address.delivery.thread = Some("7".to_owned());
        address.chat = Some(ChatKind::Group);
        let json = r#"{"channel":"t","chatId":"-1","delivery":{"thread":"7"},"chat":"group"}"#;
        assert_eq!(written(&address), json);
        assert_eq!(serde_json::from_str::<ChatAddress>(json).unwrap(), address);
    }
}
