//! The structure of cards, in both versions, and the limits of a card.
//!
//! Feishu's documentation allows five tables in a card of version 2.0. Older clients report that
//! the second table element is refused, so the fake allows one by default: a client that passes
//! here passes there. Tables in Markdown are counted in cards of version 2.0 only, where Feishu
//! renders them, and five are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// Maximum number of table elements in a card, unless it is changed.
pub(crate) const TABLE_LIMIT: usize = 1;
/// Maximum number of tables in the Markdown of a card.
const MARKDOWN_TABLE_LIMIT: usize = 5;
/// Maximum number of elements of a card, including nested ones.
const ELEMENT_LIMIT: usize = 200;
/// Maximum size of a card, in bytes.
pub(crate) const SIZE_LIMIT: usize = 30 * 1024;

/// Tags of both versions.
const TAGS: &[&str] = &[
    "button",
    "chart",
    "checker",
    "collapsible_panel",
    "column",
    "column_set",
    "custom_icon",
    "date_picker",
    "div",
    "form",
    "hr",
    "img",
    "img_combination",
    "input",
    "interactive_container",
    "lark_md",
    "markdown",
    "multi_select_person",
    "multi_select_static",
    "overflow",
    "person",
    "person_list",
    "picker_datetime",
    "picker_time",
    "plain_text",
    "select_img",
    "select_person",
    "select_static",
    "standard_icon",
    "table",
    "text_tag",
];
/// Tags that version 2.0 has no more.
const OLD_TAGS: &[&str] = &["action", "note"];

/// Reason why a card is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CardProblem {
    pub(crate) code: u64,
    message: String,
    value: String,
}

impl fmt::Display for CardProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrCode: {}; ErrMsg: {}; ", self.code, self.message)?;
        write!(f, "ErrorValue: {}; ", self.value)
    }
}

fn problem(code: u64, message: &str, value: &str) -> CardProblem {
    CardProblem {
        code,
        message: message.to_owned(),
        value: value.to_owned(),
    }
}

fn malformed(value: &str) -> CardProblem {
    let message = "parse card json err, please check whether the card json is correct";
    problem(200621, message, value)
}

/// Returns `true` if a card has the structure of version 2.0.
pub(crate) fn is_version_2(card: &Value) -> bool {
    card.get("schema").and_then(Value::as_str) == Some("2.0")
}

/// Checks a card.
pub(crate) fn check(card: &Value, table_limit: usize) -> Result<(), CardProblem> {
    let is_new = is_version_2(card);
    let known: &[&str] = if is_new {
        &["schema", "config", "card_link", "header", "body"]
    } else {
        &[
            "config",
            "card_link",
            "header",
            "i18n_header",
            "elements",
            "i18n_elements",
        ]
    };
    let Some(members) = card.as_object() else {
        return Err(malformed("the card is no object"));
    };
    if let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(malformed(&format!("unknown property {unknown}")));
    }
    let body = if is_new {
        card.pointer("/body/elements")
    } else {
        card.get("elements")
    };
    if !body.is_some_and(Value::is_array) && card.get("i18n_elements").is_none() {
        return Err(malformed("elements"));
    }
    let all = elements(card);
    for (tag, element) in &all {
        check_element(tag, element, is_new)?;
    }
    if all.len() > ELEMENT_LIMIT {
        return Err(problem(300305, "element exceeds the limit", ""));
    }
    check_ids(&all)?;
    let tables = all.iter().filter(|(tag, _)| *tag == "table").count();
    let written = if is_new { written_tables(&all) } else { 0 };
    if tables > table_limit || written > MARKDOWN_TABLE_LIMIT {
        return Err(problem(11310, "card table number over limit", "table"));
    }
    Ok(())
}

fn check_element(tag: &str, element: &Value, is_new: bool) -> Result<(), CardProblem> {
    if OLD_TAGS.contains(&tag) && is_new {
        let message = "cards of schema V2 no longer support this capability";
        return Err(problem(200861, message, &format!("unsupported tag {tag}")));
    }
    if !TAGS.contains(&tag) && !OLD_TAGS.contains(&tag) {
        return Err(malformed(&format!("unknown tag {tag}")));
    }
    let has = |key: &str, is_right: fn(&Value) -> bool| element.get(key).is_some_and(is_right);
    let is_whole = match tag {
        "markdown" | "plain_text" | "lark_md" => has("content", Value::is_string),
        "div" => has("text", Value::is_object) || has("fields", Value::is_array),
        "button" => has("text", Value::is_object),
        "img" => has("img_key", Value::is_string),
        "table" => has("columns", Value::is_array) && has("rows", Value::is_array),
        "column_set" => has("columns", Value::is_array),
        "action" => has("actions", Value::is_array),
        "note" | "column" | "form" => has("elements", Value::is_array),
        _ => true,
    };
    match (is_whole, tag) {
        (false, _) => Err(malformed(&format!("incomplete element {tag}"))),
        (true, "table") => check_rows(element),
        (true, _) => Ok(()),
    }
}

