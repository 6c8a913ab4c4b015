//! Messages that cross the bus, inbound and outbound, and where their replies belong.

use serde::{Deserialize, Serialize};

use crate::{
    ChannelName, ChatAddress, ChatId, Map, MessageId, Origin, OutboundSlot, SenderId, SessionKey,
    StreamId, Timestamp, TraceId, TurnActivity,
};

/// Key of the origin of a message or a tool result that strangers may have written, in the metadata
/// of the message and in the log entry of the result.
pub const UNTRUSTED_KEY: &str = "untrusted";

/// Metadata key of the message of a job that names its place in the chat, which may be none of the
/// threads. Otherwise the place is that where people last wrote.
pub const PLACED_KEY: &str = "placed";

/// Key of the only line that a person wrote themselves, in the metadata of a message whose text also
/// has what a program added, such as a heading, a quotation or a signature. It can answer a question.
pub const OWN_LINE_KEY: &str = "own_line";

/// A file or URL attached to a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MediaRef {
    /// An absolute local path, or an `http(s)` URL.
    pub location: String,
    /// Media type (`image/png`), if the platform reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

impl MediaRef {
    /// Creates a reference without a media type.
    pub fn new(location: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            mime: None,
        }
    }
}

/// Place of a reply within a chat. Kept per session, so that unsolicited messages go to the same
/// thread.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliveryContext {
    /// Thread or topic within the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The message to quote, if the channel supports quoting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// Further data that the platform needs to send a reply.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map,
}

/// A message to the assistant, from a person or from the assistant itself (see [`Origin`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    /// The platform's id. A message without an id is never treated as a duplicate.
    pub id: Option<MessageId>,
    /// The channel instance that received it.
    pub channel: ChannelName,
    /// The sender.
    pub sender_id: SenderId,
    /// The conversation.
    pub chat_id: ChatId,
    /// The text.
    pub content: String,
    /// Time at which it was received.
    pub timestamp: Timestamp,
    /// Attached files, already stored locally.
    #[serde(default)]
    pub media: Vec<MediaRef>,
    /// Platform metadata, which replies carry unchanged.
    #[serde(default)]
    pub metadata: Map,
    /// The session, if it is not the chat's default session.
    #[serde(default)]
    pub session_key_override: Option<SessionKey>,
    /// Origin: a person, or the assistant itself.
    #[serde(default)]
    pub origin: Origin,
    /// Place in the chat where a reply belongs.
    #[serde(default)]
    pub delivery: DeliveryContext,
    /// Kind of the conversation, if the channel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatKind>,
}

/// Kind of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    /// A conversation with one person.
    Direct,
    /// A conversation with several people.
    Group,
}

impl InboundMessage {
    /// Creates a text message from a person, received now.
    pub fn text(
        channel: impl Into<ChannelName>,
        sender: impl Into<SenderId>,
        chat: impl Into<ChatId>,
        content: impl Into<String>,
    ) -> Self {
        Self {
            id: None,
            channel: channel.into(),
            sender_id: sender.into(),
            chat_id: chat.into(),
            content: content.into(),
            timestamp: chrono::Local::now().fixed_offset(),
            media: Vec::new(),
            metadata: Map::new(),
            session_key_override: None,
            origin: Origin::User,
            delivery: DeliveryContext::default(),
            chat: None,
        }
    }

    /// Creates a text message for the chat and thread of an address, received now.
    pub fn at(
        address: ChatAddress,
        sender: impl Into<SenderId>,
        content: impl Into<String>,
    ) -> Self {
        Self {
            delivery: address.delivery,
            chat: address.chat,
            ..Self::text(address.channel, sender, address.chat_id, content)
        }
    }

    /// Returns the session of this message: the override if set, else `channel:chat_id`.
    /// `metadata["session_key"]` is never consulted.
    #[must_use]
    pub fn session_key(&self) -> SessionKey {
        self.session_key_override
            .clone()
            .unwrap_or_else(|| SessionKey::of_chat(&self.channel, &self.chat_id))
    }

