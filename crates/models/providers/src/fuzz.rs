//! Entry points to the response readers, for fuzzing and for tests of their limits. Not part of the
//! API.

use eventsource_stream::Eventsource as _;
use futures_util::{FutureExt as _, StreamExt as _};
use nanobot_provider::{Fold, Folded, ProviderError};
use serde_json::Value;

use crate::anthropic::events::EventReader;
use crate::body;
use crate::event_stream::ReadEvents;
use crate::fault::ErrorClassifier;
use crate::openai::chunk::ChunkReader;
use crate::responses::events::ResponseReader;

/// The API in whose form an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// Chat Completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Responses.
    Responses,
}

/// Reads a body that arrives in `chunks` as the response of a model.
///
/// # Errors
/// Returns the same errors as the clients.
pub fn answer(chunks: Vec<Vec<u8>>, form: AnswerForm) -> Result<Folded, ProviderError> {
    // All chunks are there already, so the future never has to wait.
    read(chunks, form)
        .now_or_never()
        .unwrap_or_else(|| Err(ProviderError::Network("the body is not ready".to_owned())))
}

/// Classifies the body of an error response.
pub fn refusal(status: u16, body: &[u8]) -> ProviderError {
    faults().of_status(status, &http::HeaderMap::new(), body)
}

fn faults() -> ErrorClassifier {
    ErrorClassifier {
        key: None,
        key_hint: "",
    }
}

async fn read(chunks: Vec<Vec<u8>>, form: AnswerForm) -> Result<Folded, ProviderError> {
    let chunks = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    let response = http::Response::new(reqwest::Body::wrap_stream(chunks)).into();
    let mut frames = body::lines(response).await?.eventsource();
    let mut openai = ChunkReader::new(faults());
    let mut typed: Option<Box<dyn ReadEvents>> = match form {
        AnswerForm::OpenAi => None,
        AnswerForm::Anthropic => Some(Box::new(EventReader::new(faults()))),
        AnswerForm::Responses => Some(Box::new(ResponseReader::new(faults()))),
    };
    let mut fold = Fold::new();
    let mut done = false;
    while let Some(frame) = frames.next().await {
        let malformed = |error: &dyn std::fmt::Display| ProviderError::Malformed(error.to_string());
        let frame = frame.map_err(|error| malformed(&error))?;
        if frame.data.trim() == "[DONE]" {
            done = true;
            continue;
        }
        let value: Value = serde_json::from_str(&frame.data).map_err(|error| malformed(&error))?;
        let events = match &mut typed {
            Some(reader) => reader.read(&value),
            None => openai.read(&value),
        };
        events?.into_iter().for_each(|event| fold.push(event));
    }
    let last = match &mut typed {
        Some(reader) => reader.end(),
        None => openai.end(done),
    };
    last?.into_iter().for_each(|event| fold.push(event));
    Ok(fold.finish())
}
