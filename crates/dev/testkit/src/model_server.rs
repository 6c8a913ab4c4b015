//! A scripted model over HTTP: OpenAI's `/chat/completions` and `/responses`, and Anthropic's
//! `/messages`, JSON and SSE.
//!
//! It is as strict as the vendors (see [`ModelServer::violations`]): a request that they would
//! refuse is answered with status 400 in their error shape and recorded, without using up a reply.
//! It checks shapes only: it neither counts tokens nor knows any models.

mod anthropic;
mod frames;
mod openai;
mod request;
mod responses;
mod strict;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

pub use request::{ModelApi, ModelRequest};

use crate::TestkitError;
use crate::http::{Request, Response, ResponseStep, Server};
use crate::reply::{FailureBody, Reply, ReplyKind, ScriptedAnswer, ScriptedFailure};
use crate::script::ReplyScript;
use crate::sync::Watched;

/// A running scripted model; it stops on drop.
#[derive(Debug)]
pub struct ModelServer {
    server: Server,
    shared: Arc<ModelServerState>,
}

#[derive(Debug)]
struct ModelServerState {
    script: ReplyScript<ModelRequest>,
    key: Option<String>,
    record: Watched<RequestRecord>,
}

#[derive(Debug, Default)]
struct RequestRecord {
    requests: Vec<ModelRequest>,
    others: Vec<Request>,
    violations: Vec<String>,
    /// Documents by their paths.
    documents: HashMap<String, Value>,
}

/// Values of a request that its answer repeats.
struct Echo {
    number: usize,
    model: String,
    stream: bool,
    usage_chunk: bool,
}

impl ModelServer {
    /// Starts a server that gives these replies in order, one per valid request.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn scripted(replies: impl IntoIterator<Item = Reply>) -> Result<Self, TestkitError> {
        Self::start(ReplyScript::queue(replies), None).await
    }

    /// Starts a server whose replies are computed from the request.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn answering(
        rule: impl Fn(&ModelRequest) -> Reply + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Self::start(ReplyScript::rule(rule), None).await
    }

    /// Like [`ModelServer::scripted`], but answers every request without this key with status 401.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn with_key(
        key: impl Into<String>,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Result<Self, TestkitError> {
        Self::start(ReplyScript::queue(replies), Some(key.into())).await
    }

    async fn start(
        script: ReplyScript<ModelRequest>,
        key: Option<String>,
    ) -> Result<Self, TestkitError> {
        let shared = Arc::new(ModelServerState {
            script,
            key,
            record: Watched::default(),
        });
        let handler = Arc::clone(&shared);
        let server = Server::start(move |request| {
            let shared = Arc::clone(&handler);
            async move { shared.answer(request).await }
        })
        .await?;
        Ok(Self { server, shared })
    }

    /// Returns the base URL for OpenAI-compatible clients and for Anthropic's:
    /// `http://127.0.0.1:<port>/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// Returns the underlying server: address, abandoned answers, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Adds a reply to the end of the queue.
    pub fn push(&self, reply: impl Into<Reply>) {
        self.shared.script.push(reply.into());
    }

    /// Answers requests for a path with this document, as servers do that have an API of their own.
    pub fn serve(&self, path: &str, document: Value) {
        let documents =
            |record: &mut RequestRecord| record.documents.insert(path.to_owned(), document);
        self.shared.record.change(documents);
    }

    /// Returns the number of queued replies that were not used yet.
    #[must_use]
    pub fn replies_left(&self) -> usize {
        self.shared.script.left()
    }

    /// Returns every completion request so far, refused ones included.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.record.read(|record| record.requests.clone())
    }

    /// Returns every other request, such as `GET /v1/models`.
    #[must_use]
    pub fn other_requests(&self) -> Vec<Request> {
        self.shared.record.read(|record| record.others.clone())
    }

    /// Waits until there were `count` completion requests, and returns them all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for(&self, count: usize) -> Result<Vec<ModelRequest>, TestkitError> {
        let what = format!("{count} model requests");
        let reached = |record: &RequestRecord| {
            (record.requests.len() >= count).then(|| record.requests.clone())
        };
        self.shared.record.wait_for(&what, reached).await
    }

    /// Returns the requests that the vendors would have refused, and those for which the script had
    /// no reply left. A passing test ends with none.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.record.read(|record| record.violations.clone())
    }
}

