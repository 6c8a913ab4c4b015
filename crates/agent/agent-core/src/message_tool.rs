//! The `message` tool: sends a message to a chat in the middle of a turn.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Bus, BusError};
use nanobot_guard::{PathPolicy, ResolvedPath};
use nanobot_redact::Secrets;
use nanobot_tool::{CallReview, CallRisk, ToolContext, ToolError, TypedTool};
use nanobot_types::{
    Button, ChannelName, ChatAddress, ChatId, Effect, Map, MediaRef, OutboundKey, OutboundKind,
    OutboundMessage, OutboundSlot, SessionKey, SessionKind,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The reason why a message was not accepted, worded for the model.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// No channel of that name is running here.
    #[error("{0}")]
    Unreachable(String),
    /// The message store failed.
    #[error("the message could not be stored")]
    Bus(#[from] BusError),
}

/// Delivers messages to chats. A bus is one implementation; a terminal session has its own.
#[async_trait]
pub trait Outbox: Send + Sync + std::fmt::Debug {
    /// Accepts a message. `Ok` means that the message is durably queued. A second message under the
    /// same key has no effect.
    async fn enqueue(&self, message: OutboundMessage) -> Result<(), OutboxError>;
}

#[async_trait]
impl Outbox for Arc<dyn Bus> {
    async fn enqueue(&self, message: OutboundMessage) -> Result<(), OutboxError> {
        self.publish_outbound(message).await?;
        Ok(())
    }
}

/// Prefix of a successful result. The agent uses it to recognise that a chat was answered.
const SENT: &str = "Message sent to ";

/// Returns `true` if `output` of the `message` tool says that a message was sent to `chat` on
/// `channel`.
#[must_use]
pub fn was_sent_to(output: &str, channel: &ChannelName, chat: &ChatId) -> bool {
    output
        .strip_prefix(SENT)
        .and_then(|target| target.strip_prefix(&format!("{channel}:{chat}")))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(" with "))
}

/// Maximum size of an attachment, in bytes. Channels have lower limits of their own.
const MAX_ATTACHMENT: u64 = 1 << 30;

/// Maximum number of attachments of one message.
const MAX_ATTACHMENTS: usize = 50;

/// The `message` tool.
#[derive(Debug)]
pub struct MessageTool {
    outbox: Arc<dyn Outbox>,
    paths: Arc<PathPolicy>,
    secrets: Secrets,
    copies: PathBuf,
}

impl MessageTool {
    /// The name under which the tool is registered.
    pub const NAME: &'static str = "message";

    /// Creates a tool that sends its messages to `outbox` and attaches only files that `paths`
    /// allows it to read. Each file is opened once and copied below the folder `copies`; the copy
    /// is what is sent later. Tools must have no access to `copies`.
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>, paths: Arc<PathPolicy>, copies: PathBuf) -> Self {
        Self {
            outbox,
            paths,
            secrets: Secrets::default(),
            copies,
        }
    }

    /// Redacts these secrets in the messages it sends.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Converts rows of labels into rows of buttons, without blank labels and empty rows.
    fn rows(&self, labels: Vec<Vec<String>>) -> Vec<Vec<Button>> {
        let rows = labels.into_iter().map(|row| {
            let labels = row
                .into_iter()
                .map(|label| self.secrets.redact(label.trim()).into_owned());
            labels
                .filter(|label| !label.is_empty())
                .map(|label| Button { label })
                .collect::<Vec<_>>()
        });
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// Copies the files at `locations` and returns the attachments. On an error no copies remain.
    fn attachments(
        &self,
        locations: Vec<String>,
        session: &SessionKey,
    ) -> Result<Vec<MediaRef>, ToolError> {
        if locations.len() > MAX_ATTACHMENTS {
            return Err(ToolError::new(format!(
                "Message not sent: at most {MAX_ATTACHMENTS} attachments"
            )));
        }
        let paths = self
            .paths
            .within(session.as_str())
            .map_err(|denied| ToolError::new(denied.to_string()))?;
        // Check all files before copying the first one.
        let mut files = Vec::with_capacity(locations.len());
        for location in locations {
            // Stickers are resolved by the channel that sends the message.
            let is_sticker = location.starts_with("[sticker:") && location.ends_with(']');
            let is_address = location.starts_with("https://") || location.starts_with("http://");
            let file = match is_address || is_sticker {
                true => None,
                false => Some(readable(&paths, &location)?),
            };
            files.push((location, file));
        }
        let mut media: Vec<MediaRef> = Vec::with_capacity(files.len());
        for (location, file) in files {
            let copied = match file {
                None => Ok(MediaRef::new(location)),
                Some(file) => file
                    .snapshot(&self.copies, MAX_ATTACHMENT)
                    .map(|copy| MediaRef::new(copy.to_string_lossy()))
                    .map_err(|error| attachment_error(&location, &error)),
            };
            match copied {
                Ok(reference) => media.push(reference),
                Err(error) => {
                    discard(&self.copies, &media);
                    return Err(error);
                }
            }
        }
        Ok(media)
    }
}