    /// Returns the address of a reply.
    #[must_use]
    pub fn address(&self) -> ChatAddress {
        ChatAddress {
            channel: self.channel.clone(),
            chat_id: self.chat_id.clone(),
            delivery: self.delivery.clone(),
            chat: self.chat,
        }
    }

    /// Returns the id of this message in journals. It is unique over channels and chats, unlike
    /// [`InboundMessage::id`]. `None` exactly if the message has no id.
    #[must_use]
    pub fn journal_id(&self) -> Option<MessageId> {
        let part = |text: &str| text.replace('%', "%25").replace('/', "%2F");
        let place = || {
            format!(
                "{}/{}",
                part(self.channel.as_str()),
                part(self.chat_id.as_str())
            )
        };
        self.id
            .as_ref()
            .map(|id| MessageId::from(format!("{}/{id}", place())))
    }

    /// Returns the id of the turn that this message begins. It is the same after a restart if the
    /// message has an id.
    #[must_use]
    pub fn turn_id(&self) -> TraceId {
        self.journal_id()
            .map_or_else(|| TraceId::from("unnamed"), |id| TraceId::from(id.as_str()))
    }
}

/// Idempotency key of an outbound message: publishing it again under the same key changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OutboundKey {
    /// The turn that produced the message.
    pub turn: TraceId,
    /// The position of its [`OutboundSlot`] among the messages of that turn.
    pub position: u32,
}

impl OutboundKey {
    /// Creates the key of the message in a slot of a turn.
    pub fn new(turn: impl Into<TraceId>, slot: OutboundSlot) -> Self {
        Self {
            turn: turn.into(),
            position: slot.position(),
        }
    }

    /// `true` for the reply of the turn, `false` for everything that it sends in addition.
    #[must_use]
    pub fn is_reply(&self) -> bool {
        self.position == OutboundSlot::Reply.position()
    }
}

impl std::fmt::Display for OutboundKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.turn, self.position)
    }
}

/// Kind of an outbound message, from the reader's point of view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OutboundKind {
    /// A complete reply. Deltas streamed before it are decoration: losing one is cosmetic.
    Final,
    /// An intermediate thought. Lossy.
    Progress,
    /// The tools that are running. Lossy.
    ToolHint,
    /// A step of the turn, for terminals; platforms do not receive it. Lossy.
    Activity {
        /// The step.
        step: TurnActivity,
    },
    /// A piece of streamed text. Lossy.
    Delta {
        /// The run of text that the delta continues.
        stream: StreamId,
    },
    /// The end of a run of streamed text. Lossy.
    StreamEnd {
        /// The run that ended.
        stream: StreamId,
        /// `true` if the turn continues: tools run now and another stream follows.
        resuming: bool,
    },
    /// Withdraws a run of streamed text that turned out not to be a reply. No message will complete
    /// it, so the channel removes its draft. Lossy.
    Withdrawn {
        /// The run to withdraw.
        stream: StreamId,
    },
    /// The end of a turn, even of one that said nothing; the key names the turn. Has nothing to
    /// show. Lossy, and ordered after everything that the turn said.
    TurnEnd {
        /// Number of subagents of the session whose results are still to come.
        #[serde(default)]
        unfinished: u32,
    },
    /// A message from the program itself: an error, a restart, a limit.
    Notice,
    /// A question from the program itself, for which the turn waits.
    Question,
}

impl OutboundKind {
    /// `true` if the message goes through the ledger; all others may be dropped at any time.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Final | Self::Notice | Self::Question)
    }
}

/// A choice offered below a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// Text of the button, which is also the message sent when it is pressed.
    pub label: String,
}

