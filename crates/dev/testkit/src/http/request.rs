//! A request as it arrived.

use bytes::Bytes;
use serde_json::Value;
use url::form_urlencoded;

/// A request with its body as exact bytes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method in capitals.
    pub method: String,
    /// Path and query as on the request line, still percent-encoded.
    pub target: String,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body with its transfer coding removed.
    pub body: Bytes,
}

impl Request {
    /// Returns the path, percent-encoded, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target.as_str(), |(path, _)| path)
    }

    /// Returns the path with its percent-encoding undone, `%2F` included.
    #[must_use]
    pub fn decoded_path(&self) -> String {
        let mut bytes = Vec::new();
        let mut rest = self.path();
        while let Some((before, after)) = rest.split_once('%') {
            bytes.extend_from_slice(before.as_bytes());
            let code = after
                .get(..2)
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(code.unwrap_or(b'%'));
            rest = if code.is_some() {
                after.get(2..).unwrap_or_default()
            } else {
                after
            };
        }
        bytes.extend_from_slice(rest.as_bytes());
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the pairs of the query, decoded.
    #[must_use]
    pub fn query(&self) -> Vec<(String, String)> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect()
    }

    /// Returns the first header field of this (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; `Null` if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}
