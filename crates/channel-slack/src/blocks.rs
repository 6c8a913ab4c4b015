//! Buttons below a text, as blocks.

use nanobot_channel::Button;
use slack_morphism::blocks::{
    SlackActionsBlock, SlackBlock, SlackBlockButtonElement, SlackBlockMarkDownText, SlackBlockPlainText,
    SlackSectionBlock,
};

use crate::inbound::BUTTON;
use crate::text::head;

/// How much text fits into a section, in code points.
pub(crate) const SECTION_LIMIT: usize = 3000;
/// How much of a label a button shows, in code points.
const LABEL_LIMIT: usize = 75;
/// How much of a label comes back, in code points.
const VALUE_LIMIT: usize = 2000;
/// How many buttons fit into a row.
const ROW: usize = 25;
/// How many rows fit into a message, with its text.
const ROWS: usize = 49;

/// A text, if there is one, with rows of buttons below it.
pub(crate) fn with_buttons(text: &str, rows: &[Vec<Button>]) -> Vec<SlackBlock> {
    let mut blocks = Vec::new();
    if !text.trim().is_empty() {
        let text = SlackBlockMarkDownText::new(text.to_owned());
        blocks.push(SlackSectionBlock::new().with_text(text.into()).into());
    }
    let mut number = 0;
    for row in rows.iter().flat_map(|row| row.chunks(ROW)).filter(|row| !row.is_empty()).take(ROWS) {
        let buttons = row.iter().filter(|button| !button.label.trim().is_empty()).map(|button| {
            number += 1;
            let label = SlackBlockPlainText::new(head(&button.label, LABEL_LIMIT).to_owned());
            SlackBlockButtonElement::new(label.into())
                .with_action_id(format!("{BUTTON}{number}").into())
                .with_value(head(&button.label, VALUE_LIMIT).to_owned())
                .into()
        });
        blocks.push(SlackActionsBlock::new(buttons.collect()).into());
    }
    blocks
}

/// The choices in words, for notifications and for programs that show no blocks.
pub(crate) fn in_words(rows: &[Vec<Button>]) -> String {
    let row = |row: &Vec<Button>| row.iter().map(|button| format!("[{}]", button.label)).collect::<Vec<_>>().join(" ");
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_row_is_a_block() {
        let button = |label: &str| Button { label: label.to_owned() };
        let long = "語".repeat(80);
        let rows = [vec![button("Yes"), button("No")], vec![button(&long)], vec![]];
        let element = |number: usize, label: &str, value: &str| {
            json!({
                "type": "button", "action_id": format!("choice-{number}"), "value": value,
                "text": {"type": "plain_text", "text": label},
            })
        };
        let expected = json!([
            {"type": "section", "text": {"type": "mrkdwn", "text": "*really?*"}},
            {"type": "actions", "elements": [element(1, "Yes", "Yes"), element(2, "No", "No")]},
            {"type": "actions", "elements": [element(3, &"語".repeat(75), &long)]},
        ]);
        assert_eq!(serde_json::to_value(with_buttons("*really?*", &rows)).unwrap(), expected);
        assert_eq!(with_buttons(" ", &rows).len(), 2);
        let many = vec![vec![button("x"); 30]; 40];
        assert_eq!(with_buttons("text", &many).len(), 50);
        assert_eq!(in_words(&rows[..1]), "[Yes] [No]");
    }
}
