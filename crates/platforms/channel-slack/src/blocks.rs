//! Tables, and buttons below a text, as blocks.

use nanobot_channel::{Block, Button, Table};
use slack_morphism::blocks::{
    SlackActionsBlock, SlackBlock, SlackBlockButtonElement, SlackBlockMarkDownText,
    SlackBlockPlainText, SlackRichTextSection, SlackSectionBlock, SlackTableBlock, SlackTableCell,
    SlackTableColumnAlign, SlackTableColumnSetting, SlackTableRichTextCell,
};

use crate::interaction::BUTTON_PREFIX;
use crate::text::head;

/// Limit of a section's text, in code points.
pub(crate) const SECTION_LIMIT: usize = 3000;
/// Limit of a button's shown label, in code points.
const LABEL_LIMIT: usize = 75;
/// Limit of a button's value, in code points.
const VALUE_LIMIT: usize = 2000;
/// Most buttons of a row.
const ROW: usize = 25;
/// Most blocks of a message.
const BLOCKS: usize = 50;

/// A text, if there is one, with rows of buttons below it.
pub(crate) fn with_buttons(text: &str, rows: &[Vec<Button>]) -> Vec<SlackBlock> {
    let text = Some(text).filter(|text| !text.trim().is_empty());
    add_buttons(text.map(section).into_iter().collect(), rows)
}

/// Texts and a table, with rows of buttons below them.
pub(crate) fn with_table(pieces: &[Block], rows: &[Vec<Button>]) -> Vec<SlackBlock> {
    let block = |piece: &Block| match piece {
        Block::Text(text) => section(text),
        Block::Table(shown) => table(shown),
    };
    add_buttons(pieces.iter().map(block).collect(), rows)
}

fn section(text: &str) -> SlackBlock {
    let text = SlackBlockMarkDownText::new(text.to_owned());
    SlackSectionBlock::new().with_text(text.into()).into()
}

/// Slack takes no cell without text, and cuts what is not wrapped. Cells are rich text, because
/// Slack's servers were seen to fail over cells of raw text.
fn table(table: &Table) -> SlackBlock {
    let cell = |cell: &String| {
        let text = SlackRichTextSection::from(if cell.is_empty() { " " } else { cell.as_str() });
        SlackTableCell::RichText(SlackTableRichTextCell::new(vec![text.into()]))
    };
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect();
    let column = |right: &bool| {
        let align = if *right {
            SlackTableColumnAlign::Right
        } else {
            SlackTableColumnAlign::Left
        };
        SlackTableColumnSetting::new()
            .with_align(align)
            .with_is_wrapped(true)
    };
    SlackTableBlock::new(rows)
        .with_column_settings(table.right.iter().map(column).collect())
        .into()
}

fn add_buttons(mut blocks: Vec<SlackBlock>, rows: &[Vec<Button>]) -> Vec<SlackBlock> {
    let room = BLOCKS.saturating_sub(blocks.len());
    let mut number = 0;
    for row in rows
        .iter()
        .flat_map(|row| row.chunks(ROW))
        .filter(|row| !row.is_empty())
        .take(room)
    {
        let buttons = row
            .iter()
            .filter(|button| !button.label.trim().is_empty())
            .map(|button| {
                number += 1;
                let label = SlackBlockPlainText::new(head(&button.label, LABEL_LIMIT).to_owned());
                SlackBlockButtonElement::new(label.into())
                    .with_action_id(format!("{BUTTON_PREFIX}{number}").into())
                    .with_value(head(&button.label, VALUE_LIMIT).to_owned())
                    .into()
            });
        blocks.push(SlackActionsBlock::new(buttons.collect()).into());
    }
    blocks
}

/// The choices in words, for notifications and for programs that show no blocks.
pub(crate) fn in_words(rows: &[Vec<Button>]) -> String {
    let row = |row: &Vec<Button>| {
        row.iter()
            .map(|button| format!("[{}]", button.label))
            .collect::<Vec<_>>()
            .join(" ")
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_button_row_is_a_block() {
        let button = |label: &str| Button {
            label: label.to_owned(),
        };
        let long = "語".repeat(80);
        let rows = [
            vec![button("Yes"), button("No")],
            vec![button(&long)],
            vec![],
        ];
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
        assert_eq!(
            serde_json::to_value(with_buttons("*really?*", &rows)).unwrap(),
            expected
        );
        assert_eq!(with_buttons(" ", &rows).len(), 2);
        let many = vec![vec![button("x"); 30]; 40];
        assert_eq!(
            (
                with_buttons("text", &many).len(),
                with_buttons("", &many).len()
            ),
            (50, 50)
        );
        assert_eq!(in_words(&rows[..1]), "[Yes] [No]");
    }

    #[test]
    fn table_block_is_between_text_and_buttons() {
        let rows = vec![
            vec!["a".to_owned(), "b <c>".to_owned()],
            vec!["1".to_owned(), String::new()],
        ];
        let table = Block::Table(Table {
            rows,
            right: vec![true, false],
        });
        let pieces = [
            Block::Text("*x*".to_owned()),
            table,
            Block::Text("y".to_owned()),
        ];
        let cell = |text: &str| {
            let section =
                json!({"type": "rich_text_section", "elements": [{"type": "text", "text": text}]});
            json!({"type": "rich_text", "elements": [section]})
        };
        let section =
            |text: &str| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
        let expected = json!([
            section("*x*"),
            {
                "type": "table", "rows": [[cell("a"), cell("b <c>")], [cell("1"), cell(" ")]],
                "column_settings": [{"align": "right", "is_wrapped": true}, {"align": "left", "is_wrapped": true}],
            },
            section("y"),
        ]);
        assert_eq!(
            serde_json::to_value(with_table(&pieces, &[])).unwrap(),
            expected
        );
        assert_eq!(
            with_table(
                &pieces,
                &vec![
                    vec![Button {
                        label: "x".to_owned()
                    }];
                    60
                ]
            )
            .len(),
            50
        );
    }
}
