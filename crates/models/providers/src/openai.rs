//! Client for OpenAI's `/chat/completions` and compatible APIs.
//!
//! Decision: async-openai carries the request and parses the event stream, with our own JSON in
//! both directions, so that vendors' extensions are neither lost nor rejected. Its own retries are
//! replaced by a service that sends once and sees status, headers and body first: retrying is the
//! router's job.

pub(crate) mod chunk;
mod pace;
mod parameters;
mod request;
mod sent;
mod wire;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_openai::Client;
use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http::HeaderMap;
use nanobot_provider::{
    ChatRequest, ChatStream, ContextWindow, Provider, ProviderError, StreamEvent,
};
use nanobot_types::{ModelId, ProviderName};
use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;

use self::chunk::ChunkReader;
use self::pace::Backpressure;
use self::request::MessageRenderer;
use self::sent::{SentMessages, sent_messages};
use self::wire::Body;
use crate::body::{self, ErrorSlot};
use crate::client::network_error;
use crate::fault::ErrorClassifier;
use crate::local_window::LocalWindow;
use crate::refusal::UnsupportedParams;
use crate::settings::ExtraBody;
use crate::{HttpClients, ProviderKind, ProviderSpec, WireProtocol};

pub(crate) use self::parameters::temperature;
pub(crate) use self::request::render;

/// Version of Azure's API, sent as `api-version`.
const AZURE_VERSION: &str = "2024-10-21";

/// A provider that speaks `/chat/completions`.
#[derive(Clone, Debug)]
pub(crate) struct OpenAi {
    pub(crate) name: ProviderName,
    pub(crate) spec: ProviderSpec,
    pub(crate) base: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) extra_body: ExtraBody,
    pub(crate) faults: ErrorClassifier,
    pub(crate) http: Arc<HttpClients>,
    pub(crate) refusals: Arc<UnsupportedParams>,
    /// `None` if the server does not report windows.
    pub(crate) window: Option<Arc<LocalWindow>>,
}

#[async_trait]
impl Provider for OpenAi {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.spec.kind == ProviderKind::Local
    }

    async fn context_window(&self, model: &ModelId) -> Option<ContextWindow> {
        self.window.as_ref()?.of(model).await
    }

    async fn stream(&self, mut request: ChatRequest) -> Result<ChatStream, ProviderError> {
        if let Some(window) = &self.window {
            window.limit_output(&mut request);
        }
        let renderer = MessageRenderer::new(&self.spec.quirks, &self.name, &request.model);
        if request::takes_marks(&self.spec.quirks, &request.model) {
            let sent = SentMessages::new(&self.name, &request, renderer.ids());
            return self.send(&renderer, &request, &sent).await;
        }
        let sent = sent_messages(&renderer, &request);
        let stream = self.send(&renderer, &request, &sent).await;
        request.memo.put(sent);
        stream
    }
}

