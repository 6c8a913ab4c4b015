//! Properties of redaction in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nanobot_redact::Secrets;
use proptest::prelude::*;

/// Number of characters of a secret that must not remain.
const LEAK: usize = 12;

/// Texts over few letters, so that secrets overlap, repeat and almost match.
fn secret() -> impl Strategy<Value = String> {
    "[abA1 /ß]{12,24}".prop_filter("is searched for", |value| {
        value.trim() == value && nanobot_redact::is_searched(value)
    })
}

/// One of the encodings of a secret, or of text around it.
fn encoded(secret: &str, form: usize) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    match form {
        0 => secret.to_owned(),
        1 => STANDARD.encode(secret),
        2 => URL_SAFE_NO_PAD.encode(secret),
        3 => hex(secret.as_bytes()),
        4 => secret.chars().rev().collect(),
        5 => STANDARD.encode(format!("u:{secret}")),
        6 => secret.chars().take(secret.chars().count() / 2).collect(),
        7 => secret.repeat(3),
        _ => secret.chars().skip(1).collect(),
    }
}

prop_compose! {
    fn case()(
        secrets in prop::collection::vec(secret(), 0..4),
        parts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..9, "[abA1 /ß\n]{0,6}"), 0..8),
        cuts in prop::collection::vec(1_usize..9, 1..12),
    ) -> (Vec<String>, String, Vec<usize>) {
        let text = parts.iter().map(|(chosen, form, after)| {
            let secret = if secrets.is_empty() { "nothing" } else { chosen.get(&secrets) };
            encoded(secret, *form) + after
        }).collect();
        (secrets, text, cuts)
    }
}

fn in_pieces(secrets: &Secrets, text: &str, cuts: &[usize]) -> String {
    let mut stream = secrets.stream();
    let mut shown = String::new();
    let mut rest: Vec<char> = text.chars().collect();
    for size in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let piece: String = rest.drain(..(*size).min(rest.len())).collect();
        shown.push_str(&stream.push(&piece));
    }
    shown + &stream.finish()
}

proptest! {
    #[test]
    fn output_does_not_depend_on_the_pieces((values, text, cuts) in case()) {
        let secrets = Secrets::new(values);
        prop_assert_eq!(in_pieces(&secrets, &text, &cuts), secrets.redact(&text));
    }

    #[test]
    fn redaction_is_idempotent((values, text, _) in case()) {
        let secrets = Secrets::new(values);
        let once = secrets.redact(&text).into_owned();
        prop_assert_eq!(secrets.redact(&once), once.as_str());
    }

    #[test]
    fn no_part_of_a_complete_secret_remains(values in prop::collection::vec(secret(), 1..4), cuts in prop::collection::vec(1_usize..9, 1..12)) {
        let secrets = Secrets::new(values.clone());
        let text: String = values.iter().map(|value| format!("<{value}>{value}")).collect();
        let shown = in_pieces(&secrets, &text, &cuts);
        for value in &values {
            let characters: Vec<char> = value.chars().collect();
            for run in characters.windows(LEAK) {
                let run: String = run.iter().collect();
                prop_assert!(!shown.contains(&run), "{run} in {shown}");
            }
        }
    }
}