fn readable(paths: &PathPolicy, location: &str) -> Result<ResolvedPath, ToolError> {
    let file = paths
        .read(location)
        .map_err(|denied| ToolError::new(denied.to_string()))?;
    file.open()
        .map_err(|error| attachment_error(location, &error))?;
    Ok(file)
}

fn attachment_error(location: &str, error: &io::Error) -> ToolError {
    ToolError::new(match error.kind() {
        io::ErrorKind::NotFound => format!("Message not sent: there is no file {location}"),
        io::ErrorKind::IsADirectory => format!("Message not sent: {location} is a folder"),
        _ => format!("Message not sent: {location} cannot be attached: {error}"),
    })
}

/// Removes the copies below `folder` that belong to a message that is not sent.
fn discard(folder: &Path, media: &[MediaRef]) {
    let copies = media
        .iter()
        .map(|media| Path::new(&media.location))
        .filter(|copy| copy.starts_with(folder));
    for own in copies.filter_map(Path::parent) {
        if let Err(error) = std::fs::remove_dir_all(own) {
            tracing::warn!(%error, "could not remove a copied attachment; retention will remove it");
        }
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
    // Its type says that these are rows; a comment for the model would only cost.
    #[serde(default)]
    buttons: Vec<Vec<String>>,
}

impl TypedTool for MessageTool {
    type Args = MessageArguments;
    const NAME: &'static str = Self::NAME;
    // The guidelines of the system prompt say that this chat is answered by plain text.
    const DESCRIPTION: &'static str = "Send a message or files now, by default to this chat.";
    // Publishing is idempotent: its key is the turn and the position of the call in it.
    const EFFECT: Effect = Effect::Idempotent;

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        let text = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
        };
        let (channel, chat_id) = target(text("channel"), text("chat_id"), context);
        if channel == context.channel && chat_id == context.chat_id {
            return CallReview::default();
        }
        let target = format!("{channel}:{chat_id}");
        CallReview {
            risk: CallRisk::NeedsConsent("writes to another chat".to_owned()),
            destination: Some(target.clone()),
            ..CallReview::default()
        }
        .with_rule(format!("to {target}"))
    }

    async fn call(
        &self,
        arguments: MessageArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let (channel, chat_id) = target(arguments.channel, arguments.chat_id, context);
        if context.session.kind() == SessionKind::Heartbeat {
            return Err(
                "A heartbeat cannot send messages: answer with what the user should know".into(),
            );
        }
        if channel.as_str().is_empty() || chat_id.as_str().is_empty() {
            return Err("No target channel/chat specified".into());
        }
        let is_same_chat = channel == context.channel && chat_id == context.chat_id;
        let mut metadata = Map::new();
        if let Some(id) = context.message_id.as_ref().filter(|_| is_same_chat) {
            metadata.insert("message_id".to_owned(), id.as_str().into());
        }
        let media = match arguments.media {
            none if none.is_empty() => Vec::new(),
            locations => {
                let (outbox, paths, copies) =
                    (self.outbox.clone(), self.paths.clone(), self.copies.clone());
                let tool = Self::new(outbox, paths, copies);
                let session = context.session.clone();
                let copying =
                    tokio::task::spawn_blocking(move || tool.attachments(locations, &session));
                copying
                    .await
                    .map_err(|error| ToolError::new(error.to_string()))??
            }
        };
        let (attachments, copies) = (media.len(), media.clone());
        let mut address = ChatAddress::new(channel.clone(), chat_id.clone());
        if is_same_chat {
            address.delivery = context.delivery.clone();
        }
        let key = OutboundKey::new(context.trace.clone(), OutboundSlot::Tool(context.position));
        let content = self.secrets.redact(&arguments.content).into_owned();
        let message = OutboundMessage {
            media,
            metadata,
            buttons: self.rows(arguments.buttons),
            ..OutboundMessage::to(address, key, OutboundKind::Final, content)
        };
        if let Err(error) = self.outbox.enqueue(message).await {
            // On any other error the store may hold the message after all, so the copies stay.
            if let OutboxError::Unreachable(_) = error {
                discard(&self.copies, &copies);
            }
            return Err(ToolError::new(format!("Message not sent: {error}")));
        }
        Ok(match attachments {
            0 => format!("{SENT}{channel}:{chat_id}"),
            count => format!("{SENT}{channel}:{chat_id} with {count} attachments"),
        })
    }
}

/// Returns the chat of a message: the given one, or the chat of the turn.
fn target(
    channel: Option<String>,
    chat_id: Option<String>,
    context: &ToolContext,
) -> (ChannelName, ChatId) {
    (
        non_blank(channel).map_or_else(|| context.channel.clone(), ChannelName::from),
        non_blank(chat_id).map_or_else(|| context.chat_id.clone(), ChatId::from),
    )
}

fn non_blank(value: Option<String>) -> Option<String> {
    value
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}
