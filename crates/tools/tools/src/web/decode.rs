//! Reads response bodies up to a limit.

use super::WebError;
use reqwest::{Response, header::CONTENT_TYPE};

/// Maximum size of a body after decompression, in bytes.
pub(super) const MAX_BODY: usize = 4 << 20;

/// A response body, possibly truncated.
pub(super) struct DecodedBody {
    /// Value of the `Content-Type` header; empty if there was none.
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// `true` if the body was longer.
    pub(super) cut: bool,
}

impl DecodedBody {
    /// Reads at most [`MAX_BODY`] bytes.
    pub(super) async fn read(response: Response) -> Result<Self, WebError> {
        Self::read_up_to(response, MAX_BODY).await
    }

    /// Reads at most `limit` bytes.
    pub(super) async fn read_up_to(mut response: Response, limit: usize) -> Result<Self, WebError> {
        let header = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let content_type = header.unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        let mut cut = false;
        while let Some(chunk) = response.chunk().await? {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend(chunk.iter().take(room));
            if chunk.len() > room {
                cut = true;
                break;
            }
        }
        Ok(Self {
            content_type,
            bytes,
            cut,
        })
    }
}
