//! Vocabulary shared by every crate: ids, messages, transcripts, tool results.
//!
//! Decision: data only. Nothing here does I/O or needs an async runtime, so a channel, a tool or an
//! embedding program pays only for serde and chrono. Behaviour lives in the contract crates one
//! layer up (`bus`, `session`, `memory`, `tool`, `provider`, `channel`).
//!
//! ```
//! use nanobot_types::{InboundMessage, SessionKey};
//!
//! let message = InboundMessage::text("telegram", "ann", "42", "hello");
//! assert_eq!(message.session_key(), SessionKey::from("telegram:42"));
//! ```

mod activity;
mod address;
mod chain;
mod chat;
mod command;
mod event;
mod ids;
pub mod json;
mod message;
mod origin;
mod response;
mod slot;
mod tool;
mod transcript;

pub use activity::{MAX_ACTIVITY_OUTPUT, TurnActivity};
pub use address::{ChatAddress, TERMINAL_CHANNEL};
pub use chain::{chain, disk_failure, is_disk_failure};
pub use chat::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ImageUrl, ToolCall, ToolMessage,
    UserMessage,
};
pub use command::CommandInfo;
pub use event::Event;
pub use ids::{
    CallId, ChannelName, ChatId, JobId, MessageId, ModelId, ProviderName, SenderId, SessionKey,
    StreamId, ToolName, TraceId,
};
pub use message::{
    Button, ChatKind, DeliveryContext, InboundMessage, MediaRef, OWN_LINE_KEY, OutboundKey,
    OutboundKind, OutboundMessage, PLACED_KEY, UNTRUSTED_KEY,
};
pub use origin::{DeliveryWish, FiredJob, HEARTBEAT_SESSION, Origin, SessionKind};
pub use response::{FinishReason, LlmResponse, Usage};
pub use slot::{NoticeKind, OutboundSlot};
pub use tool::{
    Effect, Picture, PictureFormat, Severity, ToolResult, ToolSource, ToolSpec, WholeText,
};
pub use transcript::{INTERRUPTED_RESULT, RepairedTranscript, Transcript};

/// A JSON object with sorted keys, so that it always serializes to the same bytes.
pub type Map = serde_json::Map<String, serde_json::Value>;

/// A point in time with the UTC offset at which it was observed.
pub type Timestamp = chrono::DateTime<chrono::FixedOffset>;
