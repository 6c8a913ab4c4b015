//! Reads the newest release from the feed that the configuration names.
//!
//! Decision: the feed only informs. Nothing is downloaded from the addresses in it, and nothing is
//! installed: that is the work of whoever installed the program. The text of a feed comes from a
//! stranger; it is limited and sanitized here.

use std::sync::Arc;
use std::time::Duration;

use nanobot_extract::HelperProcess;
use nanobot_tools::{DownloadError, DownloadLimits, HttpClients, ToolsConfig};
use semver::Version;
use serde_json::Value;

use crate::assembly::settings::UpdateSettings;
use crate::{Runtime, RuntimeError};

/// Maximum size of a feed in bytes, and the time in which it has to arrive.
const LIMITS: DownloadLimits = DownloadLimits {
    bytes: 1 << 20,
    time: Duration::from_secs(20),
};
/// Maximum number of characters of a version.
const MAX_VERSION: usize = 64;
/// Maximum number of characters of an address.
const MAX_URL: usize = 500;
/// Maximum number of characters of notes.
const MAX_NOTES: usize = 1_000;
/// Maximum number of lines of notes.
const MAX_NOTE_LINES: usize = 12;

/// A release, as a feed describes it. All texts are sanitized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version, by the rules of Semantic Versioning, without a leading `v`.
    pub version: String,
    /// `true` if the version has precedence over that of this program.
    pub is_newer: bool,
    /// The https URL of a page about the release, of at most 500 characters.
    pub url: Option<String>,
    /// The beginning of the notes: at most 12 lines and 1,000 characters.
    pub notes: Option<String>,
}

