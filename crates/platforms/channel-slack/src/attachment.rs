//! Files that come with messages.
//!
//! The bot's token goes along with a download, so files are fetched from Slack's own hosts (or the
//! configured one) alone, at every step of a redirect. A web page that is not offered as a file is
//! Slack's login, which it shows when the scope `files:read` is missing; it is not kept.

use nanobot_channel::{ChannelContext, MediaRef, Value};
use nanobot_channel_kit::rest::FILE_TIME;
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Method, Response, Url};

use crate::api::Api;
use crate::error::CallError;
use crate::text::head;
use crate::wire::File;

/// Hosts that get the token, and every host below them.
const HOSTS: &[&str] = &["slack.com", "slack-edge.com", "slack-files.com"];
/// How often a download may be sent elsewhere.
const REDIRECTS: usize = 3;
/// How much of a name stands in a text, in code points.
const NAME_LIMIT: usize = 100;

/// A file of a message, not fetched yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// What people call it: `image`, `audio`.
    kind: &'static str,
    file: File,
}

/// What became of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What stands for it in the text.
    pub(crate) marker: String,
    /// The file, when it is an image that was kept.
    pub(crate) image: Option<MediaRef>,
}

/// Why a file was not kept.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("it is larger than the {limit} bytes that are allowed")]
    TooLarge { limit: u64 },
    #[error("Slack gives no address for it")]
    NoAddress,
    #[error("it is not at Slack")]
    Elsewhere,
    #[error("Slack gave a web page instead; the app may need the scope files:read")]
    WebPage,
    #[error("Slack answered {0}")]
    Status(u16),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Media(#[from] nanobot_channel::MediaError),
}

impl Attachment {
    /// A file as the event describes it, however badly.
    pub(crate) fn of(described: &Value) -> Self {
        let file: File = serde_json::from_value(described.clone()).unwrap_or_default();
        let kind = match file
            .mimetype
            .as_deref()
            .and_then(|mime| mime.split('/').next())
        {
            Some("image") => "image",
            Some("audio") => "audio",
            Some("video") => "video",
            _ => "file",
        };
        Self { kind, file }
    }

    fn name(&self) -> &str {
        let File { name, title, .. } = &self.file;
        name.as_deref().or(title.as_deref()).unwrap_or(self.kind)
    }

    /// The name as it may stand in a text.
    fn printable_name(&self) -> String {
        head(&self.name().replace(char::is_control, " "), NAME_LIMIT).to_owned()
    }

    /// Fetches and keeps it, for somebody who may talk. What fails is said in the text.
    pub(crate) async fn keep(&self, api: &Api, context: &ChannelContext) -> Kept {
        let media = match self.fetch(api, context).await {
            Ok(media) => media,
            Err(error) => {
                tracing::warn!(%error, kind = self.kind, "a file of a message could not be fetched");
                return Kept {
                    marker: format!(
                        "[{}: {}: download failed]",
                        self.kind,
                        self.printable_name()
                    ),
                    image: None,
                };
            }
        };
        let mut marker = format!("[{}: {}]", self.kind, media.location);
        if let Some(transcriber) = context
            .transcriber
            .as_ref()
            .filter(|_| self.kind == "audio")
        {
            match transcriber.transcribe(&media).await {
                // An empty one says nothing, so the recording stays a file.
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => marker = format!("[transcription: {text}]"),
                Err(error) => tracing::warn!(%error, "a recording could not be transcribed"),
            }
        }
        Kept {
            marker,
            image: Some(media).filter(|_| self.kind == "image"),
        }
    }

    async fn fetch(&self, api: &Api, context: &ChannelContext) -> Result<MediaRef, FetchError> {
        let limit = context.media.limit();
        let File {
            id,
            mimetype,
            size,
            is_external,
            url_private,
            url_private_download,
            ..
        } = &self.file;
        if *is_external {
            return Err(FetchError::Elsewhere);
        }
        if size.is_some_and(|size| size > limit) {
            return Err(FetchError::TooLarge { limit });
        }
        let address = url_private_download
            .as_ref()
            .or(url_private.as_ref())
            .ok_or(FetchError::NoAddress)?;
        let response = open(api, address).await?;
        let is_page = header(&response, &CONTENT_TYPE).starts_with("text/html");
        if is_page && !header(&response, &CONTENT_DISPOSITION).starts_with("attachment") {
            return Err(FetchError::WebPage);
        }
        let bytes = api.rest.body_within(response, limit).await?;
        let bytes = bytes.ok_or(FetchError::TooLarge { limit })?;
        Ok(context
            .media
            .keep(id, self.name(), mimetype.as_deref(), &bytes)
            .await?)
    }
}