impl OpenAi {
    /// Sends a request, again without the parameters that the vendor refuses.
    async fn send(
        &self,
        renderer: &MessageRenderer<'_>,
        request: &ChatRequest,
        sent: &SentMessages,
    ) -> Result<ChatStream, ProviderError> {
        let mut refused = self.refusals.params();
        loop {
            let body = request::body(renderer, request, &refused, &self.extra_body, sent);
            match self.exchange(request, &body).await {
                Ok(stream) => {
                    self.refusals.remember(refused);
                    return Ok(stream);
                }
                Err(error)
                    if self.refusals.add(
                        &mut refused,
                        parameters::OPTIONAL,
                        |member| body.parameters.contains_key(member),
                        &error,
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn url(&self, request: &ChatRequest) -> Result<Url, ProviderError> {
        let mut url = self.base.clone();
        {
            let mut path = url.path_segments_mut().map_err(|()| {
                ProviderError::BadRequest(format!(
                    "{} cannot be the address of a model API",
                    self.base
                ))
            })?;
            path.pop_if_empty();
            if self.spec.wire == WireProtocol::Azure {
                path.extend(["openai", "deployments", request.model.as_str()]);
            }
            path.extend(["chat", "completions"]);
        }
        if self.spec.wire == WireProtocol::Azure {
            url.query_pairs_mut()
                .append_pair("api-version", AZURE_VERSION);
        }
        Ok(url)
    }

    async fn exchange(
        &self,
        request: &ChatRequest,
        body: &Body<'_>,
    ) -> Result<ChatStream, ProviderError> {
        let url = self.url(request)?;
        let http = self.http.client_for(&url)?;
        let call = Arc::new(ExchangeState {
            faults: self.faults.clone(),
            trouble: ErrorSlot::default(),
            pace: Arc::default(),
            done: AtomicBool::new(false),
        });
        let service = {
            let (http, call) = (http.clone(), Arc::clone(&call));
            tower::service_fn(move |factory: HttpRequestFactory| {
                let (http, call) = (http.clone(), Arc::clone(&call));
                async move {
                    call.send(&http, &factory)
                        .await
                        .map_err(|error| OpenAIError::Boxed(Box::new(error)))
                }
            })
        };
        let endpoint = Endpoint {
            url: url.to_string(),
            headers: self.headers.clone(),
            key: SecretString::default(),
        };
        let client = Client::build(http, endpoint).with_http_service(service);
        let chunks = client
            .chat()
            .create_stream_byot::<&Body<'_>, Value>(body)
            .await
            .map_err(|error| call.error(error))?;
        Ok(events(chunks, call).boxed())
    }
}

/// URL and headers of one request.
#[derive(Clone, Debug)]
struct Endpoint {
    url: String,
    headers: HeaderMap,
    /// Empty: the key is among the headers.
    key: SecretString,
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, _path: &str) -> String {
        self.url.clone()
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

/// State shared by the sending and the receiving end of one exchange.
#[derive(Debug)]
struct ExchangeState {
    faults: ErrorClassifier,
    trouble: ErrorSlot,
    pace: Arc<Backpressure>,
    /// Set when the vendor sent `[DONE]`.
    done: AtomicBool,
}

impl ExchangeState {
    /// Sends once. A success is returned with a body of complete lines.
    async fn send(
        self: &Arc<Self>,
        http: &reqwest::Client,
        factory: &HttpRequestFactory,
    ) -> Result<reqwest::Response, ProviderError> {
        let request = factory.build().await.map_err(|error| self.error(error))?;
        let url = request.url().clone();
        let response = http
            .execute(request)
            .await
            .map_err(|error| network_error(&url, error))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = body::error_body(response).await;
            return Err(self.faults.of_status(status.as_u16(), &headers, &body));
        }
        let (watch, report) = (Arc::clone(self), Arc::clone(self));
        let lines = body::lines(response)
            .await?
            .inspect_ok(move |lines| {
                if says_done(lines) {
                    watch.done.store(true, Ordering::Relaxed);
                }
            })
            .map_err(move |error| {
                report.trouble.put(error.clone());
                error
            });
        let paced = Arc::clone(&self.pace).throttle(lines.boxed());
        Ok(http::Response::new(reqwest::Body::wrap_stream(paced)).into())
    }

    /// Recovers our own error from an error of the library.
    fn error(&self, error: OpenAIError) -> ProviderError {
        match error {
            OpenAIError::Boxed(error) => match error.downcast::<ProviderError>() {
                Ok(error) => *error,
                Err(other) => ProviderError::Network(self.faults.without_keys(&other.to_string())),
            },
            OpenAIError::JSONDeserialize(error, _frame) => {
                ProviderError::Malformed(format!("a piece of the answer is not JSON: {error}"))
            }
            other => self.trouble.take().unwrap_or_else(|| {
                ProviderError::Malformed(self.faults.without_keys(&other.to_string()))
            }),
        }
    }
}

fn says_done(lines: &[u8]) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| {
        line.strip_prefix(b"data:")
            .is_some_and(|data| data.trim_ascii() == b"[DONE]")
    })
}

struct ChunkStreamState<S> {
    chunks: S,
    call: Arc<ExchangeState>,
    reader: ChunkReader,
    ready: VecDeque<StreamEvent>,
    ended: bool,
}

fn events<S>(
    chunks: S,
    call: Arc<ExchangeState>,
) -> impl Stream<Item = Result<StreamEvent, ProviderError>> + Send
where
    S: Stream<Item = Result<Value, OpenAIError>> + Unpin + Send,
{
    let reader = ChunkReader::new(call.faults.clone());
    let state = ChunkStreamState {
        chunks,
        call,
        reader,
        ready: VecDeque::new(),
        ended: false,
    };
    futures_util::stream::unfold(state, |mut state| async move {
        state.next().await.map(|item| (item, state))
    })
}

impl<S: Stream<Item = Result<Value, OpenAIError>> + Unpin> ChunkStreamState<S> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            let read = match self.chunks.next().await {
                Some(Ok(chunk)) if self.call.pace.consume_mark(&chunk) => continue,
                Some(Ok(chunk)) => self.reader.read(&chunk),
                Some(Err(error)) => Err(self.call.error(error)),
                None => {
                    self.ended = true;
                    let done = self.call.done.load(Ordering::Relaxed);
                    self.reader
                        .end(done)
                        .map(|event| event.into_iter().collect())
                }
            };
            match read {
                Ok(events) if events.is_empty() => {
                    return (!self.ended).then(|| Ok(StreamEvent::Text(String::new())));
                }
                Ok(events) => self.ready.extend(events),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
