//! `web_search` and `web_fetch`.

mod client;
mod decode;
mod fetch;
mod jina;
mod search;

pub use self::client::HttpClients;
pub(crate) use self::{fetch::WebFetch, search::WebSearch};

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

/// Counts the results on a page of the search that has no API.
pub(crate) fn results_on(page: &str) -> usize {
    search::results_on(page)
}
