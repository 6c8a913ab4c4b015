//! Files of received mails: those that are kept, and markers of the others.

use nanobot_channel::{ChannelContext, MediaRef};
use nanobot_channel_kit::attachment::transcribe;

use crate::EmailConfig;

/// The media type of unknown files.
const UNKNOWN: &str = "application/octet-stream";
/// Outlook's own format, `winmail.dat`.
const TNEF: &str = "application/ms-tnef";
/// The longest name that is shown, in characters.
const NAME_LIMIT: usize = 80;
/// Maximum number of files of a mail that are shown.
const SHOWN: usize = 20;

/// Magic numbers of media types.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"MZ", "application/x-msdownload"),
    (b"\x7fELF", "application/x-executable"),
    (b"#!", "text/x-shellscript"),
    (b"\x78\x9f\x3e\x22", TNEF),
];

/// Types that are rejected without their magic number.
const RECOGNISABLE: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
];

/// A file in a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MailFile {
    /// The sender's name for it, in one line.
    name: String,
    /// The detected media type.
    mime: String,
    bytes: Vec<u8>,
}

impl MailFile {
    /// A file; `declared` is its type by the mail.
    pub(crate) fn new(name: &str, declared: Option<&str>, bytes: Vec<u8>) -> Self {
        let visible = name.chars().map(|letter| {
            if letter.is_control() || letter == ']' {
                ' '
            } else {
                letter
            }
        });
        Self {
            name: visible
                .take(NAME_LIMIT)
                .collect::<String>()
                .trim()
                .to_owned(),
            mime: real_type(declared.unwrap_or(UNKNOWN), &bytes),
            bytes,
        }
    }

    fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// Returns the words of a recording as a marker.
    async fn transcription(&self, media: &MediaRef, context: &ChannelContext) -> Option<String> {
        if !self.mime.starts_with("audio/") {
            return None;
        }
        let words = transcribe(media, context).await;
        context.progress.alive();
        words.map(|words| format!("[transcription: {words}]"))
    }

    /// Returns the reason not to keep it.
    fn refusal(
        &self,
        config: &EmailConfig,
        context: &ChannelContext,
        kept: usize,
    ) -> Option<String> {
        let size = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let limit = config.max_attachment_size.min(context.media.limit());
        if self.mime == TNEF {
            return Some("it is in Outlook's own format".to_owned());
        }
        if !config
            .allowed_attachment_types
            .iter()
            .any(|pattern| matches(pattern, &self.mime))
        {
            return Some("files of its type are not allowed".to_owned());
        }
        if size > limit {
            return Some(format!(
                "it is larger than the {limit} bytes that are allowed"
            ));
        }
        (kept >= config.max_attachments_per_email)
            .then(|| format!("only {kept} files of a mail are kept"))
    }
}

/// Keeps the files of a mail from a sender who may talk. Returns their markers in the text, and the
/// images.
pub(crate) async fn store_all(
    attachments: &[MailFile],
    id: &str,
    config: &EmailConfig,
    context: &ChannelContext,
) -> (Vec<String>, Vec<MediaRef>) {
    let (mut markers, mut images, mut kept) = (Vec::new(), Vec::new(), 0);
    for (index, file) in attachments.iter().take(SHOWN).enumerate() {
        let refusal = match file.refusal(config, context, kept) {
            Some(refusal) => refusal,
            None => match context
                .media
                .store(
                    &format!("{id}-{index}"),
                    &file.name,
                    Some(&file.mime),
                    &file.bytes,
                )
                .await
            {
                Ok(media) => {
                    kept += 1;
                    let kind = if file.is_image() { "image" } else { "file" };
                    markers.push(format!("[{kind}: {} ({})]", media.location, file.name));
                    markers.extend(file.transcription(&media, context).await);
                    images.extend(Some(media).filter(|_| file.is_image()));
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "a file of a mail could not be kept");
                    error.to_string()
                }
            },
        };
        markers.push(format!(
            "[not kept: {} ({}, {} bytes): {refusal}]",
            file.name,
            file.mime,
            file.bytes.len()
        ));
    }
    if attachments.len() > SHOWN {
        markers.push(format!(
            "[{} more files are not kept]",
            attachments.len() - SHOWN
        ));
    }
    (markers, images)
}

/// `true` if a type matches a pattern: `image/png`, `image/*` or `*`.
fn matches(pattern: &str, mime: &str) -> bool {
    let pattern = pattern.trim().to_ascii_lowercase();
    match pattern.strip_suffix('*') {
        Some("" | "*/") => true,
        Some(family) => family.ends_with('/') && mime.starts_with(family),
        None => pattern == mime,
    }
}

/// Detects a media type: a magic number counts more than the declared type.
fn real_type(declared: &str, bytes: &[u8]) -> String {
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let found = BEGINNINGS
        .iter()
        .find(|(beginning, _)| bytes.starts_with(beginning))
        .map(|(_, mime)| *mime);
    let found = if webp { Some("image/webp") } else { found };
    let is_container = found == Some("application/zip") && declared.starts_with("application/");
    match found {
        // Documents of office programs are archives, too.
        Some(found) if declared == UNKNOWN || !is_container => found.to_owned(),
        None if RECOGNISABLE.contains(&declared) => UNKNOWN.to_owned(),
        _ => declared.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_type_is_detected_from_its_first_bytes() {
        let docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        let table: [(&str, &[u8], &str); 11] = [
            ("image/png", b"\x89PNG\r\n\x1a\n...", "image/png"),
            ("image/png", b"MZ...", "application/x-msdownload"),
            ("image/png", b"<svg>", UNKNOWN),
            ("application/pdf", b"hello", UNKNOWN),
            (UNKNOWN, b"%PDF-1.7", "application/pdf"),
            ("image/webp", b"RIFF....WEBPVP8", "image/webp"),
            (docx, b"PK\x03\x04...", docx),
            ("image/jpeg", b"PK\x03\x04...", "application/zip"),
            ("text/csv", b"a,b", "text/csv"),
            (UNKNOWN, b"\x78\x9f\x3e\x22\x01", TNEF),
            ("application/vnd.ms-tnef", b"\x78\x9f\x3e\x22\x01", TNEF),
        ];
        for (declared, bytes, expected) in table {
            assert_eq!(real_type(declared, bytes), expected, "{declared} {bytes:?}");
        }
    }

    #[test]
    fn type_patterns_match_media_types() {
        let table = [
            ("image/*", "image/png", true),
            ("image/*", "imagex/png", false),
            ("*", "a/b", true),
            ("*/*", "a/b", true),
            ("Image/PNG", "image/png", true),
            ("image*", "image/png", false),
            ("", "image/png", false),
        ];
        for (pattern, mime, expected) in table {
            assert_eq!(matches(pattern, mime), expected, "{pattern} {mime}");
        }
    }
}
