//! Reads response bodies up to a limit.

use super::WebError;
use nanobot_types::Picture;
use reqwest::{Response, header::CONTENT_TYPE};

/// Maximum size of a body after decompression, in bytes.
const MAX_BODY: usize = 4 << 20;
/// Maximum size of a PDF document, in bytes.
const MAX_PDF: usize = 16 << 20;

/// A response body, possibly truncated.
pub(super) struct DecodedBody {
    /// Value of the `Content-Type` header; empty if there was none.
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// `true` if the body was longer.
    pub(super) cut: bool,
}

impl DecodedBody {
    /// Reads at most 4 MiB; more of a PDF document or a picture, which are useless in part.
    pub(super) async fn read(response: Response) -> Result<Self, WebError> {
        let kind = content_type(&response);
        let limit = match kind.split(';').next().unwrap_or_default().trim() {
            "application/pdf" => MAX_PDF,
            kind if kind.starts_with("image/") => Picture::MAX_BYTES,
            _ => MAX_BODY,
        };
        Self::read_up_to(response, limit).await
    }

    /// Reads at most `limit` bytes.
    pub(super) async fn read_up_to(mut response: Response, limit: usize) -> Result<Self, WebError> {
        let content_type = content_type(&response);
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

fn content_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE);
    let text = header.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}