/// A reason why the newest release is unknown.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The configuration names no feed.
    #[error("update.feed is not set")]
    NoFeed,
    /// The configuration cannot be used.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The feed cannot be downloaded.
    #[error("the release feed cannot be read")]
    Download(#[from] DownloadError),
    /// The feed is not JSON.
    #[error("the release feed is not JSON")]
    Syntax(#[source] serde_json::Error),
    /// The feed is JSON of another format.
    #[error("the release feed has no text `version` or `tag_name`")]
    Format,
    /// The version of the release, or that of this program, does not follow Semantic Versioning.
    #[error("`{text}` is not a version such as 1.2.3")]
    Version {
        /// The beginning of the version, sanitized.
        text: String,
        /// The cause.
        #[source]
        source: semver::Error,
    },
}

/// Downloads the feed and compares its release with `current`, the version of this program.
/// Cancel-safe.
///
/// # Errors
/// Returns an error if the configuration names no feed, or the feed cannot be used.
pub async fn latest_release(runtime: &Runtime, current: &str) -> Result<Release, UpdateError> {
    let config = runtime.config();
    let settings: UpdateSettings = config.section("update").map_err(RuntimeError::from)?;
    let feed = settings.feed.unwrap_or_default();
    let feed = feed.trim();
    if feed.is_empty() {
        return Err(UpdateError::NoFeed);
    }
    let mut tools: ToolsConfig = config.section("tools").map_err(RuntimeError::from)?;
    tools.web.user_agent = Some(format!("nanobot/{current}"));
    let guard = tools.url_guard().map_err(RuntimeError::from)?;
    let extractor = Arc::new(HelperProcess::new());
    let http = HttpClients::new(&tools.web, Arc::new(guard), extractor);
    let body = http.download(feed, LIMITS).await?;
    parse(&body, current)
}

/// Reads a release: an object with `tag_name`, `html_url` and `body` (GitHub, Gitea), or with
/// `version`, `url` and `notes`. Other keys are ignored.
fn parse(body: &[u8], current: &str) -> Result<Release, UpdateError> {
    let feed: Value = serde_json::from_slice(body).map_err(UpdateError::Syntax)?;
    let text = |key: &str| feed.get(key).and_then(Value::as_str);
    let (tag, url, notes) = match text("tag_name") {
        Some(tag) => (Some(tag), text("html_url"), text("body")),
        None => (text("version"), text("url"), text("notes")),
    };
    let latest = version(tag.ok_or(UpdateError::Format)?)?;
    let order = latest.cmp_precedence(&version(current)?);
    Ok(Release {
        version: latest.to_string(),
        is_newer: order.is_gt(),
        url: url.and_then(page),
        notes: notes.and_then(beginning),
    })
}

fn version(text: &str) -> Result<Version, UpdateError> {
    let text: String = text.trim().chars().take(MAX_VERSION).collect();
    Version::parse(text.strip_prefix('v').unwrap_or(&text)).map_err(|source| UpdateError::Version {
        text: nanobot_escape::sanitize_line(&text),
        source,
    })
}

/// Returns an address that is safe to show: no other scheme, and nothing that had to be removed.
fn page(url: &str) -> Option<String> {
    let is_plain = url.starts_with("https://") && url.chars().all(|c| c.is_ascii_graphic());
    (is_plain && url.len() <= MAX_URL).then(|| url.to_owned())
}

/// Returns the beginning of notes; `None` if they are empty.
fn beginning(notes: &str) -> Option<String> {
    let start: String = notes.chars().take(MAX_NOTES).collect();
    let clean = nanobot_escape::sanitize(&start);
    let lines: Vec<&str> = clean
        .trim()
        .lines()
        .map(str::trim_end)
        .take(MAX_NOTE_LINES)
        .collect();
    Some(lines.join("\n")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(feed: &Value) -> Release {
        parse(feed.to_string().as_bytes(), "1.2.3").unwrap()
    }

    #[test]
    fn both_formats_are_read() {
        let expected = Release {
            version: "1.3.0".to_owned(),
            is_newer: true,
            url: Some("https://example.org/r".to_owned()),
            notes: Some("Faster.".to_owned()),
        };
        let own = json!({"version": "1.3.0", "url": "https://example.org/r", "notes": "Faster.\n"});
        assert_eq!(release(&own), expected);
        let forge = json!({
            "tag_name": "v1.3.0", "html_url": "https://example.org/r", "body": "Faster.",
            "url": "https://api.example.org/1", "id": 1, "assets": [],
        });
        assert_eq!(release(&forge), expected);
    }

    #[test]
    fn versions_are_compared_by_precedence() {
        let table = [
            ("1.2.3", false),
            ("v1.2.3", false),
            ("1.2.3+build.9", false),
            ("1.2.4-rc.1", true),
            ("1.2.3-rc.1", false),
            ("1.10.0", true),
            ("0.9.9", false),
        ];
        for (version, is_newer) in table {
            assert_eq!(
                release(&json!({"version": version})).is_newer,
                is_newer,
                "{version}"
            );
        }
    }

    #[test]
    fn hostile_texts_are_removed_or_limited() {
        let notes = format!("\u{1b}[2Jred\u{7}\r\n{}", "line\n".repeat(100));
        for url in [
            "http://example.org",
            "file:///etc/passwd",
            "https://a\u{1b}[0m.example",
            "https://ex\u{202e}ample.org",
            &format!("https://example.org/{}", "a".repeat(600)),
        ] {
            let found = release(&json!({"version": "2.0.0", "url": url, "notes": notes}));
            assert_eq!(found.url, None, "{url}");
            let notes = found.notes.unwrap();
            assert!(notes.starts_with("[2Jred\n"), "{notes:?}");
            assert_eq!(notes.lines().count(), MAX_NOTE_LINES);
        }
        let long = release(&json!({"version": "2.0.0", "notes": "é".repeat(5_000)}));
        assert_eq!(long.notes.unwrap().chars().count(), MAX_NOTES);
        let blank = release(&json!({"version": "2.0.0", "url": 7, "notes": " \n\u{1b}"}));
        assert_eq!((blank.url, blank.notes), (None, None));
    }

    #[test]
    fn other_documents_are_refused() {
        let refuse = |text: &str| parse(text.as_bytes(), "1.2.3").unwrap_err();
        for text in ["", "<html>", "{", "\u{0}", &"[".repeat(100_000)] {
            assert!(matches!(refuse(text), UpdateError::Syntax(_)), "{text:.20}");
        }
        for text in [
            "[]",
            "null",
            "{}",
            r#"{"version": 2}"#,
            r#"{"tag_name": null}"#,
        ] {
            assert!(matches!(refuse(text), UpdateError::Format), "{text}");
        }
        let escape = json!({"version": "2.0\u{1b}]0;x\u{7}\n\u{202e}"}).to_string();
        let error = refuse(&escape).to_string();
        assert!(!error.chars().any(char::is_control), "{error:?}");
        assert!(!error.contains('\u{202e}'), "{error:?}");
        let long = json!({"version": "1".repeat(100_000)}).to_string();
        assert!(refuse(&long).to_string().len() < 200);
    }
}
