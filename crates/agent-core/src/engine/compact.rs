//! Makes a conversation that outgrew its budget fit, in the middle of a turn.
//!
//! Decision: deterministic and without a model. The oldest tool results are replaced by a note,
//! the newest few are left alone. Only what is sent changes; what is recorded stays whole.

use std::sync::Arc;

use nanobot_context::estimate_tokens;
use nanobot_types::{ChatMessage, Content, ToolMessage};

/// Results this close to the end are never touched.
const KEPT: usize = 4;
/// What stands in place of a result.
const NOTE: &str = "[An older result was left out to save room. Call the tool again if it is needed.]";

/// Tokens of a message, its calls and reasoning included.
pub(crate) fn estimate_message(message: &ChatMessage) -> usize {
    let calls = match message {
        ChatMessage::Assistant(assistant) => assistant
            .tool_calls
            .iter()
            .map(|call| estimate_tokens(call.name.as_str()) + estimate_tokens(&call.arguments))
            .chain(assistant.reasoning_content.iter().map(|text| estimate_tokens(text)))
            .sum(),
        _ => 0,
    };
    estimate_tokens(&message.text()) + calls + 4
}

/// Replaces the oldest tool results until the messages take at most `target` tokens. Returns
/// whether anything changed.
pub(crate) fn compact(messages: &mut [Arc<ChatMessage>], target: usize) -> bool {
    let mut total: usize = messages.iter().map(|message| estimate_message(message)).sum();
    let last = messages.len().saturating_sub(KEPT);
    let mut changed = false;
    for message in messages.iter_mut().take(last) {
        if total <= target {
            break;
        }
        let before = estimate_message(message);
        let Some(shorter) = without_result(message) else { continue };
        total = total.saturating_sub(before) + estimate_message(&shorter);
        *message = Arc::new(shorter);
        changed = true;
    }
    changed
}

fn without_result(message: &ChatMessage) -> Option<ChatMessage> {
    let ChatMessage::Tool(result) = message else { return None };
    let longer_than_note = result.content.to_text().chars().count() > NOTE.chars().count();
    longer_than_note
        .then(|| ChatMessage::Tool(ToolMessage { content: Content::Text(NOTE.to_owned()), ..result.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanobot_types::ToolCall;

    #[test]
    fn old_results_go_first_and_new_ones_stay() {
        let call = ToolCall::new("1", "read_file", "{}");
        let long = "x".repeat(4000);
        let mut messages: Vec<Arc<ChatMessage>> =
            (0..8).map(|_| Arc::new(ChatMessage::tool(&call, long.clone()))).collect();
        assert!(compact(&mut messages, 6500));
        let cut = messages.iter().filter(|message| message.text() == NOTE).count();
        assert_eq!(cut, 2);
        assert_eq!(messages.last().unwrap().text(), long);
        assert!(!compact(&mut messages, 6500));
    }
}
