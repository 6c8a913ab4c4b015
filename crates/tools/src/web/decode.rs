//! Bodies: read up to a bound, turned into text by the encoding that they name.

use encoding_rs::{Encoding, UTF_8};
use reqwest::{Response, header::CONTENT_TYPE};

/// How much of a page is read, after decompression.
pub(super) const MAX_BODY: usize = 4 << 20;

/// How far into a page its encoding may be named.
const PRELUDE: usize = 2048;

/// A body, or its beginning.
pub(super) struct Body {
    /// The media type without parameters, in lower case; empty if none was given.
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
    /// Whether there was more.
    pub(super) cut: bool,
    charset: Option<String>,
}

impl Body {
    /// Reads at most [`MAX_BODY`] bytes.
    pub(super) async fn read(mut response: Response) -> Result<Self, String> {
        let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let header = header.unwrap_or_default().to_ascii_lowercase();
        let charset = charset_in(&header);
        let kind = header.split(';').next().unwrap_or_default().trim().to_owned();
        let mut bytes = Vec::new();
        let mut cut = false;
        while let Some(chunk) = response.chunk().await.map_err(super::failure)? {
            let room = MAX_BODY - bytes.len();
            bytes.extend(chunk.iter().take(room));
            if chunk.len() > room {
                cut = true;
                break;
            }
        }
        Ok(Self { kind, bytes, cut, charset })
    }

    /// The body as text: by the header, else by what the page says about itself, else UTF-8.
    pub(super) fn text(&self) -> String {
        let prelude = self.bytes.get(..PRELUDE).unwrap_or(&self.bytes);
        let prelude = String::from_utf8_lossy(prelude).to_ascii_lowercase();
        let named = self.charset.clone().or_else(|| charset_in(&prelude));
        let encoding = named.and_then(|name| Encoding::for_label(name.as_bytes())).unwrap_or(UTF_8);
        encoding.decode(&self.bytes).0.into_owned()
    }
}

/// The value after `charset=`.
fn charset_in(text: &str) -> Option<String> {
    let (_, after) = text.split_once("charset=")?;
    let name: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
        .collect();
    (!name.is_empty()).then_some(name)
}
