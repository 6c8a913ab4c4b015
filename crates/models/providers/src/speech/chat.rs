//! Transcription as a chat with an audio model: Xiaomi MiMo
//! (<https://platform.xiaomimimo.com/docs/en-US/api/audio/Speech-Recognition>).
//!
//! Its documentation lists only WAV and MP3, and only Chinese and English. Other formats are sent
//! as they are, for the service to reject; for another language, the service is asked to detect it.

use reqwest::Method;
use serde_json::json;

use super::exchange::{Exchange, text};
use super::{SpeechError, TranscriptionRequest};

/// Path of the endpoint.
pub(super) const ENDPOINT: &str = "/chat/completions";

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let url = exchange.address(ENDPOINT);
    let sound = format!("data:{};base64,{}", question.format.mime, question.base64());
    let language = question
        .language
        .filter(|language| matches!(*language, "zh" | "en"))
        .unwrap_or("auto");
    let body = json!({
        "model": question.model,
        "messages": [{
            "role": "user",
            "content": [{ "type": "input_audio", "input_audio": { "data": sound } }],
        }],
        "asr_options": { "language": language },
    });
    let attempt = || async {
        let answer = exchange
            .request_json(Method::POST, &url, |request| request.json(&body))
            .await?;
        text(&answer, "/choices/0/message/content")
    };
    exchange.with_retries(attempt).await
}
