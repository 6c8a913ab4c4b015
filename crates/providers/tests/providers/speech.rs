//! Recordings on their way to text.

use std::sync::{Arc, Mutex};

use nanobot_providers::{ApiKey, ProviderSettings, ProviderSpec, Selection, Speech, SpeechError, SpeechSettings};
use nanobot_testkit::http::{Request, Response, Server};
use serde_json::{Value, json};

use crate::support::clients;

const KEY: &str = "gsk_secret";

fn settings() -> SpeechSettings {
    SpeechSettings { model: None, language: Some("de".to_owned()), max_seconds: 120, max_bytes: 1000 }
}

/// A service that answers with these in turn, the last one again and again, and what it was asked.
async fn service(answers: Vec<(u16, Value)>) -> (Server, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    let server = Server::start(move |request| {
        let mut asked = record.lock().unwrap();
        let (status, body) = answers.get(asked.len()).or(answers.last()).unwrap();
        asked.push(request);
        let response = Response::json(*status, body);
        async { response }
    });
    (server.await.unwrap(), asked)
}

fn speech(vendor: &str, base: String, settings: SpeechSettings) -> Speech {
    let selection = Selection { name: vendor.into(), spec: ProviderSpec::find(vendor).unwrap() };
    let provider =
        ProviderSettings { api_key: ApiKey::parse(KEY).unwrap(), api_base: Some(base), ..ProviderSettings::default() };
    Speech::new(&selection, &provider, settings, clients()).unwrap()
}

fn recording(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn a_recording_goes_as_a_form_and_comes_back_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(&folder, "x.oga", b"sound of a voice");
    for ending in ["/openai/v1", "/openai/v1/audio/transcriptions"] {
        let (server, asked) = service(vec![(200, json!({"text": " hello there \n"}))]).await;
        let speech = speech("groq", format!("{}{ending}", server.url()), settings());
        assert_eq!(speech.transcribe(&path, Some("audio/ogg")).await.unwrap(), "hello there");
        let request = asked.lock().unwrap().remove(0);
        assert_eq!(request.target, "/openai/v1/audio/transcriptions");
        assert_eq!(request.header("authorization"), Some("Bearer gsk_secret"));
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        for piece in ["filename=\"audio.ogg\"", "audio/ogg", "sound of a voice", "whisper-large-v3", "\r\nde\r\n"] {
            assert!(body.contains(piece), "{piece} is not in {body}");
        }
    }
}

#[tokio::test]
async fn openrouter_gets_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(&folder, "x.mp3", b"sound");
    let (server, asked) = service(vec![(200, json!({"text": "hello"}))]).await;
    let own = SpeechSettings { model: Some("own/model".to_owned()), language: None, ..settings() };
    let speech = speech("openrouter", format!("{}/api/v1", server.url()), own);
    assert_eq!(speech.transcribe(&path, None).await.unwrap(), "hello");
    let body = asked.lock().unwrap()[0].json();
    assert_eq!(body, json!({"model": "own/model", "input_audio": {"data": "c291bmQ=", "format": "mp3"}}));
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_told_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(&folder, "x.ogg", b"sound");
    let (server, asked) = service(vec![(503, json!({})), (200, json!({"text": "at last"}))]).await;
    let patient = speech("groq", server.url(), settings());
    assert_eq!(patient.transcribe(&path, None).await.unwrap(), "at last");
    assert_eq!(asked.lock().unwrap().len(), 2);
    let message = format!("Invalid API Key: {KEY}");
    let (server, asked) = service(vec![(401, json!({"error": {"message": message}}))]).await;
    let refused = speech("groq", server.url(), settings());
    let error = refused.transcribe(&path, None).await.unwrap_err();
    assert_eq!(error.to_string(), "the service refuses it: 401 Invalid API Key: ***");
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert!(!format!("{refused:?}").contains(KEY));
    let (server, _) = service(vec![(200, json!({"odd": true}))]).await;
    let odd = speech("groq", server.url(), settings());
    assert!(matches!(odd.transcribe(&path, None).await, Err(SpeechError::Refused { status: 200, .. })));
}

#[tokio::test]
async fn what_is_too_much_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (server, asked) = service(vec![(200, json!({"text": "hello"}))]).await;
    let speech = speech("groq", server.url(), settings());
    let large = recording(&folder, "large.mp3", &[0; 1001]);
    assert!(matches!(speech.transcribe(&large, None).await, Err(SpeechError::TooLarge { bytes: 1001, limit: 1000 })));
    let mut long = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x01\0\0\0\x01\0\0\0\x01\0\x08\0data".to_vec();
    long.extend(121_u32.to_le_bytes());
    let long = recording(&folder, "long.wav", &long);
    assert!(matches!(speech.transcribe(&long, None).await, Err(SpeechError::TooLong { seconds: 121, limit: 120 })));
    let missing = folder.path().join("missing.ogg");
    assert!(matches!(speech.transcribe(&missing, None).await, Err(SpeechError::Unreadable(_))));
    assert!(asked.lock().unwrap().is_empty());
}
