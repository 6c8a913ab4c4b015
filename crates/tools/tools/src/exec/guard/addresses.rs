//! Finds the URLs in a command.

use url::{Host, Url};

use super::Argument;

/// Maximum number of URLs of each scheme that are checked in one argument.
const MAX_URLS: usize = 20;

/// Returns the URLs in the arguments of the program `name`. Those in a commit message are not
/// connected to.
pub(super) fn of(name: &str, arguments: &[Argument]) -> Vec<String> {
    let is_message = name == "git" && arguments.first().is_some_and(|verb| verb.text == "commit");
    let arguments = arguments.iter().filter(|_| !is_message);
    arguments
        .flat_map(|argument| within(name, &argument.text))
        .collect()
}

/// Returns the URLs in `text`; a bare address counts for programs that take one.
fn within(name: &str, text: &str) -> Vec<String> {
    let mut urls = Vec::new();
    let lower = text.to_ascii_lowercase();
    for scheme in ["http://", "https://"] {
        for (at, _) in lower.match_indices(scheme).take(MAX_URLS) {
            let url = text.get(at..).unwrap_or_default();
            let end = url.find(|c: char| c.is_whitespace() || "\"'<>`$…".contains(c));
            let url = url.get(..end.unwrap_or(url.len())).unwrap_or_default();
            // Skip a URL whose host is unknown until the command runs.
            if url.len() > scheme.len() {
                urls.push(url.to_owned());
            }
        }
    }
    let is_number = text.chars().all(|c| c.is_ascii_digit());
    if !["curl", "wget"].contains(&name) || text.contains("://") || is_number {
        return urls;
    }
    let bare = format!("http://{text}");
    let url = Url::parse(&bare).ok();
    let is_address = url.is_some_and(|url| match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost",
        host => host.is_some(),
    });
    if is_address {
        urls.push(bare);
    }
    urls
}
