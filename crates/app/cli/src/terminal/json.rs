//! Events as JSON lines, for programs (`--json`).
//!
//! Decision: the names here are a contract of their own (docs/commands.md), independent of the
//! protocol of the control socket. Programs ignore types and fields that they do not know, so both
//! may be added; none is renamed.

use std::io;

use nanobot_escape::visible_json;
use nanobot_runtime::TerminalEvent;
use nanobot_runtime::types::TurnActivity;
use serde_json::{Value, json};

use crate::failure::CommandFailure;
use crate::output;

/// Returns the first line: the session and the model that answers.
pub(super) fn start(session: &str, model: &str) -> Value {
    json!({"type": "start", "session": session, "model": model})
}

/// Returns a notice of the program.
pub(super) fn notice(text: &str) -> Value {
    json!({"type": "notice", "text": text})
}

/// Returns the failure of a command that has no reply, and what to try.
fn error(text: &str, remedy: Option<&str>) -> Value {
    json!({"type": "error", "text": text, "remedy": remedy})
}

/// Returns the last line, with the exit code.
pub(super) fn end(code: u8) -> Value {
    json!({"type": "end", "ok": code == 0, "code": code})
}

/// Prints the last lines of a command that failed: the failure, unless it was already reported, and
/// the end.
///
/// # Errors
/// Returns the error of standard output.
pub(crate) fn print_failure(failure: &CommandFailure) -> io::Result<()> {
    if let Some((what, remedy)) = failure.explanation() {
        output::write_verbatim(&line(&error(what, remedy)))?;
    }
    output::write_verbatim(&line(&end(failure.code())))
}

/// Returns the end of the turn of a message, with the number of unfinished subagents.
pub(super) fn turn_end(unfinished: u32) -> Value {
    json!({"type": "turn_end", "subagents": unfinished})
}

/// Returns the object of an event.
pub(super) fn event(event: &TerminalEvent) -> Value {
    match event {
        TerminalEvent::Delta(text) => json!({"type": "delta", "text": text}),
        TerminalEvent::StreamEnd { resuming } => {
            json!({"type": "stream_end", "resuming": resuming})
        }
        TerminalEvent::Progress(text) => json!({"type": "progress", "text": text}),
        TerminalEvent::ToolHint(text) => json!({"type": "tool_hint", "text": text}),
        TerminalEvent::Activity(step) => activity(step),
        TerminalEvent::News(text) => notice(text),
        TerminalEvent::Question { text, answers } => {
            json!({"type": "question", "text": text, "answers": answers})
        }
        TerminalEvent::TurnEnd { unfinished, .. } => turn_end(*unfinished),
        TerminalEvent::Reply {
            text,
            streamed,
            ok,
            job,
        } => {
            let mut object = json!({"type": "reply", "text": text, "ok": ok, "streamed": streamed});
            if let (Some(job), Some(fields)) = (job, object.as_object_mut()) {
                fields.insert("job".to_owned(), json!({"name": job.name, "at": job.at}));
            }
            object
        }
        // Only prompts receive these.
        TerminalEvent::Said { text, files } => {
            json!({"type": "said", "text": text, "files": files})
        }
    }
}

fn activity(step: &TurnActivity) -> Value {
    match step {
        TurnActivity::ModelAnswered {
            input_tokens,
            output_tokens,
        } => {
            json!({"type": "usage", "input_tokens": input_tokens, "output_tokens": output_tokens})
        }
        TurnActivity::ToolStarted { call } => json!({"type": "tool_start", "call": call}),
        TurnActivity::ToolFinished {
            call,
            success,
            elapsed_ms,
            output,
            output_bytes,
            kept_in,
            change,
        } => json!({
            "type": "tool_end",
            "call": call,
            "ok": success,
            "elapsed_ms": elapsed_ms,
            "output": output,
            "output_bytes": output_bytes,
            "kept_in": kept_in,
            "change": change,
        }),
    }
}

/// Formats an object as a line. Hidden characters become JSON escapes.
pub(super) fn line(object: &Value) -> String {
    format!("{}\n", visible_json(&object.to_string()))
}

#[cfg(test)]
mod tests {
    use nanobot_runtime::types::FiredJob;

    use super::*;

    #[test]
    fn names_of_types_and_fields_are_stable() {
        let reply = TerminalEvent::Reply {
            text: "a\nb".to_owned(),
            streamed: true,
            ok: true,
            job: None,
        };
        let of_job = TerminalEvent::Reply {
            text: "喝水 💧".to_owned(),
            streamed: false,
            ok: true,
            job: Some(FiredJob {
                name: "water".to_owned(),
                at: "2026-11-25T08:00:00+01:00".parse().unwrap(),
            }),
        };
        let hidden = TerminalEvent::Delta("\u{202e}x".to_owned());
        for (object, expected) in [
            (
                start("cli:direct", "m"),
                r#"{"model":"m","session":"cli:direct","type":"start"}"#,
            ),
            (notice("n"), r#"{"text":"n","type":"notice"}"#),
            (
                error("e", Some("r")),
                r#"{"remedy":"r","text":"e","type":"error"}"#,
            ),
            (end(1), r#"{"code":1,"ok":false,"type":"end"}"#),
            (
                event(&reply),
                r#"{"ok":true,"streamed":true,"text":"a\nb","type":"reply"}"#,
            ),
            (
                event(&of_job),
                r#"{"job":{"at":"2026-11-25T08:00:00+01:00","name":"water"},"ok":true,"streamed":false,"text":"喝水 💧","type":"reply"}"#,
            ),
            (event(&hidden), r#"{"text":"\u202ex","type":"delta"}"#),
            (
                event(&TerminalEvent::Question {
                    text: "May I?".to_owned(),
                    answers: vec!["Yes K7QX".to_owned(), "No K7QX".to_owned()],
                }),
                r#"{"answers":["Yes K7QX","No K7QX"],"text":"May I?","type":"question"}"#,
            ),
        ] {
            let object: Value = serde_json::from_str(&line(&object)).unwrap();
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(object, expected);
        }
        assert!(line(&event(&hidden)).is_ascii());
    }
}