impl ModelServerState {
    async fn answer(&self, request: Request) -> Response {
        let path = request.path();
        let api = if path.ends_with("/chat/completions") {
            ModelApi::OpenAi
        } else if path.ends_with("/responses") {
            ModelApi::Responses
        } else if path.ends_with("/messages") {
            ModelApi::Anthropic
        } else {
            return self.answer_other(request);
        };
        let keyed = self.has_key(&request);
        let request = ModelRequest::new(api, request);
        let number = self.record.change(|record| {
            record.requests.push(request.clone());
            record.requests.len()
        });
        if !keyed {
            return failure(api, number, &plain_failure(401, "the API key is not valid"));
        }
        let problems = strict::problems(&request);
        if let Some(first) = problems.first() {
            let refusal = plain_failure(400, first);
            self.violate(number, problems);
            return failure(api, number, &refusal);
        }
        let Some(reply) = self.script.next(&request) else {
            self.violate(number, vec!["the script has no reply left".to_owned()]);
            return failure(
                api,
                number,
                &plain_failure(500, "the script has no reply left"),
            );
        };
        let echo = Echo::of(number, &request);
        if let Some(gate) = &reply.gate {
            gate.passed().await;
        }
        match reply.shape {
            ReplyKind::Hang => Response::headless(vec![ResponseStep::Hang]),
            ReplyKind::Raw(response) => response,
            ReplyKind::ScriptedFailure(scripted) => failure(api, number, &scripted),
            ReplyKind::ScriptedAnswer(answer) => render(api, &echo, &answer),
        }
    }

    fn violate(&self, number: usize, problems: Vec<String>) {
        let problems = problems
            .into_iter()
            .map(|problem| format!("request {number}: {problem}"));
        self.record
            .change(|record| record.violations.extend(problems));
    }

    fn answer_other(&self, request: Request) -> Response {
        let known = request.method == "GET" && request.path().ends_with("/models");
        let keyed = self.has_key(&request);
        let served = self.record.change(|record| {
            let served = record.documents.get(request.path()).cloned();
            record.others.push(request);
            served
        });
        if let Some(document) = served.filter(|_| keyed) {
            return Response::json(200, &document);
        }
        if !known {
            return failure(
                ModelApi::OpenAi,
                0,
                &plain_failure(404, "there is nothing at this path"),
            );
        }
        if !keyed {
            return failure(
                ModelApi::OpenAi,
                0,
                &plain_failure(401, "the API key is not valid"),
            );
        }
        let model = json!({
            "id": "scripted-model", "object": "model", "created": 1_700_000_000, "owned_by": "testkit",
            "type": "model", "display_name": "Scripted model", "created_at": "2023-11-14T22:13:20Z",
        });
        Response::json(
            200,
            &json!({"object": "list", "data": [model], "has_more": false}),
        )
    }

    fn has_key(&self, request: &Request) -> bool {
        let Some(key) = &self.key else { return true };
        let bearer = request
            .header("authorization")
            .and_then(|value| value.strip_prefix("Bearer "));
        [
            bearer,
            request.header("x-api-key"),
            request.header("api-key"),
        ]
        .contains(&Some(key.as_str()))
    }
}

impl Echo {
    fn of(number: usize, request: &ModelRequest) -> Self {
        let json = &request.json;
        Self {
            number,
            model: json
                .get("model")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            stream: request.is_stream(),
            usage_chunk: json
                .pointer("/stream_options/include_usage")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        }
    }

    fn call_id(&self, given: Option<&str>, index: usize) -> String {
        given.map_or_else(|| format!("call_{}_{index}", self.number), str::to_owned)
    }
}

fn plain_failure(status: u16, text: &str) -> ScriptedFailure {
    let body = FailureBody::Message {
        text: text.to_owned(),
        code: None,
    };
    ScriptedFailure {
        status,
        headers: Vec::new(),
        body,
    }
}

fn render(api: ModelApi, echo: &Echo, answer: &ScriptedAnswer) -> Response {
    match (api, echo.stream) {
        (ModelApi::OpenAi, true) => openai::frames(echo, answer).respond(answer),
        (ModelApi::Responses, true) => responses::frames(echo, answer).respond(answer),
        (ModelApi::Responses, false) => {
            frames::respond_whole(answer, &responses::message(echo, answer), openai::error)
        }
        (ModelApi::Anthropic, true) => anthropic::frames(echo, answer).respond(answer),
        (ModelApi::OpenAi, false) => {
            frames::respond_whole(answer, &openai::message(echo, answer), openai::error)
        }
        (ModelApi::Anthropic, false) => {
            frames::respond_whole(answer, &anthropic::message(echo, answer), anthropic::error)
        }
    }
}

fn failure(api: ModelApi, number: usize, failure: &ScriptedFailure) -> Response {
    let status = failure.status;
    let response = match &failure.body {
        FailureBody::Exactly { content_type, text } => {
            Response::bytes(status, content_type, text.clone())
        }
        FailureBody::Message { text, code } => {
            let body = match api {
                ModelApi::OpenAi | ModelApi::Responses => {
                    openai::status_error(status, code.as_deref(), text)
                }
                ModelApi::Anthropic => anthropic::status_error(status, code.as_deref(), text),
            };
            Response::json(status, &body)
        }
    };
    let headers = failure.headers.iter().cloned();
    headers
        .fold(response, |response, (name, value)| {
            response.with_header(name, value)
        })
        .with_header("x-request-id", format!("req_{number}"))
}
