//! Transcription with the recording inside of JSON: OpenRouter's `/audio/transcriptions`
//! (<https://openrouter.ai/docs/guides/overview/multimodal/stt>).

use reqwest::Method;
use serde_json::json;

use super::exchange::{Exchange, text};
use super::form::ENDPOINT;
use super::{SpeechError, TranscriptionRequest};

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let url = exchange.address(ENDPOINT);
    let mut body = json!({
        "model": question.model,
        "input_audio": { "data": question.base64(), "format": question.format.ending },
    });
    question.tell_language(&mut body, "language");
    let attempt = || async {
        let answer = exchange
            .request_json(Method::POST, &url, |request| request.json(&body))
            .await?;
        text(&answer, "/text")
    };
    exchange.with_retries(attempt).await
}
