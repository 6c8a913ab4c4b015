//! `web_search` and `web_fetch`.

mod client;
mod decode;
mod fetch;
mod jina;
mod search;

pub use self::client::HttpClients;
pub(crate) use self::{fetch::WebFetch, search::WebSearch};

use nanobot_guard::UrlDenied;
use nanobot_types::ToolResult;

/// Why nothing came from the web.
#[derive(Clone, Debug)]
struct WebError {
    /// In words, for the model.
    reason: String,
    /// `true` if the same request may succeed later: it was not refused for its content.
    may_pass: bool,
}

impl WebError {
    /// An error of circumstances.
    fn passing(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            may_pass: true,
        }
    }

    /// An answer with a status that is no success.
    fn of_status(status: reqwest::StatusCode) -> Self {
        let may_pass = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        Self {
            reason: format!("HTTP {status}"),
            may_pass,
        }
    }

    /// The same with other words.
    fn said(self, words: impl FnOnce(String) -> String) -> Self {
        Self {
            reason: words(self.reason),
            ..self
        }
    }

    /// A failed result of a tool with this output.
    fn result(&self, output: String) -> ToolResult {
        ToolResult {
            should_retry: self.may_pass,
            ..ToolResult::error(output)
        }
    }
}

/// What nothing but another call helps against.
impl From<String> for WebError {
    fn from(reason: String) -> Self {
        Self {
            reason,
            may_pass: false,
        }
    }
}

impl From<UrlDenied> for WebError {
    fn from(denied: UrlDenied) -> Self {
        Self {
            reason: format!("URL validation failed: {denied}"),
            may_pass: denied.is_transient(),
        }
    }
}

/// Connections fail and break, and answers are late; what the guard refuses while connecting stays
/// refused.
impl From<reqwest::Error> for WebError {
    fn from(error: reqwest::Error) -> Self {
        let mut cause = std::error::Error::source(&error);
        let mut denied = None;
        while let Some(error) = cause {
            denied = denied.or_else(|| error.downcast_ref::<UrlDenied>());
            cause = error.source();
        }
        let is_passing =
            error.is_timeout() || error.is_connect() || error.is_request() || error.is_body();
        let may_pass = is_passing && denied.is_none_or(UrlDenied::is_transient);
        Self {
            reason: failure(error),
            may_pass,
        }
    }
}

/// An error of a client in words, without the address, which may hold a key.
fn failure(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "the request timed out".to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Lists the results on a page of the search that has no API, as the model reads them.
pub(crate) fn results_on(page: &str) -> String {
    search::results_on(page)
}
