//! Recovers complete records from a line that is not one valid record.
//!
//! A program that appends to a file without a final newline joins its record to the last line,
//! which may be torn. Records of this program and of the Python program begin with `role` or
//! `_type`. Those bytes cannot occur within a string, where quotes are escaped. They can occur in a
//! nested object, so text after torn bytes counts as a record only if it has the fields that every
//! record has.

use serde_json::{Deserializer, Value};

use nanobot_types::Map;

const STARTS: [&[u8]; 2] = [b"{\"role\"", b"{\"_type\""];

/// Maximum number of positions tried in one line, so that hostile input has a bounded cost.
const MAX_ATTEMPTS: usize = 4096;

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SalvagedPiece<'a> {
    Record(&'a [u8]),
    Torn(&'a [u8]),
}

/// Splits a line into its records and the torn pieces between them, in order. `None` if it contains
/// no complete record.
pub(crate) fn pieces(line: &[u8]) -> Option<Vec<SalvagedPiece<'_>>> {
    let mut pieces = Vec::new();
    let mut torn = 0;
    let mut position = 0;
    for _ in 0..MAX_ATTEMPTS {
        let Some(start) = next_start(line, position) else {
            break;
        };
        let follows_torn = line
            .get(torn..start)
            .is_some_and(|between| !is_padding(between));
        match record(line, start, follows_torn) {
            Some(end) => {
                if follows_torn {
                    pieces.push(SalvagedPiece::Torn(line.get(torn..start)?));
                }
                pieces.push(SalvagedPiece::Record(line.get(start..end)?));
                (torn, position) = (end, end);
            }
            None => position = start + 1,
        }
    }
    if pieces.is_empty() {
        return None;
    }
    let rest = line.get(torn..)?;
    if !is_padding(rest) {
        pieces.push(SalvagedPiece::Torn(rest));
    }
    Some(pieces)
}

fn is_padding(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

fn next_start(line: &[u8], from: usize) -> Option<usize> {
    let rest = line.get(from..)?;
    (0..rest.len())
        .find(|at| {
            rest.get(*at..)
                .is_some_and(|text| STARTS.iter().any(|start| text.starts_with(start)))
        })
        .map(|at| from + at)
}

/// Returns the end of the record that begins at `start`.
fn record(line: &[u8], start: usize, follows_torn: bool) -> Option<usize> {
    let mut values = Deserializer::from_slice(line.get(start..)?).into_iter::<Map>();
    let fields = values.next()?.ok()?;
    (!follows_torn || is_complete(&fields)).then(|| start + values.byte_offset())
}

fn is_complete(fields: &Map) -> bool {
    let has_text = |key| fields.get(key).is_some_and(Value::is_string);
    has_text("role") && has_text("timestamp") || has_text("_type") && has_text("key")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"role":"user","content":"one","timestamp":"2026-03-15T14:30:00"}"#;
    const STATE: &str = r#"{"_type": "metadata", "key": "telegram:1"}"#;

    fn shown(line: &str) -> Option<Vec<String>> {
        let show = |piece: SalvagedPiece<'_>| match piece {
            SalvagedPiece::Record(bytes) => format!("record {}", String::from_utf8_lossy(bytes)),
            SalvagedPiece::Torn(bytes) => format!("torn {}", String::from_utf8_lossy(bytes)),
        };
        pieces(line.as_bytes()).map(|pieces| pieces.into_iter().map(show).collect())
    }

    #[test]
    fn salvages_whole_records_and_reports_the_rest() {
        let bare = r#"{"role":"user","content":"bare"}"#;
        let table = [
            (
                format!("{ONE}{STATE}"),
                vec![format!("record {ONE}"), format!("record {STATE}")],
            ),
            (
                format!("{bare} {bare}"),
                vec![format!("record {bare}"), format!("record {bare}")],
            ),
            (
                format!(r#"{{"role":"user","content":"thr{ONE}"#),
                vec![
                    r#"torn {"role":"user","content":"thr"#.into(),
                    format!("record {ONE}"),
                ],
            ),
            (
                format!("{STATE}{{\"role\":\"us"),
                vec![format!("record {STATE}"), r#"torn {"role":"us"#.into()],
            ),
            (
                format!("xx{ONE}yy"),
                vec!["torn xx".into(), format!("record {ONE}"), "torn yy".into()],
            ),
        ];
        for (line, expected) in table {
            assert_eq!(shown(&line), Some(expected), "{line}");
        }
    }

    #[test]
    fn fragments_are_not_records() {
        for line in [
            r#"{"role":"user","content":"thr"#,
            r#"{"role":"user","content":[{"role":"user","text":"nested"},{"te"#,
            r#"{"role":"user","content":"{\"role\":\"user\",\"timestamp\":\"x\"}"#,
            "",
            "nothing",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }

    #[test]
    fn salvage_attempts_are_bounded() {
        for start in [
            r#"{"role":"#,
            r#"{"role":["#,
            r#"{"role":1,"a":"#,
            r#"[{"role":1},"#,
        ] {
            assert_eq!(shown(&start.repeat(100_000)), None, "{start}");
        }
    }
}
