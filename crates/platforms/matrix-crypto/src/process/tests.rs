//! The client with other programs than the real one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::json;

use super::*;

fn program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    programs.join(name).with_extension("sh")
}

fn store() -> OpenStore {
    OpenStore {
        user_id: "@bot:server".to_owned(),
        device_id: "BOT".to_owned(),
        folder: "/store".into(),
    }
}

async fn started(name: &str) -> CryptoProcess {
    let limit = if name == "silent" {
        Duration::from_millis(200)
    } else {
        REQUEST_TIME
    };
    CryptoProcess::start_with(&program(name), &store(), limit)
        .await
        .unwrap()
}

/// Returns the text of the loss of a program.
async fn loss(process: &CryptoProcess) -> String {
    match process.verifications().await {
        Err(CryptoError::Program(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn requests_of_all_clones_are_answered() {
    let process = started("answers").await;
    let other = process.clone();
    let (first, second) = tokio::join!(process.verifications(), other.outgoing());
    assert_eq!((first.unwrap(), second.unwrap()), (vec![], vec![]));
    process.close().await;
    assert_eq!(loss(&other).await, "has ended");
}

#[tokio::test]
async fn a_cancelled_request_disturbs_no_other() {
    let process = started("answers").await;
    for _ in 0..20 {
        tokio::select! {
            biased;
            result = process.answered("id", 200, json!({})) => result.unwrap(),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(process.verifications().await.unwrap(), []);
    }
}

#[tokio::test]
async fn the_environment_is_not_passed_on() {
    let process = started("answers").await;
    let shown = process.encrypt("!room", "m", &json!({})).await.unwrap();
    let names = shown["variables"].as_str().unwrap().split_whitespace();
    // The shell sets those with `_` and `PWD` itself.
    let names: Vec<&str> = names
        .filter(|name| !matches!(*name, "_" | "PWD" | "OLDPWD" | "SHLVL"))
        .collect();
    assert_eq!(names, ["SQLITE_TMPDIR"]);
}

#[tokio::test]
async fn the_end_is_reported_with_the_last_words() {
    let process = started("dies").await;
    let text = loss(&process).await;
    assert!(text.starts_with("has ended (exit status: 3): "), "{text}");
    assert!(text.ends_with("; the disk is full"), "{text}");
    assert!(text.len() < 2500, "{}", text.len());
    assert_eq!(loss(&process).await, text);
}

#[tokio::test]
async fn other_lines_than_responses_end_it() {
    for (name, expected) in [
        ("garbage", "returned a line that is not a response"),
        ("other", "answered another request"),
        ("endless", "returned no response: a line has more than"),
        ("silent", "does not answer"),
    ] {
        let process = started(name).await;
        let text = loss(&process).await;
        assert!(text.starts_with(expected), "{name}: {text}");
        assert_eq!(loss(&process).await, text);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_an_error() {
    let refused = CryptoProcess::start(&program("refuses"), &store()).await;
    let locked = CryptoError::Refused("the store is locked".to_owned());
    assert_eq!(refused.unwrap_err(), locked);
    let missing = CryptoProcess::start(&program("missing"), &store()).await;
    let error = missing.unwrap_err().to_string();
    assert!(error.contains("cannot be started"), "{error}");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_here() {
    let process = started("answers").await;
    let huge = json!("a".repeat(crate::protocol::MAX_LINE));
    let error = process.encrypt("!room", "m", &huge).await.unwrap_err();
    assert!(matches!(error, CryptoError::Refused(_)), "{error}");
    assert_eq!(process.verifications().await.unwrap(), []);
}

#[test]
fn a_named_program_is_the_only_one() {
    let answers = program("answers");
    assert_eq!(CryptoProcess::find_program(Some(&answers)), Some(answers));
    assert_eq!(CryptoProcess::find_program(Some(&program("none"))), None);
}
