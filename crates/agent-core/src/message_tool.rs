//! The `message` tool: the assistant writes to a chat in the middle of a turn.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Bus, BusError};
use nanobot_guard::PathPolicy;
use nanobot_redact::Secrets;
use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::{
    Button, ChannelName, ChatId, DeliveryContext, Effect, HEARTBEAT_SESSION, Map, MediaRef, OutboundKey, OutboundKind,
    OutboundMessage,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Why a message was not taken, in words for the model.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Nobody delivers to that channel here.
    #[error("{0}")]
    Unreachable(String),
    /// The message store failed.
    #[error("the message could not be stored")]
    Bus(#[from] BusError),
}

/// Takes messages to chats. A bus is one; a terminal session has its own.
#[async_trait]
pub trait Outbox: Send + Sync + std::fmt::Debug {
    /// Takes a message. `Ok` means that it is on its way for good; a second message under the
    /// same key changes nothing.
    async fn put(&self, message: OutboundMessage) -> Result<(), OutboxError>;
}

#[async_trait]
impl Outbox for Arc<dyn Bus> {
    async fn put(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        self.publish_outbound(message).await?;
        Ok(())
    }
}

/// How a successful result begins; the agent recognises by it that a chat was answered.
const SENT: &str = "Message sent to ";

/// Whether `output` of the `message` tool says that `channel` and `chat` were written to.
pub(crate) fn reached(output: &str, channel: &ChannelName, chat: &ChatId) -> bool {
    output
        .strip_prefix(SENT)
        .and_then(|target| target.strip_prefix(&format!("{channel}:{chat}")))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(" with "))
}

/// Writes to a chat.
#[derive(Debug)]
pub struct MessageTool {
    outbox: Arc<dyn Outbox>,
    paths: Arc<PathPolicy>,
    secrets: Secrets,
}

impl MessageTool {
    /// The name under which the tool is registered.
    pub const NAME: &'static str = "message";

    /// A tool that hands its messages to `outbox` and attaches only files that `paths` lets it
    /// read.
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>, paths: Arc<PathPolicy>) -> Self {
        Self { outbox, paths, secrets: Secrets::default() }
    }

    /// The same, hiding these secrets in what it sends.
    #[must_use]
    pub fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Choices with something written on them.
    fn rows(&self, labels: Vec<Vec<String>>) -> Vec<Vec<Button>> {
        let rows = labels.into_iter().map(|row| {
            let labels = row.into_iter().map(|label| self.secrets.hide(label.trim()).into_owned());
            labels.filter(|label| !label.is_empty()).map(|label| Button { label }).collect::<Vec<_>>()
        });
        rows.filter(|row| !row.is_empty()).collect()
    }

    fn attachment(&self, location: String) -> Result<MediaRef, ToolError> {
        // Whoever sends the message knows the stickers.
        let is_sticker = location.starts_with("[sticker:") && location.ends_with(']');
        if location.starts_with("https://") || location.starts_with("http://") || is_sticker {
            return Ok(MediaRef::new(location));
        }
        let resolved = self.paths.read(&location).map_err(|denied| ToolError::new(denied.to_string()))?;
        Ok(MediaRef::new(resolved.path().to_string_lossy()))
    }
}

/// Arguments of `message`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MessageArguments {
    content: String,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    chat_id: Option<String>,
    /// Paths of files
    #[serde(default)]
    media: Vec<String>,
    /// Rows of choices
    #[serde(default)]
    buttons: Vec<Vec<String>>,
}

impl TypedTool for MessageTool {
    type Args = MessageArguments;
    const NAME: &'static str = Self::NAME;
    const DESCRIPTION: &'static str =
        "Send a message or files now, by default to this chat. Answer it by plain text instead.";
    // Publishing is idempotent by its key, which is the place of the call in its turn.
    const EFFECT: Effect = Effect::Idempotent;

    async fn call(&self, arguments: MessageArguments, context: &ToolContext) -> Result<String, ToolError> {
        let channel = given(arguments.channel).map_or_else(|| context.channel.clone(), ChannelName::from);
        let chat_id = given(arguments.chat_id).map_or_else(|| context.chat_id.clone(), ChatId::from);
        if context.session.as_str() == HEARTBEAT_SESSION {
            return Err("Nobody is written to from a heartbeat: answer with what its owner should know".into());
        }
        if channel.as_str().is_empty() || chat_id.as_str().is_empty() {
            return Err("No target channel/chat specified".into());
        }
        let here = channel == context.channel && chat_id == context.chat_id;
        let mut metadata = Map::new();
        if let Some(id) = context.message_id.as_ref().filter(|_| here) {
            metadata.insert("message_id".to_owned(), id.as_str().into());
        }
        let media: Vec<MediaRef> =
            arguments.media.into_iter().map(|location| self.attachment(location)).collect::<Result<_, _>>()?;
        let attachments = media.len();
        let message = OutboundMessage {
            key: OutboundKey { turn: context.trace.clone(), position: context.position },
            channel: channel.clone(),
            chat_id: chat_id.clone(),
            content: self.secrets.hide(&arguments.content).into_owned(),
            media,
            metadata,
            delivery: if here { context.delivery.clone() } else { DeliveryContext::default() },
            kind: OutboundKind::Final,
            completes: None,
            buttons: self.rows(arguments.buttons),
        };
        self.outbox.put(message).await.map_err(|error| ToolError::new(format!("Message not sent: {error}")))?;
        Ok(match attachments {
            0 => format!("{SENT}{channel}:{chat_id}"),
            count => format!("{SENT}{channel}:{chat_id} with {count} attachments"),
        })
    }
}

fn given(value: Option<String>) -> Option<String> {
    value.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
