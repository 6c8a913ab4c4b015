//! Answers in the format of OpenAI's chat completions API.

use nanobot_types::Usage;
use serde_json::{Value, json};

use super::Echo;
use super::frames::{Frames, event};
use crate::json::set;
use crate::reply::ScriptedAnswer;

const CREATED: u64 = 1_700_000_000;

/// Returns a `chat.completion`.
pub(super) fn message(echo: &Echo, answer: &ScriptedAnswer) -> Value {
    let text = answer.text();
    let mut message = json!({"role": "assistant", "content": text});
    if text.is_empty() && !answer.calls.is_empty() {
        set(&mut message, "content", Value::Null);
    }
    if let Some(reasoning) = &answer.reasoning {
        set(&mut message, "reasoning_content", reasoning.text.as_str());
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().enumerate().map(|(index, call)| {
            json!({
                "id": echo.call_id(call.id.as_deref(), index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        set(&mut message, "tool_calls", calls.collect::<Value>());
    }
    json!({
        "id": format!("chatcmpl-{}", echo.number),
        "object": "chat.completion",
        "created": CREATED,
        "model": echo.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": answer.finish_reason()}],
        "usage": usage(answer.usage),
    })
}

/// Returns `chat.completion.chunk`s: role, reasoning, text, and calls with their arguments in two
/// pieces.
pub(super) fn frames(echo: &Echo, answer: &ScriptedAnswer) -> Frames {
    let mut frames = Frames::new(|kind, message| event(None, &error(kind, message)));
    frames.push(chunk(
        echo,
        &json!({"role": "assistant", "content": ""}),
        None,
    ));
    if let Some(reasoning) = &answer.reasoning {
        frames.push(chunk(
            echo,
            &json!({"reasoning_content": reasoning.text}),
            None,
        ));
    }
    for delta in &answer.deltas {
        frames.push_delta(chunk(echo, &json!({"content": delta}), None));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let id = echo.call_id(call.id.as_deref(), index);
        let start = json!({"index": index, "id": id, "type": "function", "function": {"name": call.name, "arguments": ""}});
        frames.push(chunk(echo, &json!({"tool_calls": [start]}), None));
        for piece in halves(&call.arguments) {
            let piece = json!({"index": index, "function": {"arguments": piece}});
            frames.push(chunk(echo, &json!({"tool_calls": [piece]}), None));
        }
    }
    frames.push_close(chunk(echo, &json!({}), Some(answer.finish_reason())));
    if echo.usage_chunk {
        let mut last = base(echo, json!([]));
        set(&mut last, "usage", usage(answer.usage));
        frames.push_close(event(None, &last));
    }
    frames.push_close("data: [DONE]\n\n".to_owned());
    frames
}

/// Returns an error inside a stream or in place of a whole answer.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

/// Returns the error object for a status.
pub(super) fn status_error(status: u16, code: Option<&str>, message: &str) -> Value {
    let (kind, usual_code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    let kind = code
        .filter(|code| *code == "insufficient_quota")
        .unwrap_or(kind);
    json!({"error": {"message": message, "type": kind, "param": null, "code": code.or(usual_code)}})
}

fn chunk(echo: &Echo, delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    let mut chunk = base(echo, json!([choice]));
    if echo.usage_chunk {
        set(&mut chunk, "usage", Value::Null);
    }
    event(None, &chunk)
}

fn base(echo: &Echo, choices: Value) -> Value {
    let mut chunk = json!({
        "id": format!("chatcmpl-{}", echo.number),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": echo.model,
    });
    set(&mut chunk, "choices", choices);
    chunk
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

/// Splits a text into two pieces between characters; a text too short to split is one piece.
pub(super) fn halves(text: &str) -> Vec<&str> {
    let middle = text
        .char_indices()
        .map(|(index, _)| index)
        .nth(text.chars().count() / 2)
        .unwrap_or_default();
    let (first, second) = text.split_at(middle);
    [first, second]
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect()
}
