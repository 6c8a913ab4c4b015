//! Transcription by multipart form: OpenAI's `/audio/transcriptions`
//! (<https://platform.openai.com/docs/api-reference/audio/createTranscription>), which Groq,
//! SiliconFlow and many self-hosted servers also implement.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::Method;
use reqwest::multipart::{Form, Part};

use super::exchange::{Exchange, text};
use super::{SpeechError, TranscriptionRequest};

/// Path of the endpoint.
pub(super) const ENDPOINT: &str = "/audio/transcriptions";

pub(super) async fn transcribe(
    exchange: &Exchange<'_>,
    question: &TranscriptionRequest<'_>,
) -> Result<String, SpeechError> {
    let url = exchange.address(ENDPOINT);
    let attempt = || async {
        let answer = exchange
            .request_json(Method::POST, &url, |request| {
                request.multipart(form(question))
            })
            .await?;
        text(&answer, "/text")
    };
    exchange.with_retries(attempt).await
}

fn form(question: &TranscriptionRequest<'_>) -> Form {
    // Services detect the format from the file extension.
    let name = format!("audio.{}", question.format.ending);
    let length = question.recording.len() as u64;
    let file = Part::stream_with_length(question.recording.clone(), length).file_name(name);
    let mime =
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(question.format.mime))]);
    let form = Form::new()
        .part("file", file.headers(mime))
        .text("model", question.model.to_owned());
    match question.language {
        Some(language) => form.text("language", language.to_owned()),
        None => form,
    }
}
