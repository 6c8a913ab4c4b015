//! Files on their way out.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use nanobot_channel::{Map, MediaRef, Value};
use nanobot_channel_kit::upload::{self, file_name, is_url};
use reqwest::Url;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use serde_json::value::RawValue;
use teloxide::types::MessageId;

use crate::api::Api;
use crate::error::{CallError, Refusal};
use crate::outbound::parse_message_id;
use crate::target::SendTarget;

/// The largest file a bot may send, in bytes, and all files of one request together.
const LARGEST: u64 = 50 << 20;
/// The largest picture that is shown as one, in bytes.
const LARGEST_PHOTO: u64 = 10 << 20;
/// The most files that go together.
const ALBUM: usize = 10;

/// Telegram's presentation of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Photo,
    Animation,
    Voice,
    Audio,
    Video,
    Sticker,
    Document,
}

impl FileKind {
    /// By its ending.
    fn of(name: &str) -> Self {
        let ending = Path::new(name)
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" | "png" | "webp" => Self::Photo,
            "gif" => Self::Animation,
            "ogg" | "oga" | "opus" => Self::Voice,
            "mp3" | "m4a" | "wav" | "aac" => Self::Audio,
            "mp4" | "mov" | "avi" | "mkv" | "webm" | "3gp" => Self::Video,
            "tgs" => Self::Sticker,
            _ => Self::Document,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Photo => "sendPhoto",
            Self::Animation => "sendAnimation",
            Self::Voice => "sendVoice",
            Self::Audio => "sendAudio",
            Self::Video => "sendVideo",
            Self::Sticker => "sendSticker",
            Self::Document => "sendDocument",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Animation => "animation",
            Self::Voice => "voice",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Sticker => "sticker",
            Self::Document => "document",
        }
    }

    /// `true` if two files may be in one album.
    fn goes_with(self, other: Self) -> bool {
        let is_seen = |kind| matches!(kind, Self::Photo | Self::Video);
        (is_seen(self) && is_seen(other))
            || (self == other && matches!(self, Self::Audio | Self::Document))
    }
}

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

const PLATFORM: &str = "Telegram";
const TOO_LARGE: UploadError = UploadError::TooLarge {
    limit: LARGEST,
    platform: PLATFORM,
};

/// A file that is ready to go.
#[derive(Debug)]
struct OutgoingFile<'a> {
    kind: FileKind,
    name: &'a str,
    content: UploadContent<'a>,
}

#[derive(Debug)]
enum UploadContent<'a> {
    /// Telegram fetches it from there.
    Address(&'a str),
    Bytes(Vec<u8>),
}

impl<'a> OutgoingFile<'a> {
    async fn load(media: &'a MediaRef) -> Result<Self, UploadError> {
        let name = file_name(media);
        let kind = FileKind::of(name);
        if is_url(media) {
            if !is_public(&media.location) {
                return Err(UploadError::Inside);
            }
            return Ok(Self {
                kind,
                name,
                content: UploadContent::Address(&media.location),
            });
        }
        let bytes = upload::read(media, LARGEST, PLATFORM).await?;
        let is_too_large_to_show = kind == FileKind::Photo && bytes.len() as u64 > LARGEST_PHOTO;
        let kind = if is_too_large_to_show {
            FileKind::Document
        } else {
            kind
        };
        Ok(Self {
            kind,
            name,
            content: UploadContent::Bytes(bytes),
        })
    }