/// Follows an address to where the file is.
async fn open(api: &Api, address: &str) -> Result<Response, FetchError> {
    let mut address = Url::parse(address).map_err(|_unreadable| FetchError::NoAddress)?;
    for _ in 0..=REDIRECTS {
        if !may_have_the_token(api, &address) {
            return Err(FetchError::Elsewhere);
        }
        let request = api
            .rest
            .request_to(Method::GET, address.clone())?
            .bearer_auth(api.bot.expose())
            .timeout(api.rest.timeout() + FILE_TIME);
        let response = api.rest.send(request).await?;
        if !response.status().is_redirection() {
            let status = response.status();
            return if status.is_success() {
                Ok(response)
            } else {
                Err(FetchError::Status(status.as_u16()))
            };
        }
        address = address
            .join(&header(&response, &LOCATION))
            .map_err(|_unreadable| FetchError::NoAddress)?;
    }
    Err(FetchError::Elsewhere)
}

fn may_have_the_token(api: &Api, address: &Url) -> bool {
    let same = |a: &Url, b: &Url| {
        (a.scheme(), a.host_str(), a.port_or_known_default())
            == (b.scheme(), b.host_str(), b.port_or_known_default())
    };
    let host = address.host_str().unwrap_or_default();
    let is_slack = HOSTS.iter().any(|known| {
        host.strip_suffix(known)
            .is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    });
    same(address, api.rest.base()) || (is_slack && address.scheme() == "https")
}

fn header(response: &Response, name: &HeaderName) -> String {
    let value = response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::SlackConfig;

    #[test]
    fn the_token_goes_to_slack_alone() {
        let api = |base: &str| {
            Api::new(
                &SlackConfig {
                    api_base: base.to_owned(),
                    ..SlackConfig::default()
                },
                None,
            )
            .unwrap()
        };
        let slack = api("https://slack.com/api");
        let table = [
            (
                "https://files.slack.com/files-pri/T1-F1/download/a.png",
                true,
            ),
            ("https://slack.com/x", true),
            ("https://a.b.slack-edge.com/x", true),
            ("http://files.slack.com/x", false),
            ("https://evilslack.com/x", false),
            ("https://slack.com.evil.test/x", false),
            ("https://drive.test/slack.com", false),
            ("http://127.0.0.1:9/x", false),
        ];
        for (address, expected) in table {
            assert_eq!(
                may_have_the_token(&slack, &Url::parse(address).unwrap()),
                expected,
                "{address}"
            );
        }
        let fake = api("http://127.0.0.1:9/api");
        assert!(may_have_the_token(
            &fake,
            &Url::parse("http://127.0.0.1:9/files/a").unwrap()
        ));
        assert!(!may_have_the_token(
            &fake,
            &Url::parse("http://127.0.0.1:8/files/a").unwrap()
        ));
    }

    #[test]
    fn a_file_is_known_by_what_the_event_says() {
        let table = [
            (
                json!({"id": "F1", "name": "a.png", "mimetype": "image/png"}),
                "image",
                "a.png",
            ),
            (
                json!({"id": "F1", "title": "Talk", "mimetype": "audio/mp4"}),
                "audio",
                "Talk",
            ),
            (
                json!({"id": "F1", "mimetype": "text/plain"}),
                "file",
                "file",
            ),
            (json!({"id": 5}), "file", "file"),
            (json!("odd"), "file", "file"),
        ];
        for (described, kind, name) in table {
            let attachment = Attachment::of(&described);
            assert_eq!(
                (attachment.kind, attachment.name()),
                (kind, name),
                "{described}"
            );
        }
    }
}
