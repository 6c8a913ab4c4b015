//! The corpus of secrets and of texts that only resemble them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use nanobot_redact::{Secrets, without_issued_keys, without_secrets};
use nanobot_testkit::{
    corpus::{CorpusRow, rows},
    summarize,
};

/// Number of characters of a secret that must not remain in a row.
const LEAK: usize = 12;

/// Returns the secret of a row and the text that contains it.
fn texts(row: &CorpusRow) -> (String, String) {
    let parts = row.json["parts"].as_array().unwrap();
    let secret: String = parts.iter().map(|part| part.as_str().unwrap()).collect();
    let text = row.text("text").replace("{S}", &secret);
    (secret, text)
}

fn is_leaked(secret: &str, shown: &str) -> bool {
    let characters: Vec<char> = secret.chars().collect();
    let mut runs = characters.windows(LEAK.min(characters.len()));
    runs.any(|run| shown.contains(&run.iter().collect::<String>()))
}

#[test]
fn corpus_recall_and_precision_are_high() {
    let (mut missed, mut altered) = (Vec::new(), Vec::new());
    let (mut hidden, mut secrets) = (0_u32, 0_u32);
    for row in rows("secrets").unwrap() {
        let (secret, text) = texts(&row);
        // This one is in use; no format matches it.
        let registered = (row.text("kind") == "own_config_value").then(|| secret.clone());
        let shown = without_secrets(&Secrets::new(registered).redact(&text));
        assert_eq!(without_secrets(&shown), shown, "{} changes again", row.id);
        if row.text("expect") == "redact" {
            secrets += 1;
            if is_leaked(&secret, &shown) {
                missed.push((row.id, shown));
            } else {
                hidden += 1;
            }
        } else if shown != text {
            altered.push((row.id, shown));
        }
    }
    let percent = |part: u32, whole: usize| f64::from(part) * 100.0 / whole as f64;
    let recall = percent(hidden, secrets as usize);
    let precision = percent(hidden, hidden as usize + altered.len());
    summarize(&format!(
        "secrets: recall {recall:.1} %, precision {precision:.1} %"
    ));
    assert!(
        recall >= 95.0 && precision >= 98.0,
        "recall {recall:.1} %, precision {precision:.1} %\nmissed: {missed:#?}\naltered: {altered:#?}"
    );
}

#[test]
fn a_model_of_grok_is_no_key_of_xai() {
    let key = format!("xai-{}", "q7Xz09".repeat(12));
    for (text, expected) in [
        ("run `nanobot provider login xai-grok`".to_owned(), None),
        ("xai-grok/grok-4.5 answers instead".to_owned(), None),
        (
            "{\"model\": \"xai-grok/grok-code-fast-1\"}".to_owned(),
            None,
        ),
        (format!("the key {key}"), Some("the key ***")),
        (format!("xai-grok/{key}"), Some("xai-grok/***")),
        (format!("xai-grok{}", "q7Xz09".repeat(12)), Some("***")),
    ] {
        assert_eq!(without_secrets(&text), expected.unwrap_or(&text), "{text}");
    }
}

/// Ids of QQ, DingTalk, Feishu and WeCom look like keys; an operator copies them out of the log.
#[test]
fn log_shows_the_ids_of_people_and_chats() {
    let qq = "6A8B11E0C8F94D5C9E0F4B7A1D2C3E4F";
    let dingtalk = "$:LWCP_v1:$aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ";
    let group = "group:cidAb3De5Gh7Jk9Mn1Pq3St5Vx7==";
    let text = |sender: &str, chat: &str| {
        format!("INFO access: denied access channel=x sender={sender} chat={chat}\n")
    };
    let coloured = |sender: &str| {
        format!("denied \u{1b}[3msender\u{1b}[0m\u{1b}[2m=\u{1b}[0m{sender} \u{1b}[3mkey\u{1b}[0m")
    };
    let json = |sender: &str| {
        format!("{{\"fields\":{{\"message\":\"denied\",\"sender\":\"{sender}\",\"n\":1}}}}")
    };
    for line in [
        text(qq, qq),
        text(dingtalk, group),
        text(
            "ou_84aad35d084aa403a838cf73ee18467a",
            "wrOgQhDgAAMYQiS5ol9G7gK9JVAAAAcA",
        ),
        coloured(qq),
        json(qq),
        json(dingtalk),
    ] {
        assert_eq!(without_issued_keys(&line), line);
    }
    let key = format!("sk-{}", "q7Xz09".repeat(6));
    for line in [text(&key, "x"), coloured(&key), json(&key)] {
        let shown = without_issued_keys(&line);
        assert!(!shown.contains("q7Xz09"), "{shown}");
    }
    // Other words are hidden as before, also after a colour and after such a field.
    let shown = without_issued_keys(&format!("sender=ann {qq} \u{1b}[0m{qq} other={qq}"));
    assert_eq!(shown, "sender=ann *** \u{1b}[0m*** other=***");
}

/// The key of a message is how two lines of a log about it are found.
#[test]
fn key_of_a_message_is_no_secret() {
    let turn = "7847839c-a6eb-41e0-84c1-f33cc932c33d";
    for kept in [
        format!("ERROR a message could not be sent key=test {turn}/0"),
        format!("key={turn}/4294967295 why=\"{turn}\""),
    ] {
        assert_eq!(without_issued_keys(&kept), kept);
        assert_eq!(without_secrets(&kept), kept);
    }
    for (text, expected) in [
        (format!("token={turn}/0"), "token=***"),
        (format!("{turn}/42949672950"), "***"),
        (format!("{turn}/abc"), "***"),
        (format!("{turn}0/0"), "***"),
    ] {
        assert_eq!(without_secrets(&text), expected, "{text}");
    }
}
