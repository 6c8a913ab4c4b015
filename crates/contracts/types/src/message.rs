//! What crosses the bus: messages in, messages out, and where replies belong.

use serde::{Deserialize, Serialize};

use crate::{
    ChannelName, ChatId, JobId, Map, MessageId, SenderId, SessionKey, StreamId, Timestamp, TraceId,
};

/// A file or address that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MediaRef {
    /// An absolute local path, or an `http(s)` URL.
    pub location: String,
    /// The media type when the platform told it (`image/png`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

impl MediaRef {
    /// A reference whose media type is not known.
    pub fn new(location: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            mime: None,
        }
    }
}

/// What made a message: a person, or the assistant itself.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A person on a channel.
    #[default]
    User,
    /// A scheduled job that came due.
    Cron {
        /// The job.
        job: JobId,
    },
    /// The periodic check of `HEARTBEAT.md`.
    Heartbeat,
    /// A helper that finished.
    Subagent {
        /// Its id.
        id: String,
    },
}

/// The session in which the tasks of `HEARTBEAT.md` are worked on.
pub const HEARTBEAT_SESSION: &str = "heartbeat";

/// Where in a chat a reply belongs. Kept per session, so that messages nobody asked for find the
/// same thread.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliveryContext {
    /// A thread or topic inside the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The message to quote, where the channel quotes at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// What else the platform needs to reply.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map,
}

/// A message that somebody, or something, sent to the assistant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    /// The platform's id; a message without one is never a duplicate.
    pub id: Option<MessageId>,
    /// The channel instance it came through.
    pub channel: ChannelName,
    /// Who sent it.
    pub sender_id: SenderId,
    /// The conversation.
    pub chat_id: ChatId,
    /// Its text.
    pub content: String,
    /// When it was received.
    pub timestamp: Timestamp,
    /// Files that came with it, already stored locally.
    #[serde(default)]
    pub media: Vec<MediaRef>,
    /// Platform facts that replies carry back.
    #[serde(default)]
    pub metadata: Map,
    /// The session, when it is not the chat's own.
    #[serde(default)]
    pub session_key_override: Option<SessionKey>,
    /// Who or what made it.
    #[serde(default)]
    pub origin: Origin,
    /// Where a reply belongs.
    #[serde(default)]
    pub delivery: DeliveryContext,
    /// Who else hears it, where the channel says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatKind>,
}

/// What kind of conversation a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    /// One person.
    Direct,
    /// Several people.
    Group,
}

impl InboundMessage {
    /// A message of a person, received now, with nothing but text.
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

    /// The session this message belongs to: the override first, else `channel:chat_id`.
    /// `metadata["session_key"]` is never consulted.
    #[must_use]
    pub fn session_key(&self) -> SessionKey {
        self.session_key_override
            .clone()
            .unwrap_or_else(|| SessionKey::of_chat(&self.channel, &self.chat_id))
    }

    /// The id under which journals know this message: unique over channels and chats, unlike
    /// [`InboundMessage::id`]. `None` exactly when the message has no id.
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
}

/// Names one outbound message for ever, so that publishing it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OutboundKey {
    /// The turn that made it.
    pub turn: TraceId,
    /// Its position among the messages of that turn.
    pub position: u32,
}

impl std::fmt::Display for OutboundKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.turn, self.position)
    }
}

/// What an outbound message is to the person who reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OutboundKind {
    /// A complete reply. Everything streamed before it is decoration.
    Final,
    /// A thought on the way. Lossy.
    Progress,
    /// Which tools run. Lossy.
    ToolHint,
    /// A piece of streamed text. Lossy.
    Delta {
        /// The run of text it continues.
        stream: StreamId,
    },
    /// The end of a run of streamed text. Lossy.
    StreamEnd {
        /// The run that ended.
        stream: StreamId,
        /// The turn goes on: tools run now and another stream follows.
        resuming: bool,
    },
    /// A run of streamed text is no reply and will be completed by none: what was shown of it is to go.
    /// Lossy.
    Withdrawn {
        /// The run.
        stream: StreamId,
    },
    /// The turn is over, whether or not it said anything; its key names it. Nothing to show.
    /// Lossy, and behind everything the turn said.
    TurnEnd {
        /// How many subagents of the session are not done with: their results are still to come.
        #[serde(default)]
        unfinished: u32,
    },
    /// Something the assistant says on its own behalf: an error, a restart, a limit.
    Notice,
}

impl OutboundKind {
    /// Whether the message goes through the ledger; the others may be dropped at any time.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Final | Self::Notice)
    }
}

/// A choice offered below a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// What the person reads, and what comes back as a message when it is pressed.
    pub label: String,
}

/// A message on its way to a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboundMessage {
    /// Its name for ever.
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
    /// The metadata of the message it answers, unchanged.
    #[serde(default)]
    pub metadata: Map,
    /// Where in the chat it belongs.
    #[serde(default)]
    pub delivery: DeliveryContext,
    /// What it is to the reader.
    pub kind: OutboundKind,
    /// The stream this message completes, or repeats when it is a thought, so that a live draft becomes it instead of standing
    /// beside it.
    #[serde(default)]
    pub completes: Option<StreamId>,
    /// Rows of choices.
    #[serde(default)]
    pub buttons: Vec<Vec<Button>>,
}

impl OutboundMessage {
    /// A message to the place `inbound` came from, carrying its metadata and thread.
    #[must_use]
    pub fn in_reply_to(
        inbound: &InboundMessage,
        key: OutboundKey,
        kind: OutboundKind,
        content: String,
    ) -> Self {
        Self {
            key,
            channel: inbound.channel.clone(),
            chat_id: inbound.chat_id.clone(),
            content,
            media: Vec::new(),
            metadata: inbound.metadata.clone(),
            delivery: inbound.delivery.clone(),
            kind,
            completes: None,
            buttons: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_override_wins_over_the_chat_and_metadata_is_never_consulted() {
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
        message.id = Some("42".into());
        assert_eq!(message.journal_id(), Some(MessageId::from("telegram/1/42")));
        message.chat_id = "!a/b:c".into();
        assert_eq!(
            message.journal_id(),
            Some(MessageId::from("telegram/!a%2Fb:c/42"))
        );
    }
}
