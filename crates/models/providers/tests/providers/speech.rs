//! Transcription of recordings.

use std::time::Duration;

use bytes::Bytes;
use nanobot_providers::{
    ApiKey, BuildError, ProviderSettings, ProviderSpec, Selection, Speech, SpeechError,
    SpeechSettings, SpeechTimeouts, build,
};
use nanobot_testkit::SpeechFake;
use nanobot_testkit::http::{Response, ResponseStep};
use nanobot_testkit::speech::ReceivedRecording;
use serde_json::json;

use crate::support::clients;

const KEY: &str = "gsk_secret";

/// Each vendor with its default model, and its endpoint under `/x/v2`.
const VENDORS: [(&str, &str, &str); 7] = [
    ("groq", "whisper-large-v3", "/audio/transcriptions"),
    ("openai", "whisper-1", "/audio/transcriptions"),
    ("openrouter", "openai/whisper-1", "/audio/transcriptions"),
    (
        "siliconflow",
        "FunAudioLLM/SenseVoiceSmall",
        "/audio/transcriptions",
    ),
    ("xiaomi_mimo", "mimo-v2.5-asr", "/chat/completions"),
    ("stepfun", "stepaudio-2.5-asr", "/audio/asr/sse"),
    ("assemblyai", "universal-3-pro,universal-2", "/upload"),
];

/// Returns limits that suffice on a busy machine, with almost no pauses.
fn patient() -> SpeechTimeouts {
    SpeechTimeouts {
        pauses: [Duration::from_millis(1); 3],
        poll_every: Duration::from_millis(1),
        ..SpeechTimeouts::default()
    }
}

fn settings() -> SpeechSettings {
    SpeechSettings {
        model: None,
        language: None,
        max_seconds: 120,
        max_bytes: 1000,
        timeouts: patient(),
    }
}

fn speech(vendor: &str, base: String, settings: SpeechSettings) -> Speech {
    let selection = Selection {
        name: vendor.into(),
        spec: ProviderSpec::find(vendor).unwrap(),
    };
    let provider = ProviderSettings {
        api_key: ApiKey::parse(KEY).unwrap(),
        api_base: Some(base),
        ..ProviderSettings::default()
    };
    Speech::new(&selection, &provider, settings, clients()).unwrap()
}

async fn fake() -> SpeechFake {
    SpeechFake::start(KEY).await.unwrap()
}

/// A folder with recordings.
struct Recordings(tempfile::TempDir);

impl Recordings {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

#[tokio::test]
async fn sends_recordings_in_each_vendors_format() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound of a voice");
    assert_eq!(
        Speech::vendors().collect::<Vec<_>>(),
        VENDORS.map(|(vendor, ..)| vendor)
    );
    for (vendor, model, endpoint) in VENDORS {
        for ending in ["", "/", endpoint] {
            let fake = fake().await;
            fake.set_transcript(" 你好, hello there \n");
            let speech = speech(vendor, format!("{}/x/v2{ending}", fake.url()), settings());
            assert_eq!(
                speech.transcribe(&path, None).await.unwrap(),
                "你好, hello there",
                "{vendor} at {ending}"
            );
            assert!(!format!("{speech:?}").contains(KEY), "{speech:?}");
            let (language, kind) = match vendor {
                "xiaomi_mimo" => (Some("auto".to_owned()), "audio/mpeg"),
                "openrouter" | "stepfun" => (None, "mp3"),
                "assemblyai" => (None, "application/octet-stream"),
                _ => (None, "audio/mpeg"),
            };
            let recording = Bytes::from_static(b"sound of a voice");
            let expected = ReceivedRecording {
                model: model.to_owned(),
                language,
                kind: kind.to_owned(),
                recording,
            };
            assert_eq!(fake.recordings(), [expected], "{vendor} at {ending}");
            assert_eq!(
                fake.requests()[0],
                format!("POST /x/v2{endpoint}"),
                "{vendor} at {ending}"
            );
        }
    }
}

