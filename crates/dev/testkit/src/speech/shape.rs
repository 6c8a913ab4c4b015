//! Validates transcription requests as strictly as the vendors document them; an error is the
//! reason for 400.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::ReceivedRecording;
use crate::http::multipart::{boundary, parts};
use crate::http::{Request, Response};

/// Request format, by vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFormat {
    Form,
    Inline,
    Chat,
    Events,
    Upload,
    Job,
    Look,
}

impl RequestFormat {
    pub(super) fn of(request: &Request) -> Option<Self> {
        let path = request.path();
        let is_form = request
            .header("content-type")
            .is_some_and(|mime| mime.starts_with("multipart/"));
        match request.method.as_str() {
            "POST" if path.ends_with("/audio/transcriptions") => {
                Some(if is_form { Self::Form } else { Self::Inline })
            }
            "POST" if path.ends_with("/chat/completions") => Some(Self::Chat),
            "POST" if path.ends_with("/audio/asr/sse") => Some(Self::Events),
            "POST" if path.ends_with("/v2/upload") => Some(Self::Upload),
            "POST" if path.ends_with("/v2/transcript") => Some(Self::Job),
            "GET" if path.contains("/v2/transcript/") => Some(Self::Look),
            _ => None,
        }
    }

    fn is_assembly(self) -> bool {
        matches!(self, Self::Upload | Self::Job | Self::Look)
    }

    pub(super) fn authorization(self, key: &str) -> String {
        if self.is_assembly() {
            key.to_owned()
        } else {
            format!("Bearer {key}")
        }
    }

    pub(super) fn refusal(self, status: u16, why: &str) -> Response {
        let error = if self.is_assembly() {
            json!(why)
        } else {
            json!({ "message": why })
        };
        Response::json(status, &json!({ "error": error }))
    }
}

fn owned(text: &str) -> String {
    text.to_owned()
}

/// Returns the object if it has no other fields than these.
fn object<'a>(value: &'a Value, fields: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or("an object is missing")?;
    match object.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(unknown) => Err(format!("there is no parameter {unknown}")),
        None => Ok(object),
    }
}

fn text(object: &Map<String, Value>, field: &str) -> Result<String, String> {
    let text = object
        .get(field)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    text.map(owned).ok_or_else(|| format!("{field} is missing"))
}

fn optional(object: &Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    if object.contains_key(field) {
        text(object, field).map(Some)
    } else {
        Ok(None)
    }
}

fn body(request: &Request) -> Result<Value, String> {
    match request.header("content-type") {
        Some("application/json") => Ok(request.json()),
        other => Err(format!("not JSON but {other:?}")),
    }
}

fn decoded(base64: &str) -> Result<Bytes, String> {
    STANDARD
        .decode(base64)
        .map(Bytes::from)
        .map_err(|error| format!("the sound is no base64: {error}"))
}

fn among<'a>(word: &'a str, words: &[&str]) -> Result<&'a str, String> {
    if words.contains(&word) {
        Ok(word)
    } else {
        Err(format!("{word} is not supported"))
    }
}

pub(super) fn form(request: &Request) -> Result<ReceivedRecording, String> {
    let boundary = request
        .header("content-type")
        .and_then(boundary)
        .ok_or("there is no boundary")?;
    let (mut model, mut language, mut file) = (None, None, None);
    for part in parts(&request.body, boundary) {
        let text = String::from_utf8_lossy(&part.bytes).into_owned();
        match part.field.as_str() {
            "model" => model = Some(text),
            "language" => language = Some(text),
            "file" => file = Some(part),
            unknown => return Err(format!("there is no parameter {unknown}")),
        }
    }
    let file = file.ok_or("file is missing")?;
    let name = file.file_name.unwrap_or_default();
    let (_, ending) = name
        .rsplit_once('.')
        .ok_or("the file's name has no ending")?;
    among(
        ending,
        &[
            "flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm",
        ],
    )?;
    Ok(ReceivedRecording {
        model: model.ok_or("model is missing")?,
        language,
        kind: file.mime.ok_or("the file has no type")?,
        recording: file.bytes,
    })
}

