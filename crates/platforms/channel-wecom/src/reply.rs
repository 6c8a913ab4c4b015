//! The text of a part, with the labels of its buttons below the last one: a choice is made by its
//! words.

use nanobot_channel::OutboundPart;

use crate::outgoing::escaped;

/// Returns the text of a part in Markdown; `None` if it has none.
pub(crate) fn part_text(part: &OutboundPart) -> Option<String> {
    let labels = labels(part);
    let is_blank = part.plain.trim().is_empty();
    // A text without marks may be one for which there was no room.
    let mut text = match &part.text {
        _ if is_blank => String::new(),
        text if *text == part.plain => escaped(text),
        text => text.clone(),
    };
    if !labels.is_empty() {
        let gap = if is_blank { "" } else { "\n\n" };
        text.push_str(&format!("{gap}{}", escaped(&labels)));
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the labels of a part's buttons.
fn labels(part: &OutboundPart) -> String {
    if part.index + 1 < part.count {
        return String::new();
    }
    let buttons = part.message.buttons.iter().flatten();
    let labels = buttons.map(|button| button.label.trim());
    let labels = labels.filter(|label| !label.is_empty());
    let labels: Vec<String> = labels.map(|label| format!("[{label}]")).collect();
    labels.join(" ")
}
