//! One exchange with an API that answers with typed events, as Anthropic's and OpenAI's Responses.

use std::collections::VecDeque;

use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use nanobot_provider::{ChatStream, ProviderError, StreamEvent};
use nanobot_types::json;
use reqwest::Url;
use serde::Serialize;
use serde_json::Value;

use crate::client::network_error;
use crate::fault::ErrorClassifier;
use crate::{HttpClients, body};

/// Reader of the events of one answer.
pub(crate) trait ReadEvents: Send + 'static {
    /// Returns the stream events of the next object.
    fn read(&mut self, event: &Value) -> Result<Vec<StreamEvent>, ProviderError>;

    /// Returns the last event, at the end of the stream; `None` if the answer is incomplete.
    fn end(&mut self) -> Result<Option<StreamEvent>, ProviderError>;
}

/// Address of an API, with all that a request to it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint<'a> {
    pub(crate) url: &'a Url,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) faults: &'a ErrorClassifier,
    pub(crate) http: &'a HttpClients,
}

impl Endpoint<'_> {
    /// Sends a request once, and returns its answer as it arrives.
    pub(crate) async fn exchange(
        self,
        body: &impl Serialize,
        reader: impl ReadEvents,
    ) -> Result<ChatStream, ProviderError> {
        let request = self
            .http
            .client_for(self.url)?
            .post(self.url.clone())
            .headers(self.headers.clone())
            .json(body);
        let response = request
            .send()
            .await
            .map_err(|error| network_error(self.url, error))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = body::error_body(response).await;
            return Err(self.faults.of_status(status.as_u16(), &headers, &body));
        }
        let frames = body::lines(response).await?.eventsource();
        let state = EventStreamState {
            frames,
            reader,
            ready: VecDeque::new(),
            ended: false,
        };
        Ok(futures_util::stream::unfold(state, |mut state| async move {
            state.next().await.map(|item| (item, state))
        })
        .boxed())
    }
}

struct EventStreamState<S, R> {
    frames: S,
    reader: R,
    ready: VecDeque<StreamEvent>,
    ended: bool,
}

impl<S, R> EventStreamState<S, R>
where
    S: Stream<Item = Result<Event, EventStreamError<ProviderError>>> + Unpin,
    R: ReadEvents,
{
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            let read = match self.frames.next().await {
                Some(frame) => frame
                    .map_err(unwrap_transport)
                    .and_then(|frame| self.read(&frame)),
                None => {
                    self.ended = true;
                    self.reader.end().map(|event| event.into_iter().collect())
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

    fn read(&mut self, frame: &Event) -> Result<Vec<StreamEvent>, ProviderError> {
        if frame.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = json::from_str(&frame.data).map_err(|error| {
            ProviderError::Malformed(format!("a piece of the answer is not JSON: {error}"))
        })?;
        self.reader.read(&event)
    }
}

fn unwrap_transport(error: EventStreamError<ProviderError>) -> ProviderError {
    match error {
        EventStreamError::Transport(error) => error,
        other => ProviderError::Malformed(format!("the answer is not an event stream: {other}")),
    }
}
