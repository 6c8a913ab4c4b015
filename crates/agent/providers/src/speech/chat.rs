//! A recording as what somebody says in a chat: Xiaomi MiMo
//! (<https://platform.xiaomimimo.com/docs/en-US/api/audio/Speech-Recognition>).
//!
//! Its documentation names WAV and MP3 alone, and Chinese and English. Other recordings are sent as
//! what they are, for it to refuse; another language is left for it to find out.

use reqwest::Method;
use serde_json::json;

use super::exchange::{Exchange, text};
use super::{Question, SpeechError};

/// Where it is asked.
pub(super) const ENDPOINT: &str = "/chat/completions";

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &Question<'_>,
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
            .ask(Method::POST, &url, |request| request.json(&body))
            .await?;
        text(&answer, "/choices/0/message/content")
    };
    exchange.patiently(attempt).await
}
