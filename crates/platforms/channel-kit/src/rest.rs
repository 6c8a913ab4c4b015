//! Calls of a REST API that holds a token: one lazy HTTP client, a base address, answers in JSON.
//!
//! Decision: an answer is judged once, into a [`CallError`], and nothing is retried: retries belong
//! to the caller of a send. The client is built on first use, because roots of trust take time and
//! memory. Every error text is scrubbed of the secrets.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, json};
use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use crate::Secret;
use crate::call::CallError;
use crate::http::{self, Failure, ProxyMode};

/// The time that a file may take longer than another request.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(90);

/// Finds the part of a token that is secret by itself.
pub type SecretPart = fn(&str) -> Option<&str>;

/// A server, and a client to use it with.
pub struct Rest {
    base: Url,
    proxy: ProxyMode,
    timeout: Duration,
    secrets: Vec<(Secret, SecretPart)>,
    configure: Box<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>,
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for Rest {
    /// Shows the host alone: a proxy may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest")
            .field("base", &self.base.host_str())
            .finish_non_exhaustive()
    }
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct RestAnswer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most [`json::BODY_LIMIT`] bytes of it.
    pub body: Vec<u8>,
}

impl Rest {
    /// Creates a server from the key `apiBase`, of which `example` shows the form. Does no I/O.
    ///
    /// # Errors
    /// [`ChannelError::Config`], if the address is none.
    pub fn new(
        api_base: &str,
        example: &str,
        proxy: ProxyMode,
        timeout: Duration,
    ) -> Result<Self, ChannelError> {
        Ok(Self {
            base: http::api_base(api_base, example)?,
            proxy,
            timeout,
            secrets: Vec::new(),
            configure: Box::new(|builder| builder),
            client: Mutex::default(),
        })
    }

    /// Adds a secret, which is removed from every error.
    #[must_use]
    pub fn redacting(self, secret: &Secret) -> Self {
        self.redacting_part(secret, |_| None)
    }

    /// Adds a secret; it and the part of it that `part` finds are removed from every error.
    #[must_use]
    pub fn redacting_part(mut self, secret: &Secret, part: SecretPart) -> Self {
        self.secrets.push((secret.clone(), part));
        self
    }

    /// Adds settings of the client.
    #[must_use]
    pub fn configure_client(
        mut self,
        configure: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// The address of the server, without the slash at its end where it has a path.
    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The time that an answer may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the address of a path of the server.
    ///
    /// # Errors
    /// [`CallError::Setup`].
    pub fn address<R>(&self, path: &str) -> Result<Url, CallError<R>> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}/{path}"))
            .map_err(|error| CallError::Setup(self.scrub(&error.to_string())))
    }

    /// Begins a request for a path of the server, with the usual timeout.
    ///
    /// # Errors
    /// [`CallError::Setup`].
    pub fn request<R>(&self, method: Method, path: &str) -> Result<RequestBuilder, CallError<R>> {
        self.request_to(method, self.address(path)?)
    }

    /// Begins a request for another address, with the usual timeout and without any token.
    ///
    /// # Errors
    /// [`CallError::Setup`].
    pub fn request_to<R>(
        &self,
        method: Method,
        address: Url,
    ) -> Result<RequestBuilder, CallError<R>> {
        Ok(self
            .client()?
            .request(method, address)
            .timeout(self.timeout))
    }

    /// Sends a request and returns the answer as it begins.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] and [`CallError::Interrupted`].
    pub async fn send<R>(&self, request: RequestBuilder) -> Result<Response, CallError<R>> {
        request.send().await.map_err(|error| self.failure(error))
    }

    /// Sends a request and reads the answer to its end.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn answer<R>(&self, request: RequestBuilder) -> Result<RestAnswer, CallError<R>> {
        let response = self.send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = http::json_body(response)
            .await
            .map_err(|error| self.failure(error))?;
        Ok(RestAnswer {
            status,
            headers,
            body,
        })
    }

    /// Reads the body of an answer; `None` when it is larger than `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn body_within<R>(
        &self,
        response: Response,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, CallError<R>> {
        let body = http::body_within(response, limit).await;
        body.map_err(|error| self.failure(error))
    }

    /// Reads JSON of an answer.
    ///
    /// # Errors
    /// [`CallError::Misunderstood`].
    pub fn read<'a, T: Deserialize<'a>, R>(&self, body: &'a [u8]) -> Result<T, CallError<R>> {
        json::from_slice(body)
            .map_err(|error| CallError::Misunderstood(self.scrub(&error.to_string())))
    }

    /// Returns the failure for an answer that a proxy or a gateway gave in place of `platform`: in
    /// HTML, and without regard to the token.
    pub fn intermediary_error<R>(platform: &str, status: StatusCode) -> CallError<R> {
        CallError::Unreachable(format!(
            "something on the way to {platform} answered {status}"
        ))
    }

    /// Returns `text` without the secrets.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |text, (secret, part)| {
                secret.scrub_with(&text, part)
            })
    }

    /// The meaning of a request without an answer. Addresses stay out of it: some hold tickets.
    pub fn failure<R>(&self, error: reqwest::Error) -> CallError<R> {
        let Failure {
            text,
            may_have_arrived,
        } = error.into();
        let text = self.scrub(&text);
        if may_have_arrived {
            CallError::Interrupted(text)
        } else {
            CallError::Unreachable(text)
        }
    }

    /// Drops the client and its connections: later requests open new ones.
    pub fn renew(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the client, built with the first call.
    ///
    /// # Errors
    /// [`CallError::Setup`].
    pub fn client<R>(&self) -> Result<Client, CallError<R>> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let built = (self.configure)(http::client(&self.proxy)).build();
        let built =
            built.map_err(|error| CallError::Setup(self.scrub(&Failure::from(error).text)))?;
        Ok(client.insert(built).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    type Error = CallError<String>;

    fn rest(base: &str) -> Rest {
        let token = Secret::new("42:AbC");
        Rest::new(
            base,
            "http://x",
            ProxyMode::Direct,
            Duration::from_millis(200),
        )
        .unwrap()
        .redacting_part(&token, |token| token.split_once(':').map(|(_, key)| key))
        .redacting(&Secret::new("other"))
    }

    #[test]
    fn errors_and_debug_output_hide_secrets() {
        let rest = rest("http://localhost:1/");
        assert_eq!(rest.scrub("42:AbC AbC other"), "<secret> <secret> <secret>");
        assert_eq!(
            format!("{rest:?}"),
            "Rest { base: Some(\"localhost\"), .. }"
        );
        let misread = rest.read::<u32, String>(b"\"x\"").unwrap_err();
        assert!(matches!(misread, Error::Misunderstood(_)), "{misread:?}");
    }

    #[tokio::test]
    async fn unsent_and_interrupted_requests_are_distinguished() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let rest = rest(&format!("http://{address}"));
        let request = rest.request::<String>(Method::GET, "me").unwrap();
        let error: Error = rest.answer(request).await.unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        drop(silent);
        rest.renew();
        let request = rest.request::<String>(Method::GET, "me").unwrap();
        let error: Error = rest.answer(request).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    }
}