/// A message on its way to a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboundMessage {
    /// The idempotency key.
    pub key: OutboundKey,
    /// The channel instance that delivers it.
    pub channel: ChannelName,
    /// The conversation.
    pub chat_id: ChatId,
    /// Markdown; the channel manager renders and splits it.
    pub content: String,
    /// Files and addresses to attach.
    #[serde(default)]
    pub media: Vec<MediaRef>,
    /// Metadata of the message it replies to, unchanged.
    #[serde(default)]
    pub metadata: Map,
    /// Place in the chat where it belongs.
    #[serde(default)]
    pub delivery: DeliveryContext,
    /// Kind of the message.
    pub kind: OutboundKind,
    /// The stream that this message completes, so that the live draft becomes the message instead
    /// of staying next to it. For [`OutboundKind::Progress`]: the stream that it repeats.
    #[serde(default)]
    pub completes: Option<StreamId>,
    /// Rows of buttons.
    #[serde(default)]
    pub buttons: Vec<Vec<Button>>,
}

impl OutboundMessage {
    /// Creates a message to the chat and thread of an address, without metadata.
    #[must_use]
    pub fn to(address: ChatAddress, key: OutboundKey, kind: OutboundKind, content: String) -> Self {
        Self {
            key,
            channel: address.channel,
            chat_id: address.chat_id,
            content,
            media: Vec::new(),
            metadata: Map::new(),
            delivery: address.delivery,
            kind,
            completes: None,
            buttons: Vec::new(),
        }
    }

    /// Creates a message to the chat and thread of `inbound`, carrying its metadata.
    #[must_use]
    pub fn in_reply_to(
        inbound: &InboundMessage,
        key: OutboundKey,
        kind: OutboundKind,
        content: String,
    ) -> Self {
        Self {
            metadata: inbound.metadata.clone(),
            ..Self::to(inbound.address(), key, kind, content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_comes_from_the_override_or_the_chat_only() {
        let mut message = InboundMessage::text("telegram", "7", "-100", "hi");
        message
            .metadata
            .insert("session_key".into(), "evil:1".into());
        assert_eq!(message.session_key(), SessionKey::from("telegram:-100"));
        message.session_key_override = Some("telegram:-100:topic:7".into());
        assert_eq!(
            message.session_key(),
            SessionKey::from("telegram:-100:topic:7")
        );
    }

    #[test]
    fn a_journal_id_is_unique_over_chats() {
        let mut message = InboundMessage::text("telegram", "7", "1", "hi");
        assert_eq!(message.journal_id(), None);
        assert_eq!(message.turn_id(), TraceId::from("unnamed"));
        message.id = Some("42".into());
        assert_eq!(message.journal_id(), Some(MessageId::from("telegram/1/42")));
        message.chat_id = "!a/b:c".into();
        assert_eq!(
            message.journal_id(),
            Some(MessageId::from("telegram/!a%2Fb:c/42"))
        );
        assert_eq!(message.turn_id(), TraceId::from("telegram/!a%2Fb:c/42"));
    }

    #[test]
    fn a_reply_goes_to_the_address_of_its_message() {
        let address = ChatAddress {
            delivery: DeliveryContext {
                thread: Some("7".to_owned()),
                reply_to: Some("9".into()),
                extra: Map::new(),
            },
            chat: Some(ChatKind::Group),
            ..ChatAddress::new("t", "-1")
        };
        let mut message = InboundMessage::at(address.clone(), "ann", "hi");
        assert_eq!(message.address(), address);
        message.metadata.insert("a".to_owned(), 1.into());
        let key = || OutboundKey::new(message.turn_id(), OutboundSlot::Reply);
        let to = OutboundMessage::to(address, key(), OutboundKind::Final, "x".to_owned());
        let reply =
            OutboundMessage::in_reply_to(&message, key(), OutboundKind::Final, "x".to_owned());
        let metadata = message.metadata.clone();
        assert_eq!(reply, OutboundMessage { metadata, ..to });
    }

    #[test]
    fn outbound_key_format_is_stable() {
        let key = OutboundKey::new("t", OutboundSlot::TurnEnd);
        assert_eq!(key.to_string(), "t/4294967295");
        let json = r#"{"turn":"t","position":4294967295}"#;
        assert_eq!(serde_json::to_string(&key).unwrap(), json);
        assert!(!key.is_reply() && OutboundKey::new("t", OutboundSlot::Reply).is_reply());
    }
}
