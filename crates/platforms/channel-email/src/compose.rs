//! Makes the mails that go out.
//!
//! Decision: every mail has a plain and an HTML form. Pictures are shown in the HTML form, other
//! files are attached, and addresses of files on the web are written down as they are: nothing is
//! fetched from there, neither here nor by the reader's program.

use std::path::Path;

use lettre::Message;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use nanobot_channel::{ChannelError, MediaRef, OutboundPart};

use crate::thread::Placement;

/// How much the files of a mail may have together, in bytes: encoded, they are a third larger, and
/// most servers take 25 MB.
const LARGEST: u64 = 18_000_000;

/// The types that programs for mail show as pictures.
const PICTURES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Types of other files, by their endings.
const TYPES: &[(&str, &str)] = &[
    ("pdf", "application/pdf"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("json", "application/json"),
    ("zip", "application/zip"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("mp4", "video/mp4"),
];

/// What a mail is besides its content.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) from: Mailbox,
    pub(crate) to: lettre::Address,
    pub(crate) id: String,
    pub(crate) placement: Placement,
}

/// A header that says that no person wrote a mail.
macro_rules! machine_header {
    ($name:ident, $header:literal) => {
        #[derive(Clone)]
        struct $name(&'static str);

        impl Header for $name {
            fn name() -> HeaderName {
                HeaderName::new_from_ascii_str($header)
            }

            fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
                Err("it is written only".into())
            }

            fn display(&self) -> HeaderValue {
                HeaderValue::new(Self::name(), self.0.to_owned())
            }
        }
    };
}

machine_header!(AutoSubmitted, "Auto-Submitted");
machine_header!(Suppress, "X-Auto-Response-Suppress");

/// The mail of a part, ready to be sent.
pub(crate) async fn compose(part: &OutboundPart, frame: &Frame) -> Result<Vec<u8>, ChannelError> {
    let files = if part.index == 0 {
        Files::load(&part.message.media).await
    } else {
        Files::default()
    };
    let choices = choices(part);
    let plain = [part.plain.trim_end(), &choices, &files.notes.join("\n")];
    let plain = plain
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n");
    let html = html(part, &choices, &files);
    let Placement {
        subject,
        references,
    } = &frame.placement;
    let is_answer = !references.is_empty();
    let mut builder = Message::builder()
        .from(frame.from.clone())
        .to(Mailbox::new(None, frame.to.clone()))
        .subject(subject.clone())
        .message_id(Some(frame.id.clone()))
        .date_now()
        .header(AutoSubmitted(if is_answer {
            "auto-replied"
        } else {
            "auto-generated"
        }))
        .header(Suppress("All"));
    if let Some(last) = references.last() {
        builder = builder
            .in_reply_to(last.clone())
            .references(references.join(" "));
    }
    let body = MultiPart::alternative().singlepart(SinglePart::plain(plain));
    let body = if files.pictures.is_empty() {
        body.singlepart(SinglePart::html(html))
    } else {
        let related = MultiPart::related().singlepart(SinglePart::html(html));
        body.multipart(
            files
                .pictures
                .into_iter()
                .fold(related, |related, file| related.singlepart(file.part)),
        )
    };
    let body = if files.others.is_empty() {
        body
    } else {
        let mixed = MultiPart::mixed().multipart(body);
        files
            .others
            .into_iter()
            .fold(mixed, |mixed, file| mixed.singlepart(file.part))
    };
    let message = builder
        .multipart(body)
        .map_err(|error| ChannelError::Refused(error.to_string()))?;
    Ok(message.formatted())
}

/// The choices in words, in the last part.
fn choices(part: &OutboundPart) -> String {
    if part.index + 1 != part.count {
        return String::new();
    }
    let rows = part.message.buttons.iter();
    let rows = rows.map(|row| {
        row.iter()
            .map(|button| format!("[{}]", button.label))
            .collect::<Vec<_>>()
            .join(" ")
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn html(part: &OutboundPart, choices: &str, files: &Files) -> String {
    let mut body = part.text.trim_end().to_owned();
    for line in choices
        .lines()
        .map(str::to_owned)
        .chain(files.notes.iter().cloned())
    {
        body.push_str(&format!("\n<p>{}</p>", escaped(&line)));
    }
    for picture in &files.pictures {
        body.push_str(&format!(
            "\n<p><img src=\"cid:{}\" alt=\"{}\"></p>",
            picture.id,
            escaped(&picture.name)
        ));
    }
    format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"></head><body>\n{body}\n</body></html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The files of a message, ready to be put into a mail.
#[derive(Default)]
struct Files {
    pictures: Vec<File>,
    others: Vec<File>,
    /// What stands for those that are not in the mail.
    notes: Vec<String>,
}

struct File {
    /// By which the HTML form shows it.
    id: String,
    name: String,
    part: SinglePart,
}

impl Files {
    async fn load(media: &[MediaRef]) -> Self {
        let (mut files, mut left) = (Self::default(), LARGEST);
        for (index, file) in media.iter().enumerate() {
            if is_address(&file.location) {
                files.notes.push(file.location.clone());
                continue;
            }
            let name = name_of(&file.location);
            match read(&file.location, left).await {
                Ok(bytes) => {
                    left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(left));
                    files.add(index, name, bytes, file.mime.as_deref());
                }
                Err(error) => {
                    tracing::warn!(%error, file = name, "a file could not be sent");
                    files.notes.push(format!("[Failed to send: {name}]"));
                }
            }
        }
        files
    }

    fn add(&mut self, index: usize, name: &str, bytes: Vec<u8>, mime: Option<&str>) {
        let ending = Path::new(name)
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        let ending = ending.to_ascii_lowercase();
        let named = |table: &[(&str, &'static str)]| {
            table
                .iter()
                .find(|(known, _)| *known == ending)
                .map(|(_, mime)| *mime)
        };
        let id = format!("file{index}@nanobot");
        let picture = named(PICTURES).or(PICTURES
            .iter()
            .map(|(_, mime)| *mime)
            .find(|known| Some(*known) == mime));
        if let Some(picture) = picture.and_then(|mime| ContentType::parse(mime).ok()) {
            let part =
                Attachment::new_inline_with_name(id.clone(), name.to_owned()).body(bytes, picture);
            self.pictures.push(File {
                id,
                name: name.to_owned(),
                part,
            });
            return;
        }
        let kind = mime
            .or(named(TYPES))
            .and_then(|mime| ContentType::parse(mime).ok());
        let kind = kind
            .or_else(|| ContentType::parse("application/octet-stream").ok())
            .unwrap_or(ContentType::TEXT_PLAIN);
        let part = Attachment::new(name.to_owned()).body(bytes, kind);
        self.others.push(File {
            id,
            name: name.to_owned(),
            part,
        });
    }
}

async fn read(path: &str, limit: u64) -> std::io::Result<Vec<u8>> {
    if tokio::fs::metadata(path).await?.len() > limit {
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "it is larger than a mail may be",
        ));
    }
    tokio::fs::read(path).await
}

fn is_address(location: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}

/// What people call a file: the last piece of its path.
fn name_of(location: &str) -> &str {
    location
        .rsplit(['/', '\\'])
        .find(|piece| !piece.is_empty())
        .unwrap_or("file")
}
