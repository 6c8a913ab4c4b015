//! Files of outgoing mails.
//!
//! Decision: pictures are shown in the HTML form, other files are attached, and addresses of files
//! on the web are written down as they are: nothing is fetched from there, neither here nor by the
//! reader's program.

use std::path::Path;

use lettre::message::header::ContentType;
use lettre::message::{Attachment, SinglePart};
use nanobot_channel::MediaRef;

/// Maximum size of the files of a mail together, in bytes: encoded, they are a third larger, and
/// most servers accept 25 MB.
const LARGEST: u64 = 18_000_000;

/// Types that mail programs show as pictures.
const PICTURES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Types of other files, by their extensions.
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

/// The files of a message, as parts of a mail.
#[derive(Default)]
pub(crate) struct OutgoingFiles {
    pub(crate) pictures: Vec<FilePart>,
    pub(crate) others: Vec<FilePart>,
    /// Lines about files that are not in the mail.
    pub(crate) notes: Vec<String>,
}

pub(crate) struct FilePart {
    /// The id in the HTML form.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) part: SinglePart,
}

impl OutgoingFiles {
    /// Reads the files of a message.
    pub(crate) async fn load(media: &[MediaRef]) -> Self {
        let (mut files, mut left) = (Self::default(), LARGEST);
        for (index, file) in media.iter().enumerate() {
            if is_url(&file.location) {
                files.notes.push(file.location.clone());
                continue;
            }
            let name = file_name(&file.location);
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
            self.pictures.push(FilePart {
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
        self.others.push(FilePart {
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

fn is_url(location: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}

/// Returns the last component of a path.
fn file_name(location: &str) -> &str {
    location
        .rsplit(['/', '\\'])
        .find(|piece| !piece.is_empty())
        .unwrap_or("file")
}