#[tokio::test]
async fn sends_model_and_language_in_each_vendors_terms() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    for (vendor, ..) in VENDORS {
        for (language, told) in [
            ("zh", "zh"),
            (
                "de",
                if vendor == "xiaomi_mimo" {
                    "auto"
                } else {
                    "de"
                },
            ),
        ] {
            let fake = fake().await;
            let own = if vendor == "assemblyai" {
                " universal-2 ,"
            } else {
                "own/model"
            };
            let wishes = SpeechSettings {
                model: Some(own.to_owned()),
                language: Some(language.to_owned()),
                ..settings()
            };
            let speech = speech(vendor, format!("{}/v2", fake.url()), wishes);
            assert_eq!(
                speech.transcribe(&path, None).await.unwrap(),
                "hello there",
                "{vendor} {language}"
            );
            let heard = fake.recordings().remove(0);
            let model = own.trim_matches([' ', ',']);
            assert_eq!(
                (heard.model.as_str(), heard.language.as_deref()),
                (model, Some(told)),
                "{vendor}"
            );
        }
    }
}

#[tokio::test]
async fn names_containers_by_standard_mime_types() {
    let recordings = Recordings::new();
    let table = [
        ("x.oga", None, "audio/ogg", "ogg"),
        ("x.opus", None, "audio/ogg", "ogg"),
        ("x.m4a", None, "audio/mp4", "m4a"),
        ("x.mpga", None, "audio/mpeg", "mp3"),
        ("x.weba", None, "audio/webm", "webm"),
        ("x", Some("audio/x-wav; rate=8000"), "audio/wav", "wav"),
    ];
    for (name, said, mime, format) in table {
        let path = recordings.write(name, b"sound");
        for (vendor, expected) in [("openai", mime), ("openrouter", format)] {
            let fake = fake().await;
            let speech = speech(vendor, fake.url(), settings());
            speech.transcribe(&path, said).await.unwrap();
            assert_eq!(fake.recordings()[0].kind, expected, "{vendor} {name}");
        }
    }
    // A format that a vendor does not know is rejected by the vendor itself.
    let path = recordings.write("x.ogg", b"sound");
    let fake = fake().await;
    let mimo = speech("xiaomi_mimo", fake.url(), settings());
    let error = mimo.transcribe(&path, None).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the service refuses it: 400 audio/ogg is not supported"
    );
    assert_eq!(fake.requests().len(), 1);
}

fn trouble(status: u16) -> Response {
    Response::json(status, &json!({ "error": { "message": "not now" } }))
}

#[tokio::test]
async fn retries_transient_failures() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    let passing = [
        vec![
            trouble(429).with_header("retry-after", "0"),
            trouble(500),
            trouble(504),
        ],
        vec![trouble(408), trouble(502), trouble(503)],
        vec![
            Response::headless(vec![ResponseStep::Reset]),
            Response::headless(vec![ResponseStep::Fin]),
        ],
        vec![Response::chunked(
            200,
            "text/event-stream",
            vec![ResponseStep::text("data: {\"ty"), ResponseStep::Fin],
        )],
    ];
    for (vendor, ..) in VENDORS {
        for answers in &passing {
            let fake = fake().await;
            fake.push_responses(answers.iter().cloned());
            let speech = speech(vendor, format!("{}/v2", fake.url()), settings());
            assert_eq!(
                speech.transcribe(&path, None).await.unwrap(),
                "hello there",
                "{vendor} after {answers:?}"
            );
            assert_eq!(fake.recordings().len(), 1, "{vendor}");
        }
        let fake = fake().await;
        fake.push_responses(std::iter::repeat_n(trouble(500), 9));
        let speech = speech(vendor, format!("{}/v2", fake.url()), settings());
        let error = speech.transcribe(&path, None).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the service refuses it: 500 not now",
            "{vendor}"
        );
        assert_eq!(fake.requests().len(), 4, "{vendor}");
    }
}

#[tokio::test]
async fn honours_retry_after_and_gives_up_if_too_long() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    for vendor in ["groq", "stepfun", "assemblyai"] {
        let fake = fake().await;
        fake.push_responses([trouble(429).with_header("retry-after", "1")]);
        let began = std::time::Instant::now();
        let patient = speech(vendor, format!("{}/v2", fake.url()), settings());
        assert_eq!(
            patient.transcribe(&path, None).await.unwrap(),
            "hello there",
            "{vendor}"
        );
        assert!(began.elapsed() >= Duration::from_secs(1), "{vendor}");
        for wait in [
            "3600",
            "1e18",
            "18446744073709549568",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ] {
            fake.push_responses([trouble(429).with_header("retry-after", wait)]);
            let before = fake.requests().len();
            let given_up =
                tokio::time::timeout(Duration::from_secs(70), patient.transcribe(&path, None));
            let error = given_up.await.expect("it is not waited for").unwrap_err();
            assert_eq!(
                error.to_string(),
                "the service refuses it: 429 not now",
                "{vendor} {wait}"
            );
            assert_eq!(fake.requests().len(), before + 1, "{vendor} {wait}");
        }
    }
}

