//! Shortens a conversation that outgrew its budget in the middle of a turn.
//!
//! Decision: deterministic and without a model, in steps that cost more and more. First old tool
//! results are replaced by a note, then whole turns at the beginning are dropped, and finally long
//! texts lose their middle. The changes last for the rest of the turn, and more room is made than
//! is needed right now, so that the requests of a turn keep a common prefix. Only the request
//! changes; the log stays whole.

use std::sync::Arc;

use nanobot_context::{estimate_message, estimate_tokens};
use nanobot_types::{ChatMessage, Content, ContentBlock, ToolMessage};

/// Number of newest messages whose results are kept.
const KEPT_RESULTS: usize = 4;
/// Replaces an old result.
const NOTE: &str =
    "[An older result was left out to save room. Call the tool again if it is needed.]";
/// Maximum tokens of a text, tried in this order.
const CAPS: [usize; 5] = [8_000, 2_000, 500, 120, 30];

/// Returns the estimated tokens of several messages.
pub(crate) fn estimate_messages(messages: &[Arc<ChatMessage>]) -> usize {
    messages
        .iter()
        .map(|message| estimate_message(message))
        .sum()
}

/// Shortens messages of `total` tokens to fit into `budget` tokens where possible, with a quarter of
/// the budget to spare if that can be reached. Returns their tokens afterwards: `total` if nothing
/// changed.
pub(crate) fn compact(
    messages: &mut Vec<Arc<ChatMessage>>,
    mut total: usize,
    budget: usize,
) -> usize {
    if total <= budget {
        return total;
    }
    let target = budget - budget / 4;
    leave_out_results(messages, &mut total, target);
    if total > budget {
        leave_out_turns(messages, &mut total, target);
    }
    for cap in CAPS {
        if total <= budget {
            break;
        }
        shorten(messages, &mut total, target, cap);
    }
    total
}

/// Replaces the oldest tool results by a note.
fn leave_out_results(messages: &mut [Arc<ChatMessage>], total: &mut usize, target: usize) {
    let last = messages.len().saturating_sub(KEPT_RESULTS);
    for message in messages.iter_mut().take(last) {
        if *total <= target {
            return;
        }
        if let Some(shorter) = without_result(message) {
            replace(message, shorter, total);
        }
    }
}

fn without_result(message: &ChatMessage) -> Option<ChatMessage> {
    let ChatMessage::Tool(result) = message else {
        return None;
    };
    let is_longer = result.content.to_text().chars().count() > NOTE.chars().count();
    (is_longer || !result.media.is_empty()).then(|| {
        ChatMessage::Tool(ToolMessage {
            content: Content::Text(NOTE.to_owned()),
            media: Vec::new(),
            ..result.clone()
        })
    })
}

/// Drops whole turns, the oldest first; the turn of the last person's message stays.
fn leave_out_turns(messages: &mut Vec<Arc<ChatMessage>>, total: &mut usize, target: usize) {
    let is_user = |message: &Arc<ChatMessage>| matches!(**message, ChatMessage::User(_));
    let mut removed = 0;
    let mut upto = 0;
    for (index, message) in messages.iter().enumerate() {
        if is_user(message) && index > 0 {
            upto = index;
            if *total - removed <= target {
                break;
            }
        }
        removed += estimate_message(message);
    }
    let left_out: usize = messages
        .drain(..upto)
        .map(|message| estimate_message(&message))
        .sum();
    *total = total.saturating_sub(left_out);
}

/// Removes the middle of texts longer than `cap` tokens, the oldest first.
fn shorten(messages: &mut [Arc<ChatMessage>], total: &mut usize, target: usize, cap: usize) {
    for message in messages.iter_mut() {
        if *total <= target {
            return;
        }
        let shorter = match &**message {
            ChatMessage::User(user) => {
                let mut user = user.clone();
                shorten_content(&mut user.content, cap);
                ChatMessage::User(user)
            }
            ChatMessage::Tool(result) => {
                let mut result = result.clone();
                shorten_content(&mut result.content, cap);
                ChatMessage::Tool(result)
            }
            ChatMessage::Assistant(assistant) => {
                let mut assistant = assistant.clone();
                assistant
                    .content
                    .iter_mut()
                    .for_each(|content| shorten_content(content, cap));
                ChatMessage::Assistant(assistant)
            }
            ChatMessage::System { .. } => continue,
        };
        if estimate_message(&shorter) < estimate_message(message) {
            replace(message, shorter, total);
        }
    }
}

