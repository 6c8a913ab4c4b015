//! Relations between events: threads, replies and edits.

use nanobot_channel::Value;
use serde_json::json;

use crate::id::is_event_id;
use crate::wire::{member, text};

/// The relation of a received message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    /// The first message of the thread.
    pub(crate) thread: Option<String>,
    /// The message that is answered; `None` if it is only named for clients without threads.
    pub(crate) reply_to: Option<String>,
    /// `true` if the event changes an earlier one.
    pub(crate) is_edit: bool,
}

impl Relation {
    /// Reads the relation of a content.
    pub(crate) fn read(content: &Value) -> Self {
        let relation = member(content, "m.relates_to");
        let id = |value: &Value| {
            let id = text(value, "event_id");
            is_event_id(id).then(|| id.to_owned())
        };
        let is_thread = text(relation, "rel_type") == "m.thread";
        let is_fallback = is_thread && relation.get("is_falling_back") == Some(&Value::Bool(true));
        Self {
            thread: Some(relation).filter(|_| is_thread).and_then(id),
            reply_to: id(member(relation, "m.in_reply_to")).filter(|_| !is_fallback),
            is_edit: text(relation, "rel_type") == "m.replace",
        }
    }
}

/// Returns the `m.relates_to` of a message that is sent.
pub(crate) fn relates_to(thread: Option<&str>, reply_to: Option<&str>) -> Option<Value> {
    match (thread, reply_to) {
        (Some(thread), reply_to) => Some(json!({
            "rel_type": "m.thread", "event_id": thread, "is_falling_back": true,
            "m.in_reply_to": {"event_id": reply_to.unwrap_or(thread)},
        })),
        (None, Some(reply_to)) => Some(json!({"m.in_reply_to": {"event_id": reply_to}})),
        (None, None) => None,
    }
}

/// Returns a text without the quotation that older clients put before a reply.
pub(crate) fn without_reply_fallback<'a>(relation: &Relation, body: &'a str) -> &'a str {
    if relation.reply_to.is_none() && relation.thread.is_none() {
        return body;
    }
    if !(body.starts_with("> <") || body.starts_with("> * <")) {
        return body;
    }
    let mut rest = body;
    while let Some((line, after)) = rest.split_once('\n') {
        if !line.starts_with('>') {
            break;
        }
        rest = after;
    }
    if rest.starts_with('>') {
        return "";
    }
    rest.trim_start_matches('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relation_is_read() {
        let relation = |thread: Option<&str>, reply_to: Option<&str>, is_edit| Relation {
            thread: thread.map(str::to_owned),
            reply_to: reply_to.map(str::to_owned),
            is_edit,
        };
        let table = [
            (json!({}), relation(None, None, false)),
            (
                json!({"m.in_reply_to": {"event_id": "$1"}}),
                relation(None, Some("$1"), false),
            ),
            (
                json!({"rel_type": "m.thread", "event_id": "$0", "is_falling_back": true,
                    "m.in_reply_to": {"event_id": "$1"}}),
                relation(Some("$0"), None, false),
            ),
            (
                json!({"rel_type": "m.thread", "event_id": "$0",
                    "m.in_reply_to": {"event_id": "$1"}}),
                relation(Some("$0"), Some("$1"), false),
            ),
            (
                json!({"rel_type": "m.replace", "event_id": "$0"}),
                relation(None, None, true),
            ),
            (
                json!({"rel_type": "m.thread", "event_id": 5}),
                relation(None, None, false),
            ),
        ];
        for (relates_to, expected) in table {
            let content = json!({"m.relates_to": relates_to});
            assert_eq!(Relation::read(&content), expected, "{content}");
        }
    }

    #[test]
    fn reply_fallback_is_removed_from_replies_only() {
        let reply = Relation {
            reply_to: Some("$1".to_owned()),
            ..Relation::default()
        };
        let fallback = "> <@ann:x> one\n> two\n\nanswer\n> quote";
        assert_eq!(without_reply_fallback(&reply, fallback), "answer\n> quote");
        assert_eq!(
            without_reply_fallback(&Relation::default(), fallback),
            fallback
        );
        assert_eq!(
            without_reply_fallback(&reply, "> own quote\n\nx"),
            "> own quote\n\nx"
        );
        assert_eq!(without_reply_fallback(&reply, "> <@ann:x> one"), "");
        assert_eq!(
            without_reply_fallback(&reply, "> * <@ann:x> waves\n\nhi"),
            "hi"
        );
    }

    #[test]
    fn sent_relation_is_a_thread_or_a_reply() {
        assert_eq!(relates_to(None, None), None);
        assert_eq!(
            relates_to(None, Some("$1")),
            Some(json!({"m.in_reply_to": {"event_id": "$1"}}))
        );
        let thread = relates_to(Some("$0"), None).unwrap();
        assert_eq!(thread["m.in_reply_to"]["event_id"], "$0");
        assert_eq!(thread["rel_type"], "m.thread");
    }
}