#[tokio::test]
async fn permanent_failures_are_not_retried_and_omit_the_key() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    let page = || Response::bytes(200, "text/html", "<html>log in</html>");
    for (vendor, ..) in VENDORS {
        let message = format!("Invalid API Key: {KEY}");
        let table = [
            (
                Response::json(401, &json!({ "error": { "message": message } })),
                "401 Invalid API Key: ***",
            ),
            (
                Response::json(403, &json!({ "error": "no such plan" })),
                "403 no such plan",
            ),
            (Response::json(404, &json!({})), "404 "),
        ];
        for (answer, expected) in table {
            let fake = fake().await;
            fake.push_responses([answer]);
            let speech = speech(vendor, format!("{}/v2", fake.url()), settings());
            let error = speech.transcribe(&path, None).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the service refuses it: {expected}"),
                "{vendor}"
            );
            assert_eq!(fake.requests().len(), 1, "{vendor}");
        }
        for odd in [
            page(),
            Response::json(200, &json!([1])),
            Response::json(200, &json!({ "odd": true })),
        ] {
            let fake = fake().await;
            fake.push_responses(std::iter::repeat_n(odd, 9));
            let speech = speech(vendor, format!("{}/v2", fake.url()), settings());
            let error = speech.transcribe(&path, None).await.unwrap_err();
            assert!(
                matches!(
                    error,
                    SpeechError::Refused { status: 200, .. } | SpeechError::Unreachable(_)
                ),
                "{vendor}: {error}"
            );
        }
    }
    let wrong = SpeechFake::start("another").await.unwrap();
    for (vendor, ..) in VENDORS {
        let speech = speech(vendor, format!("{}/v2", wrong.url()), settings());
        let error = speech.transcribe(&path, None).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the service refuses it: 401 Invalid API key",
            "{vendor}"
        );
    }
}

#[tokio::test]
async fn hanging_services_time_out() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    let short = Duration::from_millis(300);
    let hanging = [
        Response::headless(vec![ResponseStep::Hang]),
        Response::chunked(
            200,
            "text/event-stream",
            vec![ResponseStep::text("data: {\"type\":"), ResponseStep::Hang],
        ),
    ];
    for (vendor, ..) in VENDORS {
        for answer in &hanging {
            let fake = fake().await;
            fake.push_responses(std::iter::repeat_n(answer.clone(), 9));
            let timeouts = SpeechTimeouts {
                total: short,
                total_of_job: short,
                ..patient()
            };
            let speech = speech(
                vendor,
                format!("{}/v2", fake.url()),
                SpeechSettings {
                    timeouts,
                    ..settings()
                },
            );
            let error = speech.transcribe(&path, None).await.unwrap_err();
            assert!(
                matches!(error, SpeechError::Late { .. }),
                "{vendor}: {error}"
            );
        }
    }
    // One attempt that hangs does not use up the others.
    let fake = fake().await;
    fake.push_responses([hanging[0].clone()]);
    let timeouts = SpeechTimeouts {
        each: Duration::from_secs(5),
        ..patient()
    };
    let groq = speech(
        "groq",
        fake.url(),
        SpeechSettings {
            timeouts,
            ..settings()
        },
    );
    assert_eq!(groq.transcribe(&path, None).await.unwrap(), "hello there");
}

#[tokio::test]
async fn polls_a_job_until_done_or_timed_out() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    let fake = fake().await;
    fake.set_polls(5);
    let speech_of = |fake: &SpeechFake, timeouts| {
        speech(
            "assemblyai",
            format!("{}/v2", fake.url()),
            SpeechSettings {
                timeouts,
                ..settings()
            },
        )
    };
    assert_eq!(
        speech_of(&fake, patient())
            .transcribe(&path, None)
            .await
            .unwrap(),
        "hello there"
    );
    let mut expected = vec!["POST /v2/upload", "POST /v2/transcript"];
    expected.extend(["GET /v2/transcript/job-1"; 6]);
    assert_eq!(fake.requests(), expected);

    fake.set_polls(usize::MAX);
    let timeouts = SpeechTimeouts {
        total_of_job: Duration::from_secs(1),
        ..patient()
    };
    let error = speech_of(&fake, timeouts)
        .transcribe(&path, None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the service gave no text within 1 s");

    // A new server: a request of the abandoned transcription may still be on its way to the first.
    let fake = self::fake().await;
    let failed = json!({ "status": "error", "error": "Transcoding failed: no audio" });
    let brought = json!({ "upload_url": "https://cdn.test/upload/0" });
    let created = json!({ "id": "../job 2", "status": "queued" });
    fake.push_responses([&brought, &created, &failed].map(|answer| Response::json(200, answer)));
    let error = speech_of(&fake, patient())
        .transcribe(&path, None)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the service refuses it: 200 Transcoding failed: no audio"
    );
    assert_eq!(
        fake.requests().pop().unwrap(),
        "GET /v2/transcript/..%2Fjob%202",
        "an id is one segment"
    );
}