fn shorten_content(content: &mut Content, cap: usize) {
    match content {
        Content::Text(text) => shorten_text(text, cap),
        Content::Blocks(blocks) => {
            for block in blocks {
                if let ContentBlock::Text { text } = block {
                    shorten_text(text, cap);
                }
            }
        }
    }
}

fn shorten_text(text: &mut String, cap: usize) {
    if let Some(shorter) = without_middle(text, cap) {
        *text = shorter;
    }
}

/// Returns about `cap` tokens from the beginning and the end of a text; `None` if the text is not
/// longer than that.
pub(crate) fn without_middle(text: &str, cap: usize) -> Option<String> {
    let tokens = estimate_tokens(text);
    if tokens <= cap {
        return None;
    }
    let length = text.chars().count();
    let kept = length.saturating_mul(cap) / tokens;
    let (head, tail) = (kept - kept / 4, kept / 4);
    let left_out = length - head - tail;
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    Some(format!(
        "{head}\n[… {left_out} characters left out to save room …]\n{tail}"
    ))
}

fn replace(message: &mut Arc<ChatMessage>, shorter: ChatMessage, total: &mut usize) {
    *total = total.saturating_sub(estimate_message(message)) + estimate_message(&shorter);
    *message = Arc::new(shorter);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanobot_types::ToolCall;

    fn result(text: &str) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::tool(
            &ToolCall::new("1", "read_file", "{}"),
            text,
        ))
    }

    /// Returns `true` if messages were shortened.
    fn compacts(messages: &mut Vec<Arc<ChatMessage>>, budget: usize) -> bool {
        let before = estimate_messages(messages);
        let after = compact(messages, before, budget);
        assert_eq!(after, estimate_messages(messages));
        after < before
    }

    fn user(text: &str) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::user(text))
    }

    #[test]
    fn removes_old_results_before_new_ones() {
        let long = "word ".repeat(1000);
        let mut messages = vec![result(&long); 8];
        assert!(compacts(&mut messages, 7000));
        let cut = messages
            .iter()
            .filter(|message| message.text() == NOTE)
            .count();
        assert_eq!(cut, 3, "a quarter of the budget is free");
        assert_eq!(messages.last().unwrap().text(), long);
        assert!(!compacts(&mut messages, 7000));
    }

    #[test]
    fn removes_whole_turns_after_results() {
        let long = "word ".repeat(1000);
        let mut messages: Vec<Arc<ChatMessage>> = Vec::new();
        for number in 0..6 {
            messages.extend([
                user(&format!("{number} {long}")),
                Arc::new(ChatMessage::assistant("ok")),
            ]);
        }
        messages.push(user("now"));
        assert!(compacts(&mut messages, 4000));
        let texts: Vec<String> = messages
            .iter()
            .map(|message| message.text().chars().take(3).collect())
            .collect();
        assert_eq!(texts, ["4 w", "ok", "5 w", "ok", "now"]);
    }

    #[test]
    fn shortens_texts_in_the_middle_until_they_fit() {
        let text = format!("BEGIN {} END", "很长的话 with words ".repeat(20_000));
        for budget in [20_000, 3_000, 400] {
            let mut messages = vec![user(&text), result(&text), result(&text)];
            assert!(compacts(&mut messages, budget));
            assert!(estimate_messages(&messages) <= budget, "{budget}");
            let first = messages.first().unwrap().text();
            assert!(
                first.starts_with("BEGIN") && first.ends_with("END"),
                "{first}"
            );
        }
    }
}
