//! Cards (JSON 2.0): Markdown, a table, and buttons below.

use nanobot_channel::{Block, Button, Table, Value};
use serde_json::json;

use crate::interaction::ButtonValue;

/// Limit of the body of a request with a card, in bytes; Feishu takes 30 KB.
pub(crate) const CARD_LIMIT: usize = 29_500;
/// The id of the text that grows while it is written.
pub(crate) const GROWING: &str = "reply";
/// Most rows that a table shows at once; readers turn pages.
const PAGE_ROWS: usize = 10;
/// Most buttons of a card, and the longest label of one, in characters.
const MAX_BUTTONS: usize = 50;
const LABEL_LIMIT: usize = 100;

/// Returns the card of a reply that is complete.
pub(crate) fn card(elements: &[Value]) -> Value {
    json!({
        "schema": "2.0",
        "config": {"update_multi": true, "streaming_mode": false},
        "body": {"elements": elements},
    })
}

/// Returns the card of a text that is being written.
pub(crate) fn growing_card(text: &str) -> Value {
    json!({
        "schema": "2.0",
        "config": {"update_multi": true, "streaming_mode": true},
        "body": {"elements": [{"tag": "markdown", "element_id": GROWING, "content": text}]},
    })
}

/// Returns the element of a text in Markdown.
pub(crate) fn markdown(text: &str) -> Value {
    json!({"tag": "markdown", "content": text})
}

/// Returns the elements of a part with a table.
pub(crate) fn blocks(blocks: &[Block]) -> Vec<Value> {
    let element = |block: &Block| match block {
        Block::Text(text) => markdown(text),
        Block::Table(shown) => table(shown),
    };
    blocks.iter().map(element).collect()
}

fn table(table: &Table) -> Value {
    let (head, rows) = table
        .rows
        .split_first()
        .map_or((&[][..], &[][..]), |(head, rows)| (head.as_slice(), rows));
    let columns = head.iter().zip(&table.right).enumerate();
    let columns: Vec<Value> = columns
        .map(|(number, (name, right))| {
            let align = if *right { "right" } else { "left" };
            json!({
                "name": format!("c{number}"), "display_name": name, "data_type": "text", "width": "auto",
                "horizontal_align": align,
            })
        })
        .collect();
    let row = |row: &Vec<String>| -> Value {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(number, cell)| (format!("c{number}"), Value::from(cell.as_str())));
        Value::Object(cells.collect())
    };
    json!({
        "tag": "table", "columns": columns, "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "page_size": rows.len().clamp(1, PAGE_ROWS), "row_height": "auto",
    })
}

/// Returns the elements of rows of buttons.
pub(crate) fn buttons(rows: &[Vec<Button>], value: &ButtonValue) -> Vec<Value> {
    let mut room = MAX_BUTTONS;
    let mut elements = Vec::new();
    for row in rows {
        let shown = row.iter().filter(|button| !button.label.trim().is_empty());
        let columns: Vec<Value> = shown
            .take(room)
            .map(|shown| {
                json!({"tag": "column", "width": "auto", "elements": [button(&shown.label, value)]})
            })
            .collect();
        room -= columns.len();
        if !columns.is_empty() {
            elements.push(json!({"tag": "column_set", "flex_mode": "flow", "columns": columns}));
        }
    }
    elements
}

fn button(label: &str, value: &ButtonValue) -> Value {
    let shown: String = label.chars().take(LABEL_LIMIT).collect();
    json!({
        "tag": "button", "type": "default", "text": {"tag": "plain_text", "content": shown},
        "behaviors": [{"type": "callback", "value": value.with_label(label)}],
    })
}

/// Returns the length of a card in the body of a request, where it is JSON in JSON.
pub(crate) fn body_length(card: &Value) -> usize {
    Value::from(card.to_string()).to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize) -> Vec<Button> {
        let button = Button {
            label: "x".repeat(150),
        };
        vec![button; count]
    }

    #[test]
    fn table_has_a_column_for_each_cell_of_its_head() {
        let shown = Table {
            rows: vec![
                vec!["a".to_owned(), "b".to_owned()],
                vec!["1".to_owned(), String::new()],
            ],
            right: vec![true, false],
        };
        let column = |name: &str, head: &str, align: &str| {
            json!({
                "name": name, "display_name": head, "data_type": "text", "width": "auto", "horizontal_align": align,
            })
        };
        let expected = json!({
            "tag": "table", "columns": [column("c0", "a", "right"), column("c1", "b", "left")],
            "rows": [{"c0": "1", "c1": ""}], "page_size": 1, "row_height": "auto",
        });
        let pieces = [Block::Text("*x*".to_owned()), Block::Table(shown)];
        assert_eq!(blocks(&pieces), [markdown("*x*"), expected]);
        assert_eq!(table(&Table::default())["columns"], json!([]));
    }

    #[test]
    fn buttons_are_bounded() {
        let value = ButtonValue::default();
        let rows = [labels(2), vec![], labels(60), labels(5)];
        let elements = buttons(&rows, &value);
        let counts: Vec<_> = elements
            .iter()
            .map(|row| row["columns"].as_array().unwrap().len())
            .collect();
        assert_eq!(counts, [2, 48]);
        let first = &elements[0]["columns"][0]["elements"][0];
        assert_eq!(first["text"]["content"], json!("x".repeat(LABEL_LIMIT)));
        assert_eq!(
            first["behaviors"][0]["value"]["label"],
            json!("x".repeat(150))
        );
    }

    #[test]
    fn length_counts_both_layers_of_json() {
        assert_eq!(
            body_length(&json!({"a": "\"\n"})),
            r#""{\"a\":\"\\\"\\n\"}""#.len()
        );
    }
}
