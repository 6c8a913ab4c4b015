//! The `message` tool: the assistant writes to a chat in the middle of a turn.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Bus, BusError};
use nanobot_guard::{PathPolicy, ResolvedPath};
use nanobot_redact::Secrets;
use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::{
    Button, ChannelName, ChatId, DeliveryContext, Effect, HEARTBEAT_SESSION, Map, MediaRef,
    OutboundKey, OutboundKind, OutboundMessage, SessionKey,
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

/// The largest attachment, in bytes. Channels have lower limits of their own.
const MAX_ATTACHMENT: u64 = 1 << 30;

/// The most attachments of one message.
const MAX_ATTACHMENTS: usize = 50;

/// Writes to a chat.
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

    /// A tool that hands its messages to `outbox` and attaches only files that `paths` lets it
    /// read. They are opened once, and copied below the folder `copies`, which has to be closed to
    /// tools: what is sent later is the copy.
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>, paths: Arc<PathPolicy>, copies: PathBuf) -> Self {
        Self {
            outbox,
            paths,
            secrets: Secrets::default(),
            copies,
        }
    }

    /// The same, hiding these secrets in what it sends.
    #[must_use]
    pub fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Choices with something written on them.
    fn rows(&self, labels: Vec<Vec<String>>) -> Vec<Vec<Button>> {
        let rows = labels.into_iter().map(|row| {
            let labels = row
                .into_iter()
                .map(|label| self.secrets.hide(label.trim()).into_owned());
            labels
                .filter(|label| !label.is_empty())
                .map(|label| Button { label })
                .collect::<Vec<_>>()
        });
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// Copies the files at `locations` and returns the attachments. An error leaves no copies.
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
        // All are checked before the first is copied.
        let mut files = Vec::with_capacity(locations.len());
        for location in locations {
            // The sender of the message knows the stickers.
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
                    .map_err(|error| unattached(&location, &error)),
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
    file.open().map_err(|error| unattached(location, &error))?;
    Ok(file)
}

fn unattached(location: &str, error: &io::Error) -> ToolError {
    ToolError::new(match error.kind() {
        io::ErrorKind::NotFound => format!("Message not sent: there is no file {location}"),
        io::ErrorKind::IsADirectory => format!("Message not sent: {location} is a folder"),
        _ => format!("Message not sent: {location} cannot be attached: {error}"),
    })
}

/// Removes the copies below `folder` of a message that is not sent.
fn discard(folder: &Path, media: &[MediaRef]) {
    let copies = media
        .iter()
        .map(|media| Path::new(&media.location))
        .filter(|copy| copy.starts_with(folder));
    for own in copies.filter_map(Path::parent) {
        if let Err(error) = std::fs::remove_dir_all(own) {
            tracing::warn!(%error, "a copy of an attachment could not be removed; retention will");
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

    async fn call(
        &self,
        arguments: MessageArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let channel =
            given(arguments.channel).map_or_else(|| context.channel.clone(), ChannelName::from);
        let chat_id =
            given(arguments.chat_id).map_or_else(|| context.chat_id.clone(), ChatId::from);
        if context.session.as_str() == HEARTBEAT_SESSION {
            return Err(
                "Nobody is written to from a heartbeat: answer with what its owner should know"
                    .into(),
            );
        }
        if channel.as_str().is_empty() || chat_id.as_str().is_empty() {
            return Err("No target channel/chat specified".into());
        }
        let here = channel == context.channel && chat_id == context.chat_id;
        let mut metadata = Map::new();
        if let Some(id) = context.message_id.as_ref().filter(|_| here) {
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
        let message = OutboundMessage {
            key: OutboundKey {
                turn: context.trace.clone(),
                position: context.position,
            },
            channel: channel.clone(),
            chat_id: chat_id.clone(),
            content: self.secrets.hide(&arguments.content).into_owned(),
            media,
            metadata,
            delivery: if here {
                context.delivery.clone()
            } else {
                DeliveryContext::default()
            },
            kind: OutboundKind::Final,
            completes: None,
            buttons: self.rows(arguments.buttons),
        };
        if let Err(error) = self.outbox.put(message).await {
            // A store that failed may hold the message all the same.
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

fn given(value: Option<String>) -> Option<String> {
    value
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}