pub(super) fn inline(request: &Request) -> Result<ReceivedRecording, String> {
    let body = body(request)?;
    let question = object(&body, &["model", "input_audio", "language", "temperature"])?;
    let sound = object(
        question
            .get("input_audio")
            .ok_or("input_audio is missing")?,
        &["data", "format"],
    )?;
    let kind = text(sound, "format")?;
    among(&kind, &["wav", "mp3", "flac", "m4a", "ogg", "webm", "aac"])?;
    Ok(ReceivedRecording {
        model: text(question, "model")?,
        language: optional(question, "language")?,
        kind,
        recording: decoded(&text(sound, "data")?)?,
    })
}

pub(super) fn chat(request: &Request) -> Result<ReceivedRecording, String> {
    let body = body(request)?;
    let question = object(&body, &["model", "messages", "asr_options", "stream"])?;
    let [message] = question
        .get("messages")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
    else {
        return Err(owned("one message is asked for"));
    };
    let message = object(message, &["role", "content"])?;
    among(&text(message, "role")?, &["user"])?;
    let [part] = message
        .get("content")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
    else {
        return Err(owned("one part is asked for"));
    };
    let part = object(part, &["type", "input_audio"])?;
    among(&text(part, "type")?, &["input_audio"])?;
    let sound = text(
        object(
            part.get("input_audio").ok_or("input_audio is missing")?,
            &["data"],
        )?,
        "data",
    )?;
    let sound = sound
        .strip_prefix("data:")
        .and_then(|sound| sound.split_once(";base64,"));
    let (kind, data) = sound.ok_or("the sound is no data URL")?;
    among(kind, &["audio/wav", "audio/mpeg", "audio/mp3"])?;
    let language = match question.get("asr_options") {
        Some(options) => optional(object(options, &["language"])?, "language")?,
        None => None,
    };
    among(language.as_deref().unwrap_or("auto"), &["auto", "zh", "en"])?;
    Ok(ReceivedRecording {
        model: text(question, "model")?,
        language,
        kind: owned(kind),
        recording: decoded(data)?,
    })
}

pub(super) fn events(request: &Request) -> Result<ReceivedRecording, String> {
    if request.header("accept") != Some("text/event-stream") {
        return Err(owned("accept has to be text/event-stream"));
    }
    let body = body(request)?;
    let audio = object(&body, &["audio"])?
        .get("audio")
        .ok_or("audio is missing")?;
    let audio = object(audio, &["data", "input"])?;
    let input = object(
        audio.get("input").ok_or("input is missing")?,
        &["transcription", "format"],
    )?;
    let known = [
        "language",
        "hotwords",
        "prompt",
        "model",
        "enable_itn",
        "enable_timestamp",
    ];
    let question = object(
        input
            .get("transcription")
            .ok_or("transcription is missing")?,
        &known,
    )?;
    let format = input.get("format").ok_or("format is missing")?;
    let kind = text(
        object(format, &["type", "codec", "rate", "bits", "channel"])?,
        "type",
    )?;
    among(&kind, &["pcm", "wav", "mp3", "ogg"])?;
    Ok(ReceivedRecording {
        model: text(question, "model")?,
        language: optional(question, "language")?,
        kind,
        recording: decoded(&text(audio, "data")?)?,
    })
}

pub(super) fn upload(request: &Request) -> Result<Bytes, String> {
    match request.header("content-type") {
        Some("application/octet-stream") if !request.body.is_empty() => Ok(request.body.clone()),
        _ => Err(owned("raw bytes are asked for")),
    }
}

pub(super) fn job(
    request: &Request,
    uploads: &BTreeMap<String, Bytes>,
) -> Result<ReceivedRecording, String> {
    let body = body(request)?;
    let question = object(
        &body,
        &[
            "audio_url",
            "speech_models",
            "language_code",
            "language_detection",
        ],
    )?;
    let recording = uploads
        .get(&text(question, "audio_url")?)
        .ok_or("nothing was uploaded there")?;
    let models = question
        .get("speech_models")
        .and_then(Value::as_array)
        .ok_or("speech_models is missing")?;
    for model in models {
        among(
            model.as_str().unwrap_or_default(),
            &["universal-3-5-pro", "universal-3-pro", "universal-2"],
        )?;
    }
    let language = optional(question, "language_code")?;
    if language.is_some() && question.get("language_detection") == Some(&Value::Bool(true)) {
        return Err(owned(
            "language_code and language_detection exclude each other",
        ));
    }
    let models: Vec<&str> = models.iter().filter_map(Value::as_str).collect();
    Ok(ReceivedRecording {
        model: models.join(","),
        language,
        kind: owned("application/octet-stream"),
        recording: recording.clone(),
    })
}
