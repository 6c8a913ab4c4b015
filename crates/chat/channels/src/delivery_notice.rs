//! Notices to a chat about a message that did not arrive, or may have arrived twice.
//!
//! Decision: a notice is in the language of its message, guessed from the script: Chinese if it has
//! Chinese characters, English otherwise. Its key is derived from the message's key, so it is sent
//! once however often the message ends that way. It is itself a notice, and there are no notices
//! about notices.

use nanobot_channel::{
    Block, ChannelError, OutboundKey, OutboundKind, OutboundMessage, OutboundPart, OutboundSlot,
};

/// Room for the mark in a part, in the units of any measure. It takes at most half of a limit.
const MARK_LENGTH_LIMIT: usize = 64;

/// Outcome of a message that the chat is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryProblem<'a> {
    /// The message may or may not have been sent.
    Uncertain,
    /// The message will not be sent.
    Failed {
        /// Reason.
        why: &'a str,
    },
    /// The message had nothing to show.
    Empty,
}

/// Builds the notice about a message, addressed to the message's destination.
pub(crate) fn notice(message: &OutboundMessage, problem: DeliveryProblem<'_>) -> OutboundMessage {
    let text = match (problem, is_chinese(&message.content)) {
        (DeliveryProblem::Uncertain, false) => {
            "I do not know whether my last message arrived. /pending shows it.".to_owned()
        }
        (DeliveryProblem::Uncertain, true) => {
            "我不确定上一条消息是否已送达。发送 /pending 可查看。".to_owned()
        }
        (DeliveryProblem::Failed { why }, false) => {
            format!("A message of mine could not be sent: {why}. /pending shows it.")
        }
        (DeliveryProblem::Failed { why }, true) => {
            format!("有一条消息未能发送：{why}。发送 /pending 可查看。")
        }
        (DeliveryProblem::Empty, _) => "My last message had nothing in it to show.".to_owned(),
    };
    OutboundMessage {
        key: OutboundKey::new(format!("about {}", message.key), OutboundSlot::Reply),
        channel: message.channel.clone(),
        chat_id: message.chat_id.clone(),
        content: text,
        media: Vec::new(),
        metadata: message.metadata.clone(),
        delivery: message.delivery.clone(),
        kind: OutboundKind::Notice,
        completes: None,
        buttons: Vec::new(),
    }
}

/// `true` if the next message to the same chat may succeed although this one failed with `error`.
pub(crate) fn is_chat_reachable_after(error: &ChannelError) -> bool {
    match error {
        ChannelError::Config { .. } | ChannelError::Auth(_) | ChannelError::NotFound(_) => false,
        ChannelError::RateLimited { .. }
        | ChannelError::TooLarge(_)
        | ChannelError::Refused(_)
        | ChannelError::Unavailable(_)
        | ChannelError::Away(_)
        | ChannelError::Conflict(_)
        | ChannelError::Ambiguous(_) => true,
    }
}

/// Marks a part as a possible repetition. The mark is plain text, safe in every markup.
pub(crate) fn mark(part: &mut OutboundPart) {
    let mark = if is_chinese(&part.message.content) {
        "↻ 以下内容可能重复：\n"
    } else {
        "↻ This may be a repetition:\n"
    };
    part.text.insert_str(0, mark);
    part.plain.insert_str(0, mark);
    if !part.blocks.is_empty() {
        part.blocks
            .insert(0, Block::Text(mark.trim_end().to_owned()));
    }
}

/// Returns the limit for parts that may have to carry the mark. The limit is the same with and
/// without the mark, so that every try splits a message the same way.
pub(crate) fn limit_with_mark(limit: usize) -> usize {
    limit.saturating_sub(MARK_LENGTH_LIMIT).max(limit / 2)
}

/// `true` if a text contains Chinese characters.
pub(crate) fn is_chinese(text: &str) -> bool {
    text.chars()
        .any(|character| matches!(character, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nanobot_channel::InboundMessage;

    use super::*;

    fn reply(content: &str) -> OutboundMessage {
        let inbound = InboundMessage::text("chat", "ann", "1", "");
        let key = OutboundKey {
            turn: "turn".into(),
            position: 2,
        };
        OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, content.to_owned())
    }

    #[test]
    fn notice_keeps_the_address_and_language() {
        for (content, expected) in [
            (
                "hello",
                "I do not know whether my last message arrived. /pending shows it.",
            ),
            (
                "你好",
                "我不确定上一条消息是否已送达。发送 /pending 可查看。",
            ),
        ] {
            let key = OutboundKey::new("about turn/2", OutboundSlot::Reply);
            let expected = OutboundMessage {
                key,
                kind: OutboundKind::Notice,
                content: expected.to_owned(),
                ..reply(content)
            };
            assert_eq!(
                notice(&reply(content), DeliveryProblem::Uncertain),
                expected
            );
        }
    }

    #[test]
    fn repetition_mark_fits_its_reserved_room() {
        for content in ["hello", "你好"] {
            let message = Arc::new(reply(content));
            let (text, plain) = (String::new(), String::new());
            let mut part = OutboundPart {
                message,
                index: 0,
                count: 1,
                text,
                plain,
                blocks: Vec::new(),
                in_doubt: false,
            };
            mark(&mut part);
            assert!(part.text.len() <= MARK_LENGTH_LIMIT, "{}", part.text);
            assert_eq!(part.text, part.plain);
        }
        assert_eq!([4096, 100, 0].map(limit_with_mark), [4032, 50, 0]);
    }
}