#[tokio::test]
async fn handles_streams_that_fail_midway() {
    let recordings = Recordings::new();
    let path = recordings.write("x.mp3", b"sound");
    let stream =
        |text: &str| Response::chunked(200, "text/event-stream", vec![ResponseStep::text(text)]);
    let delta = "data: {\"type\":\"transcript.text.delta\",\"delta\":\" hel\"}\n\n";
    let fake = fake().await;
    let speech = speech("stepfun", fake.url(), settings());
    // The final event may have no text, and `[DONE]` may come before the end.
    fake.push_responses([stream(&format!(
        "{delta}data: [DONE]\n\n{}data: {{\"type\":\"transcript.text.done\",\"text\":\"\"}}\n\n",
        delta.replace(" hel", "lo")
    ))]);
    assert_eq!(speech.transcribe(&path, None).await.unwrap(), "hello");
    fake.push_responses([stream(&format!(
        "{delta}data: {{\"type\":\"error\",\"message\":\"not allowed\"}}\n\n"
    ))]);
    let error = speech.transcribe(&path, None).await.unwrap_err();
    assert_eq!(error.to_string(), "the service refuses it: 200 not allowed");
    fake.push_responses([stream(delta)]);
    assert_eq!(
        speech.transcribe(&path, None).await.unwrap(),
        "hello there",
        "one that ends too early is asked again"
    );
}

#[tokio::test]
async fn does_not_send_oversized_recordings() {
    let recordings = Recordings::new();
    let fake = fake().await;
    let groq = speech("groq", fake.url(), settings());
    let large = recordings.write("large.mp3", &[0; 1001]);
    assert!(matches!(
        groq.transcribe(&large, None).await,
        Err(SpeechError::TooLarge {
            bytes: 1001,
            limit: 1000
        })
    ));
    let mut long =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x01\0\0\0\x01\0\0\0\x01\0\x08\0data".to_vec();
    long.extend(121_u32.to_le_bytes());
    let long = recordings.write("long.wav", &long);
    assert!(matches!(
        groq.transcribe(&long, None).await,
        Err(SpeechError::TooLong {
            seconds: 121,
            limit: 120
        })
    ));
    let missing = recordings.0.path().join("missing.ogg");
    assert!(matches!(
        groq.transcribe(&missing, None).await,
        Err(SpeechError::Unreadable(_))
    ));
    // Ten megabytes of base64 are all that it takes.
    let mimo = speech(
        "xiaomi_mimo",
        fake.url(),
        SpeechSettings {
            max_bytes: 25 << 20,
            ..settings()
        },
    );
    let large = recordings.write("large.mp3", &vec![0; 7_500_001]);
    assert!(matches!(
        mimo.transcribe(&large, None).await,
        Err(SpeechError::TooLarge {
            limit: 7_500_000,
            ..
        })
    ));
    assert_eq!(fake.requests(), [""; 0]);
}

#[test]
fn transcription_vendor_is_rejected_as_chat_provider() {
    let selection = Selection {
        name: "assemblyai".into(),
        spec: ProviderSpec::find("assemblyai").unwrap(),
    };
    let error = build(&selection, &ProviderSettings::default(), "x", clients()).unwrap_err();
    assert!(
        matches!(
            error,
            BuildError::Unsupported {
                label: "AssemblyAI",
                ..
            }
        ),
        "{error}"
    );
    let error = Speech::new(
        &selection,
        &ProviderSettings::default(),
        settings(),
        clients(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "AssemblyAI needs a key: set providers.assemblyai.apiKey in the configuration"
    );
}
