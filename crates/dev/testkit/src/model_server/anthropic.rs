//! Answers in the format of Anthropic's messages API.

use nanobot_types::Usage;
use serde_json::{Value, json};

use super::Echo;
use super::frames::{Frames, event};
use super::openai::halves;
use crate::json::set;
use crate::reply::ScriptedAnswer;

/// Returns a whole `message`.
pub(super) fn message(echo: &Echo, answer: &ScriptedAnswer) -> Value {
    let mut content = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        content.push(json!({"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature}));
    }
    let text = answer.text();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        // The vendor parses the arguments itself; invalid JSON is sent as text.
        let input: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        content.push(json!({
            "type": "tool_use", "id": echo.call_id(call.id.as_deref(), index), "name": call.name, "input": input,
        }));
    }
    let mut message = start(echo, answer.usage, answer.usage.completion_tokens);
    set(&mut message, "content", content);
    set(&mut message, "stop_reason", stop_reason(answer));
    message
}

/// Returns the events of a streamed `message`.
pub(super) fn frames(echo: &Echo, answer: &ScriptedAnswer) -> Frames {
    let mut frames = Frames::new(|kind, message| event(Some("error"), &error(kind, message)));
    frames.push(named(
        "message_start",
        json!({"message": start(echo, answer.usage, 1)}),
    ));
    frames.push(named("ping", json!({})));
    let mut index = 0;
    if let Some(reasoning) = &answer.reasoning {
        frames.push(block_start(
            index,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        ));
        frames.push(block_delta(
            index,
            &json!({"type": "thinking_delta", "thinking": reasoning.text}),
        ));
        frames.push(block_delta(
            index,
            &json!({"type": "signature_delta", "signature": reasoning.signature}),
        ));
        frames.push(block_stop(index));
        index += 1;
    }
    if !answer.deltas.is_empty() {
        frames.push(block_start(index, &json!({"type": "text", "text": ""})));
        for delta in &answer.deltas {
            frames.push_delta(block_delta(
                index,
                &json!({"type": "text_delta", "text": delta}),
            ));
        }
        close_block(&mut frames, index, answer.calls.is_empty());
        index += 1;
    }
    for (number, call) in answer.calls.iter().enumerate() {
        let id = echo.call_id(call.id.as_deref(), number);
        frames.push(block_start(
            index,
            &json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}),
        ));
        for piece in halves(&call.arguments) {
            frames.push(block_delta(
                index,
                &json!({"type": "input_json_delta", "partial_json": piece}),
            ));
        }
        close_block(&mut frames, index, number + 1 == answer.calls.len());
        index += 1;
    }
    let delta = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    let usage = json!({"output_tokens": answer.usage.completion_tokens});
    frames.push_close(named(
        "message_delta",
        json!({"delta": delta, "usage": usage}),
    ));
    frames.push_close(named("message_stop", json!({})));
    frames
}

/// Returns an error inside a stream or in place of a whole answer.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Returns the error object for a status.
pub(super) fn status_error(status: u16, code: Option<&str>, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    error(code.unwrap_or(kind), message)
}

fn start(echo: &Echo, usage: Usage, written_so_far: u64) -> Value {
    json!({
        "id": format!("msg_{}", echo.number),
        "type": "message",
        "role": "assistant",
        "model": echo.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens + usage.cache_write_tokens),
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": written_so_far,
        },
    })
}

fn stop_reason(answer: &ScriptedAnswer) -> &str {
    match answer.finish_reason() {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    }
}

/// Ends a block. The end of the last block belongs to the closing frames.
fn close_block(frames: &mut Frames, index: usize, is_last: bool) {
    if is_last {
        frames.push_close(block_stop(index));
    } else {
        frames.push(block_stop(index));
    }
}

fn block_start(index: usize, block: &Value) -> String {
    named(
        "content_block_start",
        json!({"index": index, "content_block": block}),
    )
}

fn block_delta(index: usize, delta: &Value) -> String {
    named(
        "content_block_delta",
        json!({"index": index, "delta": delta}),
    )
}

fn block_stop(index: usize) -> String {
    named("content_block_stop", json!({"index": index}))
}

fn named(name: &str, mut data: Value) -> String {
    set(&mut data, "type", name);
    event(Some(name), &data)
}
