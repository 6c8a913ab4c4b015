//! Transcription as a stream of events: StepFun
//! (<https://platform.stepfun.com/docs/zh/api-reference/audio/asr-sse>).
//!
//! Keys of a "Step Plan" work with `apiBase` `https://api.stepfun.com/step_plan/v1`.

use eventsource_stream::Eventsource as _;
use futures_util::StreamExt as _;
use http::header::{ACCEPT, HeaderValue};
use nanobot_types::json as bounded;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::exchange::{AttemptError, Exchange, MAX_RESPONSE};
use super::{SpeechError, TranscriptionRequest};
use crate::body::lines;

/// Path of the endpoint.
pub(super) const ENDPOINT: &str = "/audio/asr/sse";

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let url = exchange.address(ENDPOINT);
    let mut transcription = json!({ "model": question.model, "enable_itn": true });
    question.tell_language(&mut transcription, "language");
    let input =
        json!({ "transcription": transcription, "format": { "type": question.format.ending } });
    let body = json!({ "audio": { "data": question.base64(), "input": input } });
    let attempt = || async {
        let stream = HeaderValue::from_static("text/event-stream");
        let fill = |request: reqwest::RequestBuilder| request.header(ACCEPT, stream).json(&body);
        read(exchange, exchange.send(Method::POST, &url, fill).await?).await
    };
    exchange.with_retries(attempt).await
}

/// Returns the text of a whole stream. A stream that ends too early is worth a retry.
async fn read(exchange: &Exchange<'_>, response: Response) -> Result<String, AttemptError> {
    let mut events = lines(response)
        .await
        .map_err(|error| AttemptError::disconnected(&error))?
        .eventsource();
    let mut text = String::new();
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| AttemptError::disconnected(&error))?;
        // A frame that is not JSON contains no text.
        let Ok(data) = bounded::from_str::<Value>(&event.data) else {
            continue;
        };
        let field = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = if data.get("error").is_some() {
            "error"
        } else {
            field("type")
        };
        match kind {
            "transcript.text.delta" => text.push_str(field("delta")),
            "transcript.text.done" => {
                let whole = Some(field("text"))
                    .filter(|whole| !whole.is_empty())
                    .unwrap_or(&text);
                return Ok(whole.trim().to_owned());
            }
            "error" => return Err(AttemptError::unexpected(&exchange.error_message(&data))),
            _ => {}
        }
        if text.len() > MAX_RESPONSE {
            return Err(AttemptError::unexpected("the answer is too long"));
        }
    }
    Err(AttemptError::disconnected(
        &"the answer ends before the text does",
    ))
}
