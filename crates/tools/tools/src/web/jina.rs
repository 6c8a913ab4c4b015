//! Client of Jina's reader, a service that turns pages into Markdown and thereby learns which pages
//! are read. It is used only if it is enabled, and any failure silently falls back to a direct
//! fetch.

use std::time::Duration;

use nanobot_types::json;
use serde::Deserialize;

use super::{client::HttpClients, decode::DecodedBody};

const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct JinaResponse {
    data: JinaPage,
}

/// A page as the reader returns it.
#[derive(Deserialize)]
pub(super) struct JinaPage {
    #[serde(default)]
    title: String,
    #[serde(default)]
    content: String,
    /// Final URL of the page.
    pub(super) url: Option<String>,
}

impl JinaPage {
    pub(super) fn text(&self) -> String {
        if self.title.is_empty() {
            self.content.clone()
        } else {
            format!("# {}\n\n{}", self.title, self.content)
        }
    }
}

/// Asks the reader at `base` for `url`. Returns `None` if it fails, refuses or finds nothing.
pub(super) async fn read(http: &HttpClients, base: &str, url: &str) -> Option<JinaPage> {
    let mut request = http
        .plain()
        .ok()?
        .get(format!("{}/{url}", base.trim_end_matches('/')))
        .header("Accept", "application/json")
        .timeout(TIMEOUT);
    if let Ok(key) = std::env::var("JINA_API_KEY") {
        request = request.bearer_auth(key.trim());
    }
    let response = http.ask(request).await.ok()?.error_for_status().ok()?;
    let body = DecodedBody::read(response).await.ok()?;
    let JinaResponse { data } = json::from_slice(&body.bytes).ok()?;
    (!data.content.trim().is_empty()).then_some(data)
}