    fn size(&self) -> u64 {
        match &self.content {
            UploadContent::Address(_) => 0,
            UploadContent::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// `true` if an address may be one of the public internet. A self-hosted Bot API server would fetch
/// it from inside the private network.
fn is_public(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse() {
        Ok(IpAddr::V4(ip)) => is_public_v4(ip),
        Ok(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => is_public_v4(ip),
            None => {
                !(ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_unique_local()
                    || ip.is_unicast_link_local())
            }
        },
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            let ending = name.rsplit('.').next().unwrap_or_default();
            name.contains('.') && !matches!(ending, "local" | "localhost" | "internal" | "lan")
        }
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let is_shared = matches!(ip.octets(), [100, 64..=127, ..] | [0, ..]);
    !(ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_multicast()
        || is_shared)
}

/// Returns the number of first files that fit into one album; at least one.
pub(crate) fn bundle(media: &[MediaRef]) -> usize {
    let mut kinds = media.iter().map(|media| FileKind::of(file_name(media)));
    let Some(first) = kinds.next() else { return 0 };
    1 + kinds
        .take(ALBUM - 1)
        .take_while(|kind| kind.goes_with(first))
        .count()
}

/// Sends a file: an address is fetched by Telegram, a local file is uploaded. What Telegram will
/// not show in its own way goes as a plain file.
pub(crate) async fn send_file(
    api: &Api,
    target: &SendTarget,
    media: &MediaRef,
) -> Result<Option<MessageId>, UploadError> {
    let file = OutgoingFile::load(media).await?;
    match send_as(api, target, &file, file.kind).await {
        Err(error) if error.is(Refusal::is_about_the_kind) => {
            tracing::debug!(%error, "a file is sent as a plain one");
            send_as(api, target, &file, FileKind::Document).await
        }
        outcome => outcome,
    }
    .map_err(UploadError::Call)
}

async fn send_as(
    api: &Api,
    target: &SendTarget,
    file: &OutgoingFile<'_>,
    kind: FileKind,
) -> Result<Option<MessageId>, CallError> {
    let mut fields = fields_of(target);
    if kind == FileKind::Video {
        fields.insert("supports_streaming".to_owned(), true.into());
    }
    let answer: Box<RawValue> = match &file.content {
        UploadContent::Address(address) => {
            fields.insert(kind.field().to_owned(), (*address).into());
            api.call_by_name(kind.method(), &fields).await?
        }
        UploadContent::Bytes(bytes) => {
            let part = Part::bytes(bytes.clone()).file_name(file.name.to_owned());
            api.upload(kind.method(), form_of(fields).part(kind.field(), part))
                .await?
        }
    };
    Ok(parse_message_id(&answer))
}

/// Sends files as one album.
pub(crate) async fn send_album(
    api: &Api,
    target: &SendTarget,
    media: &[MediaRef],
) -> Result<Option<MessageId>, UploadError> {
    let mut files = Vec::new();
    for media in media {
        let file = OutgoingFile::load(media).await?;
        if files
            .first()
            .is_some_and(|first: &OutgoingFile<'_>| !file.kind.goes_with(first.kind))
        {
            // A picture became a plain file.
            return Err(TOO_LARGE);
        }
        files.push(file);
    }
    if files.iter().map(OutgoingFile::size).sum::<u64>() > LARGEST {
        return Err(TOO_LARGE);
    }
    let mut described = Vec::new();
    let mut parts = Vec::new();
    for (index, file) in files.into_iter().enumerate() {
        let target = match file.content {
            UploadContent::Address(address) => address.to_owned(),
            UploadContent::Bytes(bytes) => {
                let field = format!("file{index}");
                let attached = format!("attach://{field}");
                parts.push((field, Part::bytes(bytes).file_name(file.name.to_owned())));
                attached
            }
        };
        let mut item = json!({"type": file.kind.field(), "media": target});
        if let Some(item) = item
            .as_object_mut()
            .filter(|_| file.kind == FileKind::Video)
        {
            item.insert("supports_streaming".to_owned(), true.into());
        }
        described.push(item);
    }
    let mut fields = fields_of(target);
    fields.insert("media".to_owned(), described.into());
    let answer: Result<Box<RawValue>, CallError> = if parts.is_empty() {
        api.call_by_name("sendMediaGroup", &fields).await
    } else {
        let form = parts
            .into_iter()
            .fold(form_of(fields), |form, (field, part)| {
                form.part(field, part)
            });
        api.upload("sendMediaGroup", form).await
    };
    let sent = parse_message_id::<Vec<MessageId>>(&answer.map_err(UploadError::Call)?);
    Ok(sent.and_then(|ids| ids.last().copied()))
}

/// The part's name in the form.
fn fields_of(target: &SendTarget) -> Map {
    let mut fields = Map::new();
    fields.insert("chat_id".to_owned(), target.chat_id().into());
    if let Some(thread) = target.thread() {
        fields.insert("message_thread_id".to_owned(), thread.0.0.into());
    }
    if let Some(reply) = target.reply_parameters() {
        fields.insert(
            "reply_parameters".to_owned(),
            serde_json::to_value(reply).unwrap_or_default(),
        );
    }
    fields
}

fn form_of(fields: Map) -> Form {
    fields
        .into_iter()
        .fold(Form::new(), |form, (field, value)| {
            let text = if let Value::String(text) = value {
                text
            } else {
                value.to_string()
            };
            form.text(field, text)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_selects_the_send_method() {
        let table = [
            ("/a/b/Cat.JPG", "Cat.JPG", "sendPhoto"),
            (
                "https://x.test/a/cat.png?size=1#top",
                "cat.png",
                "sendPhoto",
            ),
            ("/a/wave.gif", "wave.gif", "sendAnimation"),
            ("/a/hi.ogg", "hi.ogg", "sendVoice"),
            ("/a/party.tgs", "party.tgs", "sendSticker"),
            ("/a/song.m4a", "song.m4a", "sendAudio"),
            ("C:\\films\\film.mp4", "film.mp4", "sendVideo"),
            ("/a/what?.pdf", "what?.pdf", "sendDocument"),
            ("/a/none", "none", "sendDocument"),
            ("", "file", "sendDocument"),
        ];
        for (location, name, method) in table {
            let media = MediaRef::new(location);
            assert_eq!(
                (file_name(&media), FileKind::of(file_name(&media)).method()),
                (name, method),
                "{location}"
            );
        }
    }

    #[test]
    fn only_public_addresses_are_passed_on() {
        let public = [
            "https://a.test/x.png",
            "http://8.8.8.8/x.png",
            "http://[2001:4860::1]/x.png",
        ];
        assert_eq!(public.map(is_public), [true; 3]);
        let inside = [
            "http://127.0.0.1:8081/x.png",
            "http://localhost/x.png",
            "http://nas.local/x.png",
            "http://router/x.png",
            "http://10.0.0.1/x.png",
            "http://169.254.169.254/x.png",
            "http://100.64.0.1/x.png",
            "http://2130706433/x.png",
            "http://[::1]/x.png",
            "http://[::ffff:10.0.0.1]/x.png",
            "http://[fd00::1]/x.png",
            "http://",
        ];
        assert_eq!(inside.map(is_public), [false; 12]);
    }

    #[test]
    fn album_groups_compatible_files() {
        let table: [(&[&str], usize); 7] = [
            (&[], 0),
            (&["a.png"], 1),
            (&["a.png", "b.mp4", "c.jpg", "d.pdf"], 3),
            (&["a.pdf", "b.txt", "c.png"], 2),
            (&["a.mp3", "b.m4a"], 2),
            (&["a.ogg", "b.ogg"], 1),
            (&["a.png"; 12], 10),
        ];
        for (names, together) in table {
            let media: Vec<_> = names.iter().map(|name| MediaRef::new(*name)).collect();
            assert_eq!(bundle(&media), together, "{names:?}");
        }
    }
}
