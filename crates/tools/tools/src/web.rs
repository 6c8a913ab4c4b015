//! The web tools: `web_search` and `web_fetch`.

mod client;
mod decode;
mod download;
mod external;
mod fetch;
mod jina;
mod search;

pub use self::client::HttpClients;
pub use self::download::{DownloadError, DownloadLimits};
pub use self::search::search_key_variables;
pub(crate) use self::{fetch::WebFetch, search::WebSearch};

use nanobot_guard::UrlDenied;
use nanobot_types::ToolResult;

/// Error of a web request.
#[derive(Clone, Debug)]
struct WebError {
    /// Reason, for the model.
    reason: String,
    /// `true` if the same request may succeed later, because the failure is transient.
    may_pass: bool,
}

impl WebError {
    /// Creates a transient error.
    fn passing(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            may_pass: true,
        }
    }

    /// Creates the error for a response with an unsuccessful status.
    fn of_status(status: reqwest::StatusCode) -> Self {
        let may_pass = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        Self {
            reason: format!("HTTP {status}"),
            may_pass,
        }
    }

    /// Rewords the reason.
    fn map_reason(self, words: impl FnOnce(String) -> String) -> Self {
        Self {
            reason: words(self.reason),
            ..self
        }
    }

    /// Builds a failed tool result with this output.
    fn result(&self, output: String) -> ToolResult {
        ToolResult {
            should_retry: self.may_pass,
            ..ToolResult::error(output)
        }
    }
}

/// Creates a permanent error: only a different call may succeed.
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

/// Connection failures and timeouts are transient; a refusal by the guard while connecting is not,
/// unless the guard says so.
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

/// Formats a client error with its causes, without the URL, which may contain a key.
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

/// Lists the results on a DuckDuckGo page as the model reads them.
pub(crate) fn results_on(page: &str) -> String {
    search::results_on(page)
}
