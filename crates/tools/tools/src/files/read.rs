//! `read_file`.

use std::{io::Read, sync::Arc};

use nanobot_extract::Extract;
use nanobot_guard::PathPolicy;
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, Picture, PictureFormat, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    not_utf8, pdf,
    picture::pixel_size,
    unreadable,
    window::{self, BUDGET, ReadError},
    with_policy,
};
use crate::operation::{Operation, answer};

/// Maximum size of a file that is read, even in part, in bytes.
const MAX_READ: u64 = 100 << 20;
/// Maximum size of a PDF document that is read, in bytes.
const MAX_PDF: u64 = 32 << 20;
/// The first bytes of a PDF document.
const PDF: &[u8] = b"%PDF-";

#[derive(Debug)]
pub(crate) struct ReadFile {
    policy: Arc<PathPolicy>,
    extractor: Arc<dyn Extract>,
}

#[derive(Deserialize)]
pub(crate) struct ReadArguments {
    pub(super) path: String,
    pub(super) offset: Option<u64>,
    limit: Option<u64>,
    /// Page of a PDF document to show as a picture.
    pub(super) pdf_page: Option<u32>,
}

impl ReadFile {
    pub(crate) const fn new(policy: Arc<PathPolicy>, extractor: Arc<dyn Extract>) -> Self {
        Self { policy, extractor }
    }
}

impl Operation for ReadFile {
    type Arguments = ReadArguments;
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str =
        "Read numbered lines of a text file or PDF, or see a picture.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line"},
                "limit": {"type": "integer"},
                "pdf_page": {"type": "integer"},
            },
            "required": ["path"],
        })
    }

    async fn run(&self, arguments: ReadArguments, context: &ToolContext) -> ToolResult {
        let arguments = Arc::new(arguments);
        let request = Arc::clone(&arguments);
        let content =
            with_policy(&self.policy, context, move |policy| open(policy, &request)).await;
        match content {
            Ok(Content::Text(text)) => ToolResult::ok(text),
            Ok(Content::Picture(text, picture)) => ToolResult::ok(text).with_picture(picture),
            Ok(Content::Pdf(document)) => pdf::read(&self.extractor, document, &arguments).await,
            Err(reason) => answer(Err(reason)),
        }
    }
}

/// The content of a file.
enum Content {
    /// The text to show.
    Text(String),
    /// A picture, with its description.
    Picture(String, Picture),
    /// A PDF document, whose text is yet to be extracted.
    Pdf(Vec<u8>),
}

fn open(policy: &PathPolicy, arguments: &ReadArguments) -> Result<Content, String> {
    let path = &arguments.path;
    let file = policy.read(path).map_err(|denied| denied.to_string())?;
    let mut file = file.open().map_err(|error| unreadable(path, &error))?;
    let size = file
        .metadata()
        .map_err(|error| unreadable(path, &error))?
        .len();
    if size > MAX_READ {
        return Err(format!(
            "{path} is too large to read ({size} bytes, at most {MAX_READ})"
        ));
    }
    let mut start = Vec::new();
    let mut take = |most: u64, start: &mut Vec<u8>| {
        (&mut file)
            .take(most)
            .read_to_end(start)
            .map_err(|error| unreadable(path, &error))
    };
    take(16, &mut start)?;
    if start.starts_with(PDF) {
        if size > MAX_PDF {
            return Err(format!(
                "{path} is too large to read ({size} bytes, at most {MAX_PDF} of a PDF document)"
            ));
        }
        take(MAX_PDF, &mut start)?;
        return Ok(Content::Pdf(start));
    }
    if let Some(format) = PictureFormat::of(&start) {
        take(Picture::MAX_BYTES as u64, &mut start)?;
        return Ok(picture(path, format, start, size));
    }
    if arguments.pdf_page.is_some() {
        return Err(format!("{path} is no PDF document: use offset and limit"));
    }
    lines(start.as_slice().chain(file), arguments).map(Content::Text)
}

/// Returns a picture for models that see, with a description for those that do not.
fn picture(path: &str, format: PictureFormat, bytes: Vec<u8>, size: u64) -> Content {
    let pixels = pixel_size(format, &bytes).map_or_else(String::new, |(width, height)| {
        format!(" of {width} × {height} pixels")
    });
    let name = match format {
        PictureFormat::Png => "PNG",
        PictureFormat::Jpeg => "JPEG",
        PictureFormat::Gif => "GIF",
        PictureFormat::WebP => "WebP",
    };
    let described = format!("({path} is a {name} picture{pixels}, {size} bytes.");
    if size > Picture::MAX_BYTES as u64 {
        let most = Picture::MAX_BYTES;
        return Content::Text(format!(
            "{described} It is too large to show, at most {most} bytes.)"
        ));
    }
    Content::Picture(described + ")", Picture { format, bytes })
}

/// Returns the requested lines of a text.
pub(super) fn lines(text: impl Read, arguments: &ReadArguments) -> Result<String, String> {
    let path = &arguments.path;
    let first = arguments.offset.unwrap_or(1).max(1);
    let limit = arguments.limit.unwrap_or(2000).max(1);
    let window = window::read(text, first, limit).map_err(|error| match error {
        ReadError::Io(error) => unreadable(path, &error),
        ReadError::NotUtf8 { offset } => not_utf8(path, offset),
    })?;
    let (total, last) = (window.total, window.last);
    if total == 0 {
        return Ok(format!("(Empty file: {path})"));
    }
    if first > total {
        return Err(format!(
            "offset {first} is beyond end of file ({total} lines)"
        ));
    }
    let mut text = window.shown;
    if let Some(length) = window.clipped {
        text.push_str(&format!(
            "\n\n(Line {first} has {length} characters; only the first {BUDGET} are shown.)"
        ));
    }
    let next = last + 1;
    text.push_str(&if last < total {
        format!("\n\n(Showing lines {first}-{last} of {total}. Use offset={next} to continue.)")
    } else {
        format!("\n\n(End of file — {total} lines total)")
    });
    Ok(text)
}
