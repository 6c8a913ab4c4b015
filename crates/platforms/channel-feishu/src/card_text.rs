//! The text of a card that a person sent or forwarded.
//!
//! Cards are trees of many kinds of elements, and new kinds appear all the time. So texts are taken
//! from wherever an element can have them, within bounds of depth and number.

use nanobot_channel::Value;

/// Deepest element that is read.
const MAX_DEPTH: usize = 16;
/// Most texts of a card.
const MAX_TEXTS: usize = 256;
/// Longest text of a card altogether, in characters.
const MAX_LENGTH: usize = 20_000;

/// Keys whose value is a part of the card, in the order of reading.
const PARTS: &[&str] = &[
    "header",
    "title",
    "subtitle",
    "body",
    "text",
    "content",
    "fields",
    "elements",
    "columns",
    "actions",
    "extra",
    "label",
    "placeholder",
    "card",
    "i18n_elements",
    "zh_cn",
    "en_us",
    "property",
    "rows",
    "alt",
    "multi_url",
    "note",
    "options",
    "user_dsl",
    "json_card",
];
/// Elements whose text is shown as it is.
const BREAKING: &[&str] = &[
    "markdown",
    "div",
    "plain_text",
    "lark_md",
    "hr",
    "note",
    "button",
];

/// Returns the texts of a card, one a line; an empty text without any.
pub(crate) fn card_text(card: &Value) -> String {
    let mut texts = Texts::default();
    texts.read(card, 0);
    let lines = texts.lines.into_iter();
    let lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
    lines.join("\n").chars().take(MAX_LENGTH).collect()
}

#[derive(Default)]
struct Texts {
    lines: Vec<String>,
}

impl Texts {
    fn read(&mut self, element: &Value, depth: usize) {
        if depth > MAX_DEPTH || self.lines.len() >= MAX_TEXTS {
            return;
        }
        match element {
            Value::String(text) => self.read_text(text, depth),
            Value::Array(elements) => {
                for element in elements {
                    self.read(element, depth + 1);
                }
            }
            Value::Object(members) => {
                let tag = members
                    .get("tag")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                match tag {
                    "img" | "image" => self.lines.push("[image]".to_owned()),
                    "at" => self.lines.push(at_text(element)),
                    "a" => self.lines.push(link_text(element)),
                    _ => {
                        for part in PARTS {
                            if let Some(part) = members.get(*part) {
                                self.read(part, depth + 1);
                            }
                        }
                    }
                }
                if BREAKING.contains(&tag) {
                    self.lines.push(String::new());
                }
                if let (Some(Value::String(url)), false) = (members.get("url"), tag == "a") {
                    self.lines.push(url.clone());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A text may itself be a card in JSON.
    fn read_text(&mut self, text: &str, depth: usize) {
        let is_json = text.trim_start().starts_with('{');
        match nanobot_channel::json::from_str::<Value>(text) {
            Ok(card @ Value::Object(_)) if is_json => self.read(&card, depth + 1),
            _ => self.lines.push(text.trim().to_owned()),
        }
    }
}

fn at_text(element: &Value) -> String {
    let given = |key: &str| element.get(key).and_then(Value::as_str);
    let name = given("user_name").or(given("text")).or(given("user_id"));
    format!("@{}", name.unwrap_or("unknown").trim_start_matches('@'))
}

/// Returns the words of a link with its address.
pub(crate) fn link_text(element: &Value) -> String {
    let given = |key: &str| element.get(key).and_then(Value::as_str).unwrap_or_default();
    let (text, href) = (given("text").trim(), given("href").trim());
    match (text, href) {
        ("", href) => href.to_owned(),
        (text, "") => text.to_owned(),
        (text, href) if text == href => text.to_owned(),
        (text, href) => format!("[{text}]({href})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_every_kind_of_card_are_found() {
        let table = [
            (
                json!({"header": {"title": {"tag": "plain_text", "content": "Title"}}, "elements": [
                    {"tag": "markdown", "content": "**bold**"},
                    {"tag": "div", "text": {"tag": "lark_md", "content": "words"},
                     "fields": [{"text": {"content": "field"}}]},
                    {"tag": "column_set", "columns": [{"elements": [{"tag": "markdown", "content": "column"}]}]},
                    {"tag": "action", "actions": [{"tag": "button", "text": {"content": "Press"}, "url": "https://x.test"}]},
                    {"tag": "img", "img_key": "k"},
                    {"tag": "note", "elements": [{"tag": "plain_text", "content": "note"}]},
                ]}),
                "Title\n**bold**\nwords\nfield\ncolumn\nPress\nhttps://x.test\n[image]\nnote",
            ),
            (
                json!({"title": "T", "elements": [[{"tag": "text", "text": "a"}, {"tag": "a", "text": "b", "href": "https://b.test"},
                       {"tag": "at", "user_name": "Ann"}]]}),
                "T\na\n[b](https://b.test)\n@Ann",
            ),
            (
                json!({"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": "two"}]}}),
                "two",
            ),
            (
                json!({"user_dsl": "{\"body\": {\"elements\": [{\"tag\": \"markdown\", \"content\": \"in\"}]}}"}),
                "in",
            ),
            (json!({"type": "template"}), ""),
            (json!([]), ""),
        ];
        for (card, text) in table {
            assert_eq!(card_text(&card), text, "{card}");
        }
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let mut deep = json!("bottom");
        for _ in 0..100 {
            deep = json!({"elements": [deep]});
        }
        assert_eq!(card_text(&deep), "");
        let wide: Vec<_> = (0..10_000)
            .map(|number| json!({"text": format!("{number}")}))
            .collect();
        assert_eq!(
            card_text(&json!({"elements": wide})).lines().count(),
            MAX_TEXTS
        );
        let long = "語".repeat(MAX_LENGTH + 1);
        assert_eq!(
            card_text(&json!({"text": long})).chars().count(),
            MAX_LENGTH
        );
    }
}
