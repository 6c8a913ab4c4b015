//! The messages of a part's text: plain, or a card.

use nanobot_channel::{OutboundKind, OutboundPart, Value};

use crate::card::{CARD_LIMIT, blocks, body_length, buttons, card, markdown};
use crate::interaction::ButtonValue;
use crate::outgoing::escaped;

/// One message of a part's text.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The elements of a card; `None` for a text without marks.
    pub(crate) elements: Option<Vec<Value>>,
    /// The text in Markdown.
    pub(crate) text: String,
    /// The text without marks, for a card that is refused.
    pub(crate) plain: String,
    pub(crate) has_table: bool,
    pub(crate) has_buttons: bool,
}

impl Reply {
    /// Returns the message as a card, also if a plain text would do.
    pub(crate) fn card(&self) -> Value {
        match &self.elements {
            Some(elements) => card(elements),
            None => card(&[markdown(&self.text)]),
        }
    }
}

/// Returns the messages of a part's text: one, and another for buttons that do not fit below it.
/// `hint_prefix` precedes the lines of a message about running tools.
pub(crate) fn replies(part: &OutboundPart, shows_table: bool, hint_prefix: &str) -> Vec<Reply> {
    let text = text_reply(part, shows_table, hint_prefix);
    let message = &part.message;
    let is_last = part.index + 1 == part.count;
    let rows = if is_last {
        message.buttons.as_slice()
    } else {
        &[]
    };
    let value = ButtonValue::new(message.chat_id.as_str(), &message.delivery);
    let buttons = buttons(rows, &value);
    if buttons.is_empty() {
        return text.into_iter().collect();
    }
    let words = in_words(part);
    let Some(text) = text else {
        return vec![below(buttons, words)];
    };
    let above = match &text.elements {
        Some(elements) => elements.clone(),
        None => vec![markdown(&text.text)],
    };
    let together = [above, buttons.clone()].concat();
    if body_length(&card(&together)) > CARD_LIMIT {
        return vec![text, below(buttons, words)];
    }
    vec![Reply {
        elements: Some(together),
        plain: format!("{}\n{words}", text.plain),
        has_buttons: true,
        ..text
    }]
}

/// Returns the message of a part's text; `None` without any.
fn text_reply(part: &OutboundPart, shows_table: bool, hint_prefix: &str) -> Option<Reply> {
    if part.plain.trim().is_empty() {
        return None;
    }
    let is_hint = part.message.kind == OutboundKind::ToolHint && !hint_prefix.is_empty();
    let is_marked = !is_hint && part.text != part.plain;
    let plain = if is_hint {
        with_prefix(&part.plain, hint_prefix)
    } else {
        part.plain.clone()
    };
    // A text without marks may be one for which there was no room.
    let text = if is_marked {
        part.text.clone()
    } else {
        escaped(&plain)
    };
    let table = Some(blocks(&part.blocks)).filter(|elements| {
        let fits = || body_length(&card(elements)) <= CARD_LIMIT;
        shows_table && !elements.is_empty() && fits()
    });
    let has_table = table.is_some();
    Some(Reply {
        elements: table.or_else(|| is_marked.then(|| vec![markdown(&text)])),
        text,
        plain,
        has_table,
        has_buttons: false,
    })
}

/// Returns a card of buttons alone.
fn below(buttons: Vec<Value>, words: String) -> Reply {
    Reply {
        elements: Some(buttons),
        text: String::new(),
        plain: words,
        has_table: false,
        has_buttons: true,
    }
}

fn with_prefix(text: &str, prefix: &str) -> String {
    let lines = text.lines().map(|line| format!("{prefix} {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The choices in words, for a card that was refused.
fn in_words(part: &OutboundPart) -> String {
    let rows = part.message.buttons.iter();
    let rows = rows.map(|row| {
        let labels = row.iter().map(|button| format!("[{}]", button.label));
        labels.collect::<Vec<_>>().join(" ")
    });
    rows.collect::<Vec<_>>().join("\n")
}