/// Checks that the rows of a table have values of its columns, and of their types.
fn check_rows(table: &Value) -> Result<(), CardProblem> {
    let array = |key: &str| {
        table
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mut types = BTreeMap::new();
    for column in array("columns") {
        let text = |key: &str| column.get(key).and_then(Value::as_str);
        let Some(name) = text("name") else {
            return Err(malformed("a column without a name"));
        };
        types.insert(name, text("data_type").unwrap_or("text"));
    }
    for row in array("rows") {
        let Some(cells) = row.as_object() else {
            return Err(problem(
                200914,
                "table rows is invalid",
                "a row is no object",
            ));
        };
        for (name, value) in cells {
            let is_right = match types.get(name.as_str()).copied() {
                None => return Err(problem(200915, "table rows name is invalid", name)),
                Some("number") => value.is_number(),
                Some("date") => value.is_i64(),
                Some("options" | "persons") => value.is_array() || value.is_string(),
                Some(_) => value.is_string(),
            };
            if !is_right {
                return Err(problem(200914, "table rows is invalid", name));
            }
        }
    }
    Ok(())
}

/// Checks that the ids of elements are well-formed and unique.
fn check_ids(all: &[(&str, &Value)]) -> Result<(), CardProblem> {
    let mut seen = BTreeSet::new();
    let ids = all
        .iter()
        .filter_map(|(_, element)| element.get("element_id"));
    for id in ids {
        let Some(id) = id.as_str() else {
            return Err(malformed("element_id"));
        };
        let is_word = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_name = id.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_word || !is_name || id.len() > 20 {
            return Err(malformed(&format!("element_id {id}")));
        }
        if !seen.insert(id) {
            return Err(problem(
                300301,
                "Duplicate element_id in card component",
                id,
            ));
        }
    }
    Ok(())
}

/// Returns every element of a card with its tag, in the order of the document.
pub(crate) fn elements(card: &Value) -> Vec<(&str, &Value)> {
    let mut found = Vec::new();
    collect(card, &mut found);
    found
}

fn collect<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(members) => {
            if let Some(tag) = members.get("tag").and_then(Value::as_str) {
                found.push((tag, value));
            }
            // The values of buttons and the rows of tables belong to the app.
            let parts = members
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "value" | "rows"));
            parts.for_each(|(_, part)| collect(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, found)),
        _ => {}
    }
}

/// Returns the element with this id.
pub(crate) fn element_mut<'a>(card: &'a mut Value, id: &str) -> Option<&'a mut Value> {
    if card.get("element_id").and_then(Value::as_str) == Some(id) {
        return Some(card);
    }
    match card {
        Value::Object(members) => members
            .iter_mut()
            .find_map(|(_, part)| element_mut(part, id)),
        Value::Array(parts) => parts.iter_mut().find_map(|part| element_mut(part, id)),
        _ => None,
    }
}

/// Counts the tables in the Markdown of a card: lines of dashes below a line with a bar.
fn written_tables(all: &[(&str, &Value)]) -> usize {
    let texts = all
        .iter()
        .filter(|(tag, _)| *tag == "markdown")
        .filter_map(|(_, element)| element.get("content")?.as_str());
    texts.map(tables_in).sum()
}

fn tables_in(text: &str) -> usize {
    let is_rule = |line: &str| {
        let line = line.trim();
        line.contains('|')
            && line.contains("-")
            && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut is_code = false;
    let mut count = 0;
    for pair in lines.windows(2) {
        if let [above, below] = pair {
            is_code ^= above.trim_start().starts_with("```");
            count +=
                usize::from(!is_code && above.contains('|') && is_rule(below) && !is_rule(above));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(card: &Value) -> Option<u64> {
        check(card, TABLE_LIMIT).err().map(|problem| problem.code)
    }

    fn with_row(row: &Value) -> Value {
        let columns = json!([{"name": "c0"}, {"name": "n", "data_type": "number"}]);
        json!({"elements": [{"tag": "table", "columns": columns, "rows": [row]}]})
    }

    #[test]
    fn cards_are_checked() {
        let table = json!({"tag": "table", "columns": [{"name": "c0"}], "rows": [{"c0": "x"}]});
        let text = json!({"tag": "markdown", "content": "x", "element_id": "a"});
        let many = vec![json!({"tag": "hr"}); 201];
        let written = "|a|\n|-|\n|b|\n\n".repeat(6);
        let written = json!({"tag": "markdown", "content": written});
        let cards = [
            (json!({"elements": [table]}), None),
            (json!({"elements": [table, table]}), Some(11310)),
            (json!({"schema": "2.0", "body": {"elements": [text]}}), None),
            (json!({"schema": "2.0", "elements": [text]}), Some(200621)),
            (
                json!({"schema": "2.0", "body": {"elements": [text, text]}}),
                Some(300301),
            ),
            (
                json!({"schema": "2.0", "body": {"elements": [written]}}),
                Some(11310),
            ),
            (json!({"elements": [written]}), None),
            (json!({"elements": many}), Some(300305)),
            (json!({"elements": [{"tag": "note", "elements": []}]}), None),
            (
                json!({"schema": "2.0", "body": {"elements": [{"tag": "note", "elements": []}]}}),
                Some(200861),
            ),
            (json!({"elements": [{"tag": "banner"}]}), Some(200621)),
            (with_row(&json!({"c1": "x"})), Some(200915)),
            (with_row(&json!({"c0": 1})), Some(200914)),
            (with_row(&json!("x")), Some(200914)),
            (with_row(&json!({"c0": "x", "n": 1})), None),
            (json!({"elements": [{"tag": "markdown"}]}), Some(200621)),
            (json!({"body": {}}), Some(200621)),
            (json!([]), Some(200621)),
        ];
        for (card, expected) in cards {
            assert_eq!(code(&card), expected, "{card}");
        }
    }

    #[test]
    fn tables_in_code_are_text() {
        assert_eq!(tables_in("```\n|a|\n|-|\n```\n|a|b|\n|:-|-:|\n|c|d|"), 1);
        assert_eq!(tables_in("a | b\n---\n| - |\nx"), 0);
    }
}
