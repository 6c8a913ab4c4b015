//! Files that come with messages.
//!
//! The bot's token goes along with a download, so files are fetched from Slack's own hosts (or the
//! configured one) alone, at every step of a redirect. A web page that is not offered as a file is
//! Slack's login, which it shows when the scope `files:read` is missing; it is not kept.

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use nanobot_channel_kit::rest::FILE_TIMEOUT;
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Method, Response, Url};

use crate::api::Api;
use crate::error::Refusal;
use crate::text::head;
use crate::wire::SlackFile;

/// Hosts that get the token, and every host below them.
const HOSTS: &[&str] = &["slack.com", "slack-edge.com", "slack-files.com"];
/// Most redirects of a download.
const REDIRECTS: usize = 3;
const ELSEWHERE: &str = "it is not at Slack";
const WEB_PAGE: &str = "Slack gave a web page instead; the app may need the scope files:read";

type FetchError = attachment::FetchError<Refusal>;

/// Limit of a file's name in a text, in code points.
const NAME_LIMIT: usize = 100;

/// Reads a file as the event describes it, however badly.
pub(crate) fn parse(described: &Value) -> Attachment {
    let file: SlackFile = serde_json::from_value(described.clone()).unwrap_or_default();
    let family = file
        .mimetype
        .as_deref()
        .and_then(|mime| mime.split('/').next());
    let kind = match family {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "file",
    };
    let address = file.url_private_download.or(file.url_private);
    Attachment {
        kind,
        id: file.id,
        name: file.name.or(file.title).unwrap_or_else(|| kind.to_owned()),
        mime: file.mimetype,
        size: file.size,
        source: address.filter(|_| !file.is_external),
        is_image: kind == "image",
        is_speech: kind == "audio",
    }
}

/// Returns the marker of a file that could not be stored.
pub(crate) fn failure_marker(file: &Attachment) -> String {
    let name = file.name.replace(char::is_control, " ");
    let (kind, name) = (file.kind, head(&name, NAME_LIMIT));
    format!("[{kind}: {name}: download failed]")
}

/// Downloads a file of at most `limit` bytes.
pub(crate) async fn fetch(api: &Api, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
    let address = file
        .source
        .as_deref()
        .ok_or(FetchError::NoAddress(ELSEWHERE))?;
    let response = follow_redirects(api, address).await?;
    let is_page = header(&response, &CONTENT_TYPE).starts_with("text/html");
    if is_page && !header(&response, &CONTENT_DISPOSITION).starts_with("attachment") {
        return Err(FetchError::NoAddress(WEB_PAGE));
    }
    let bytes = api.rest.body_within(response, limit).await?;
    bytes.ok_or(FetchError::TooLarge { limit })
}

/// Follows an address to where the file is.
async fn follow_redirects(api: &Api, address: &str) -> Result<Response, FetchError> {
    let mut address =
        Url::parse(address).map_err(|_unreadable| FetchError::NoAddress(ELSEWHERE))?;
    for _ in 0..=REDIRECTS {
        if !is_token_host(api, &address) {
            return Err(FetchError::NoAddress(ELSEWHERE));
        }
        let request = api
            .rest
            .request_to(Method::GET, address.clone())?
            .bearer_auth(api.bot.expose())
            .timeout(api.rest.timeout() + FILE_TIMEOUT);
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
            .map_err(|_unreadable| FetchError::NoAddress(ELSEWHERE))?;
    }
    Err(FetchError::NoAddress(ELSEWHERE))
}

fn is_token_host(api: &Api, address: &Url) -> bool {
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
    fn token_is_sent_only_to_slack_hosts() {
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
                is_token_host(&slack, &Url::parse(address).unwrap()),
                expected,
                "{address}"
            );
        }
        let fake = api("http://127.0.0.1:9/api");
        assert!(is_token_host(
            &fake,
            &Url::parse("http://127.0.0.1:9/files/a").unwrap()
        ));
        assert!(!is_token_host(
            &fake,
            &Url::parse("http://127.0.0.1:8/files/a").unwrap()
        ));
    }

    #[test]
    fn no_address_of_the_corpus_is_fetched() {
        let api = Api::new(&SlackConfig::default(), None).unwrap();
        for row in nanobot_testkit::corpus::rows("ssrf").unwrap() {
            let address = Url::parse(row.text("url")).ok();
            let is_fetched = address.is_some_and(|address| is_token_host(&api, &address));
            assert!(!is_fetched, "{}", row.id);
        }
    }

    #[test]
    fn attachment_is_parsed_from_the_event() {
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
            let attachment = parse(&described);
            assert_eq!(
                (attachment.kind, attachment.name.as_str()),
                (kind, name),
                "{described}"
            );
        }
    }
}
