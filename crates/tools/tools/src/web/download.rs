//! Downloads of small documents whose address the operator configured, by the rules for URLs of
//! strangers: the guard checks every hop, because the answer may redirect anywhere.

use std::time::Duration;

use url::{Host, Url};

use super::{WebError, client::HttpClients, decode::DecodedBody};

/// Limits of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// Maximum size of the body after decompression, in bytes.
    pub bytes: usize,
    /// Timeout for all hops and the body together.
    pub time: Duration,
}

/// A download that failed. The messages do not contain the URL, which may contain a key.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL, or that of a redirect, is not encrypted.
    #[error("the address is not an https URL")]
    Insecure,
    /// The body is larger than the limit.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The download took longer than the limit.
    #[error("there was no complete answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The guard, the server or the network refused.
    #[error("{0}")]
    Failed(String),
}

impl From<WebError> for DownloadError {
    fn from(error: WebError) -> Self {
        Self::Failed(error.reason)
    }
}

impl HttpClients {
    /// Downloads the body of an `https` URL. `http` is allowed for this machine alone, which the
    /// guard has to allow, too. Redirects follow the same rules. Cancel-safe.
    ///
    /// # Errors
    /// Returns an error if a rule or a limit is violated, or the server does not answer with
    /// success.
    pub async fn download(
        &self,
        url: &str,
        limits: DownloadLimits,
    ) -> Result<Vec<u8>, DownloadError> {
        tokio::time::timeout(limits.time, self.body(url, limits.bytes))
            .await
            .unwrap_or(Err(DownloadError::TimedOut(limits.time)))
    }

    async fn body(&self, url: &str, limit: usize) -> Result<Vec<u8>, DownloadError> {
        check_scheme(&Url::parse(url).map_err(|error| DownloadError::Failed(error.to_string()))?)?;
        let target = self.guard().check(url).await.map_err(WebError::from)?;
        let (response, _) = self.follow(target, check_scheme).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(WebError::of_status(status).into());
        }
        let body = DecodedBody::read_up_to(response, limit).await?;
        if body.cut {
            return Err(DownloadError::TooLarge(limit));
        }
        Ok(body.bytes)
    }
}

fn check_scheme(url: &Url) -> Result<(), DownloadError> {
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_here => Ok(()),
        _ => Err(DownloadError::Insecure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_allowed() {
        let table = [
            ("https://example.org/feed.json", true),
            ("http://127.0.0.1:8080/feed.json", true),
            ("http://[::1]/feed.json", true),
            ("http://example.org/feed.json", false),
            ("http://localhost.example.org/", false),
            ("http://10.0.0.1/", false),
            ("file:///etc/passwd", false),
            ("ftp://127.0.0.1/", false),
            ("data:application/json,{}", false),
        ];
        for (url, expected) in table {
            let is_allowed = check_scheme(&Url::parse(url).unwrap()).is_ok();
            assert_eq!(is_allowed, expected, "{url}");
        }
    }
}
