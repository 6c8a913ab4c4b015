//! Answers in the format of OpenAI's Responses API.

use nanobot_types::Usage;
use serde_json::{Value, json};

use super::Echo;
use super::frames::{Frames, event};
use super::openai::halves;
use crate::json::set;
use crate::reply::ScriptedAnswer;

const CREATED: u64 = 1_700_000_000;

/// Returns a complete `response`.
pub(super) fn message(echo: &Echo, answer: &ScriptedAnswer) -> Value {
    let output: Vec<Value> = items(echo, answer).collect();
    response(echo, answer, output.into())
}

/// Returns the events of a stream: items with their deltas, then the end of the response.
pub(super) fn frames(echo: &Echo, answer: &ScriptedAnswer) -> Frames {
    let mut frames = Frames::new(|kind, message| {
        let error = json!({"type": "error", "code": kind, "message": message, "param": null});
        named(&error)
    });
    let created = json!({"type": "response.created", "response": {
        "id": id(echo), "object": "response", "status": "in_progress", "error": null, "output": [],
    }});
    frames.push(named(&created));
    for (index, item) in items(echo, answer).enumerate() {
        let begun = begun(&item);
        frames.push(named(
            &json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
        ));
        deltas(index, &item, answer, &mut frames);
        frames.push(named(
            &json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        ));
    }
    let response = message(echo, answer);
    let kind = match response.get("status").and_then(Value::as_str) {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    frames.push_close(named(&json!({"type": kind, "response": response})));
    frames
}

fn deltas(index: usize, item: &Value, answer: &ScriptedAnswer, frames: &mut Frames) {
    let place = |kind: &str| {
        json!({
            "type": kind,
            "output_index": index,
            "item_id": item.get("id"),
            "content_index": 0,
        })
    };
    let delta = |kind: &str, text: &str| {
        let mut delta = place(kind);
        set(&mut delta, "delta", text);
        named(&delta)
    };
    match item.get("type").and_then(Value::as_str) {
        Some("reasoning") => {
            let text = answer.reasoning.as_ref().map(|reasoning| &reasoning.text);
            let kind = "response.reasoning_summary_text.delta";
            frames.push(delta(kind, text.map_or("", String::as_str)));
        }
        Some("message") => {
            for text in &answer.deltas {
                frames.push_delta(delta("response.output_text.delta", text));
            }
        }
        _ => {
            let arguments = item.get("arguments").and_then(Value::as_str);
            let arguments = arguments.unwrap_or_default();
            for piece in halves(arguments) {
                frames.push(delta("response.function_call_arguments.delta", piece));
            }
            let mut done = place("response.function_call_arguments.done");
            set(&mut done, "arguments", arguments);
            frames.push(named(&done));
        }
    }
}

/// Returns an item as it begins: without the parts that follow as deltas.
fn begun(item: &Value) -> Value {
    let mut begun = item.clone();
    set(&mut begun, "status", "in_progress");
    for (member, empty) in [
        ("content", json!([])),
        ("summary", json!([])),
        ("arguments", json!("")),
        ("encrypted_content", json!("")),
    ] {
        if item.get(member).is_some() {
            set(&mut begun, member, empty);
        }
    }
    begun
}

fn items<'a>(echo: &'a Echo, answer: &'a ScriptedAnswer) -> impl Iterator<Item = Value> + 'a {
    let reasoning = answer.reasoning.as_ref().map(|reasoning| {
        json!({
            "type": "reasoning",
            "id": format!("rs_{}", echo.number),
            "summary": [{"type": "summary_text", "text": reasoning.text}],
            "encrypted_content": reasoning.signature,
        })
    });
    let text = answer.text();
    let message = (!text.is_empty() || answer.calls.is_empty()).then(|| {
        json!({
            "type": "message",
            "id": format!("msg_{}", echo.number),
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })
    });
    let calls = answer.calls.iter().enumerate().map(|(index, call)| {
        json!({
            "type": "function_call",
            "id": format!("fc_{}_{index}", echo.number),
            "call_id": echo.call_id(call.id.as_deref(), index),
            "status": "completed",
            "name": call.name,
            "arguments": call.arguments,
        })
    });
    reasoning.into_iter().chain(message).chain(calls)
}

fn response(echo: &Echo, answer: &ScriptedAnswer, output: Value) -> Value {
    let (status, details) = match answer.finish_reason() {
        "length" => ("incomplete", json!({"reason": "max_output_tokens"})),
        "content_filter" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    let mut response = json!({
        "id": id(echo),
        "object": "response",
        "created_at": CREATED,
        "model": echo.model,
        "status": status,
        "error": null,
        "incomplete_details": details,
        "usage": usage(answer.usage),
    });
    set(&mut response, "output", output);
    response
}

fn id(echo: &Echo) -> String {
    format!("resp_{}", echo.number)
}

fn named(value: &Value) -> String {
    event(value.get("type").and_then(Value::as_str), value)
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}
