//! Transcription as a job that is uploaded, created and polled: AssemblyAI
//! (<https://www.assemblyai.com/docs/openapi.json>: `/v2/upload`, `/v2/transcript`).
//!
//! Decision: several models may be configured, separated by commas; the service uses the first that
//! supports the language. The key is sent without `Bearer`, as the service's documentation
//! requires.

use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::exchange::{AttemptError, Exchange, text};
use super::{SpeechError, TranscriptionRequest};

/// Endpoint paths that the user may have pasted after the base address.
pub(super) const ENDPOINTS: &[&str] = &["/upload", "/transcript"];

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let place = upload(exchange, question).await?;
    let job = create(exchange, question, &place).await?;
    loop {
        exchange.pause(exchange.timeouts.poll_every).await?;
        let poll = || async {
            let answer = exchange
                .request_json(Method::GET, &job, |request| request)
                .await?;
            match answer.get("status").and_then(Value::as_str) {
                Some("completed") => text(&answer, "/text").map(Some),
                Some("queued" | "processing") => Ok(None),
                Some("error") => Err(AttemptError::unexpected(&exchange.error_message(&answer))),
                _ => Err(AttemptError::unexpected(
                    "the answer has no known job status",
                )),
            }
        };
        if let Some(text) = exchange.with_retries(poll).await? {
            return Ok(text);
        }
    }
}

/// Uploads the recording and returns its URL.
async fn upload(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let url = exchange.address("/upload");
    let attempt = || async {
        let fill = |request: reqwest::RequestBuilder| {
            let mime = "application/octet-stream";
            request
                .header(http::header::CONTENT_TYPE, mime)
                .body(question.recording.clone())
        };
        let answer = exchange.request_json(Method::POST, &url, fill).await?;
        text(&answer, "/upload_url")
    };
    exchange.with_retries(attempt).await
}

/// Creates the job and returns its URL.
async fn create(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
    place: &str,
) -> Result<Url, SpeechError> {
    let url = exchange.address("/transcript");
    let models: Vec<&str> = question
        .model
        .split(',')
        .map(str::trim)
        .filter(|model| !model.is_empty())
        .collect();
    let mut body = json!({ "audio_url": place, "speech_models": models });
    if question.language.is_none()
        && let Some(body) = body.as_object_mut()
    {
        body.insert("language_detection".to_owned(), true.into());
    }
    question.tell_language(&mut body, "language_code");
    let attempt = || async {
        let answer = exchange
            .request_json(Method::POST, &url, |request| request.json(&body))
            .await?;
        let id = text(&answer, "/id")?;
        let mut job = url.clone();
        // Appending the id as one segment keeps it from changing the path, whatever it contains.
        if let Ok(mut path) = job.path_segments_mut() {
            path.push(&id);
        }
        Ok(job)
    };
    exchange.with_retries(attempt).await
}
