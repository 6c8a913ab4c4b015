//! Streamable HTTP with the token of a login.
//!
//! A request that the server answers with status 401 is sent a second time if there is another
//! token: the server has not processed the first one.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use nanobot_redact::Secret;
use reqwest::Client;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use crate::oauth::Access;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client that adds the token of a login to each request.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizedClient {
    client: Client,
    access: Arc<Access>,
}

impl AuthorizedClient {
    pub(crate) const fn new(client: Client, access: Arc<Access>) -> Self {
        Self { client, access }
    }

    /// Sends a request with a token, and a second time with another one after status 401.
    async fn send<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn(Option<String>) -> F,
    ) -> Result<T, Failure> {
        let token = self.access.token().await;
        let text = |token: &Secret| token.expose().to_owned();
        let answer = request(token.as_ref().map(text)).await;
        if !is_refusal(&answer) {
            return answer;
        }
        let Some(token) = self.access.renew(token.as_ref()).await else {
            return answer;
        };
        let answer = request(Some(text(&token))).await;
        if is_refusal(&answer) {
            self.access.refuse(Some(&token));
        }
        answer
    }
}

const fn is_refusal<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(StreamableHttpError::AuthRequired(_)))
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.send(|token| {
            self.client.post_message_with_response_limits(
                Arc::clone(&uri),
                message.clone(),
                session_id.clone(),
                token,
                custom_headers.clone(),
                limits,
            )
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.send(|token| {
            let (uri, session_id) = (Arc::clone(&uri), Arc::clone(&session_id));
            self.client
                .delete_session(uri, session_id, token, custom_headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Failure> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            super::MAX_MESSAGE,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<Events, Failure> {
        self.send(|token| {
            self.client.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
                max_sse_event_size,
            )
        })
        .await
    }
}
