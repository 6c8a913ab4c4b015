//! Slack's rules for blocks.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::ApiError;

/// Checks blocks by Slack's rules.
pub(crate) fn check(blocks: &Value) -> Result<(), ApiError> {
    let wrong = |message: &str| Err(ApiError::because("invalid_blocks", message));
    let Some(blocks) = blocks.as_array() else {
        return wrong("blocks must be a list");
    };
    if blocks.is_empty() || blocks.len() > 50 {
        return wrong("there must be 1 to 50 blocks");
    }
    let mut actions = BTreeSet::new();
    let mut tables = 0;
    for block in blocks {
        let elements = block.get("elements").and_then(Value::as_array);
        match block.get("type").and_then(Value::as_str) {
            Some("section") => text(block.get("text"), "mrkdwn", 3000)?,
            Some("context") => {
                for element in elements.into_iter().flatten() {
                    text(Some(element), "mrkdwn", 3000)?;
                }
            }
            Some("actions") => {
                let Some(elements) = elements.filter(|elements| (1..=25).contains(&elements.len()))
                else {
                    return wrong("actions must have 1 to 25 elements");
                };
                for element in elements {
                    let id = element
                        .get("action_id")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    if element.get("type").and_then(Value::as_str) != Some("button")
                        || id.is_empty()
                    {
                        return wrong("an action must be a button with an action_id");
                    }
                    if !actions.insert(id) {
                        return wrong("an action_id must not come twice");
                    }
                    text(element.get("text"), "plain_text", 75)?;
                    let value = element
                        .get("value")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    if value.chars().count() > 2000 {
                        return wrong("a value must have at most 2000 characters");
                    }
                }
            }
            Some("table") => {
                tables += 1;
                table(block)?;
            }
            _ => return wrong("an unknown type of block"),
        }
    }
    if tables > 1 {
        return Err(ApiError::because(
            "invalid_attachments",
            "only_one_table_allowed",
        ));
    }
    Ok(())
}

/// Checks a table: at most 100 rows of at most 20 cells, each with some text, and at most 10,000
/// characters in all cells.
fn table(block: &Value) -> Result<(), ApiError> {
    let wrong = |message: &str| Err(ApiError::because("invalid_blocks", message));
    let Some(rows) = block
        .get("rows")
        .and_then(Value::as_array)
        .filter(|rows| (1..=100).contains(&rows.len()))
    else {
        return wrong("a table must have 1 to 100 rows");
    };
    let mut characters = 0;
    for row in rows {
        let Some(cells) = row
            .as_array()
            .filter(|cells| (1..=20).contains(&cells.len()))
        else {
            return wrong("a row must have 1 to 20 cells");
        };
        for cell in cells {
            for piece in pieces(cell)? {
                text(Some(piece.0), piece.1, 10_000)?;
                characters += piece
                    .0
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .chars()
                    .count();
            }
        }
    }
    if characters > 10_000 {
        return wrong("the cells of a table must have at most 10000 characters");
    }
    let settings = block.get("column_settings").and_then(Value::as_array);
    let is_known = |setting: &Value| {
        let align = setting.get("align").is_none_or(|align| {
            ["left", "center", "right"]
                .iter()
                .any(|known| align == known)
        });
        align && setting.get("is_wrapped").is_none_or(Value::is_boolean)
    };
    if settings.is_some_and(|settings| settings.len() > 20 || !settings.iter().all(is_known)) {
        return wrong("column_settings must be at most 20 of align and is_wrapped");
    }
    Ok(())
}

/// Returns the texts of a cell, each with the type that it must have. A cell is a text itself or
/// consists of sections with texts.
fn pieces(cell: &Value) -> Result<Vec<(&Value, &'static str)>, ApiError> {
    let wrong = |message: &str| Err(ApiError::because("invalid_blocks", message));
    if cell.get("type").and_then(Value::as_str) != Some("rich_text") {
        return Ok(vec![(cell, "raw_text")]);
    }
    let mut pieces = Vec::new();
    for section in cell
        .get("elements")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if section.get("type").and_then(Value::as_str) != Some("rich_text_section") {
            return wrong("the rich text of a cell must be sections");
        }
        let elements = section
            .get("elements")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        pieces.extend(elements.map(|element| (element, "text")));
    }
    if pieces.is_empty() {
        wrong("a cell must have some text")
    } else {
        Ok(pieces)
    }
}

fn text(object: Option<&Value>, kind: &str, limit: usize) -> Result<(), ApiError> {
    let text = object
        .and_then(|object| object.get("text"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let length = text.chars().count();
    let is_kind = object
        .and_then(|object| object.get("type"))
        .and_then(Value::as_str)
        == Some(kind);
    if is_kind && (1..=limit).contains(&length) {
        return Ok(());
    }
    Err(ApiError::because(
        "invalid_blocks",
        format!("text must be {kind} of 1 to {limit} characters, not {length}"),
    ))
}
