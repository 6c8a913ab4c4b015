//! Tool specifications as the model sees them, and tool results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ToolName;

/// Effect of running a tool a second time. It decides what happens to a call without a recorded
/// result after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing: the call may be repeated, and may run in parallel with others.
    Pure,
    /// Running twice leaves the same state as running once: the call may be repeated.
    Idempotent,
    /// Running twice may do harm: the call is never repeated automatically.
    Irreversible,
}

/// Origin of a tool; built-in tools come first in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolSource {
    /// Part of the program.
    BuiltIn,
    /// An MCP server, or a tool the assistant wrote.
    External,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The tool's name.
    pub name: ToolName,
    /// Description for the model.
    pub description: String,
    /// JSON schema of the arguments; an object schema.
    pub parameters: serde_json::Value,
    /// Effect of running it again.
    pub effect: Effect,
    /// Origin of the tool.
    pub source: ToolSource,
}

/// Severity of a failed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information only.
    Info,
    /// Part of the work was not done.
    Warning,
    /// The work was not done.
    Error,
    /// Continuing makes no sense.
    Fatal,
}

/// The result of running a tool. The model reads `output`, whether or not `success` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// `true` if the tool did what was asked.
    pub success: bool,
    /// The result, or the error, as text for the model.
    pub output: String,
    /// Advice on what to try instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Severity of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// `true` if the same call may succeed later.
    #[serde(default)]
    pub should_retry: bool,
    /// `true` if nothing was done, because a person has to confirm the call first. It is run again
    /// once a person did.
    #[serde(default)]
    pub requires_user_confirmation: bool,
    /// The origin of the output (such as `web_fetch`), if strangers may have written it. What the
    /// turn does afterwards may be what they want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrusted: Option<String>,
    /// Pictures that belong to the result, for models that see.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
    /// The full text, if `output` shows only a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeText>,
    /// The change of a file, as a unified diff, for people who watch the turn. Models do not
    /// receive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// A picture of a tool result.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its format.
    pub format: PictureFormat,
    /// The content of its file, at most [`Picture::MAX_BYTES`].
    pub bytes: Vec<u8>,
}

impl Picture {
    /// Maximum size of a picture that models receive, in bytes: the limit of the strictest vendor.
    pub const MAX_BYTES: usize = 5 << 20;
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture")
            .field("format", &self.format)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// A format of pictures that models receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF; models see its first picture.
    Gif,
    /// WebP.
    WebP,
}

impl PictureFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::WebP];

    /// Recognises a format by the first 12 bytes of a file, because file names and the types that
    /// others report are unreliable.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let is_webp = || bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        match bytes {
            _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Self::Png),
            _ if bytes.starts_with(b"\xff\xd8\xff") => Some(Self::Jpeg),
            _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some(Self::Gif),
            _ if is_webp() => Some(Self::WebP),
            _ => None,
        }
    }

    /// Returns the media type.
    #[must_use]
    pub const fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    /// Returns the extension of file names, without a dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::WebP => "webp",
        }
    }
}

/// A text that is too long for a prompt, kept so that the model can read the rest of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeText {
    /// The text.
    pub text: String,
    /// Number of characters from the beginning that the result shows.
    pub shown: usize,
    /// `false` if a part of the text was already lost.
    pub is_complete: bool,
}

impl ToolResult {
    /// Creates a successful result.
    pub fn ok(output: impl Into<String>) -> Self {
        Self {
            success: true,
            output: output.into(),
            remedy: None,
            severity: None,
            should_retry: false,
            requires_user_confirmation: false,
            untrusted: None,
            pictures: Vec::new(),
            whole: None,
            change: None,
        }
    }

    /// Creates a failed result. `output` is shown to the model unchanged; by convention it begins
    /// with `Error`.
    pub fn error(output: impl Into<String>) -> Self {
        Self {
            success: false,
            severity: Some(Severity::Error),
            ..Self::ok(output)
        }
    }

    /// Adds a picture.
    #[must_use]
    pub fn with_picture(mut self, picture: Picture) -> Self {
        self.pictures.push(picture);
        self
    }

    /// Marks the output as one that strangers may have written.
    #[must_use]
    pub fn from_strangers(mut self, origin: impl Into<String>) -> Self {
        self.untrusted = Some(origin.into());
        self
    }

    /// Adds advice on what to try instead.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
