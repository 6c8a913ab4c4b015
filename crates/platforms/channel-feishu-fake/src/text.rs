//! The visible text of messages.

use serde_json::{Value, json};

use crate::card;

/// Returns the visible text of a message. The markup of posts and cards is unchanged.
pub(crate) fn visible(kind: &str, content: &Value) -> String {
    match kind {
        "text" => text_of(content, "text").to_owned(),
        "post" => post_text(content),
        "interactive" => card_lines(content).join("\n"),
        _ => String::new(),
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the post of the first language, whatever the form of the content.
pub(crate) fn post_body(content: &Value) -> &Value {
    if content.get("content").is_some_and(Value::is_array) {
        return content;
    }
    let languages = content.get("post").unwrap_or(content).as_object();
    languages
        .and_then(|languages| languages.values().next())
        .unwrap_or(&Value::Null)
}

fn post_text(content: &Value) -> String {
    let body = post_body(content);
    let paragraphs = body.get("content").and_then(Value::as_array);
    let paragraph = |elements: &Value| -> String {
        let elements = elements.as_array().into_iter().flatten();
        elements.map(element_text).collect()
    };
    let title = text_of(body, "title");
    let mut lines = Vec::from_iter((!title.is_empty()).then(|| title.to_owned()));
    lines.extend(paragraphs.into_iter().flatten().map(paragraph));
    lines.join("\n")
}

fn element_text(element: &Value) -> String {
    match text_of(element, "tag") {
        "at" => format!("@{}", text_of(element, "user_id")),
        "hr" => "---".to_owned(),
        _ => text_of(element, "text").to_owned(),
    }
}

/// Returns the texts of a card, one per element, the header first.
fn card_lines(content: &Value) -> Vec<String> {
    let members = content.as_object().into_iter().flatten();
    let (header, rest): (Vec<_>, Vec<_>) = members.partition(|(key, _)| *key == "header");
    header
        .into_iter()
        .chain(rest)
        .flat_map(|(_, part)| card::elements(part))
        .filter_map(|(tag, element)| match tag {
            "markdown" | "plain_text" | "lark_md" => Some(text_of(element, "content").to_owned()),
            "table" => Some(table_text(element)),
            _ => None,
        })
        .collect()
}

fn table_text(table: &Value) -> String {
    let array = |key: &str| {
        table
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let columns = array("columns");
    let names: Vec<&str> = columns
        .iter()
        .map(|column| text_of(column, "name"))
        .collect();
    let titles: Vec<&str> = columns
        .iter()
        .map(|column| text_of(column, "display_name"))
        .collect();
    let mut lines = vec![titles.join(" | ")];
    for row in array("rows") {
        let cell = |name: &&str| match row.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        lines.push(names.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    lines.join("\n")
}

/// Returns the content of a card as Feishu shows it to readers of messages: texts without form.
pub(crate) fn card_as_read(content: &Value) -> Value {
    let lines = card_lines(content).into_iter();
    let elements: Vec<Value> = lines
        .map(|text| json!([{"tag": "text", "text": text}]))
        .collect();
    let title = content.pointer("/header/title/content").cloned();
    json!({"title": title, "elements": elements})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_from_every_kind() {
        let post = json!({"zh_cn": {"title": "T", "content": [
            [{"tag": "text", "text": "see "}, {"tag": "a", "text": "here", "href": "https://a.example"}],
            [{"tag": "md", "text": "**bold**"}],
        ]}});
        let card = json!({
            "header": {"title": {"tag": "plain_text", "content": "T"}},
            "elements": [
                {"tag": "div", "text": {"tag": "lark_md", "content": "**h**"}},
                {"tag": "table", "columns": [{"name": "c0", "display_name": "A"}], "rows": [{"c0": "1"}]},
            ],
        });
        let texts = [
            ("text", json!({"text": "plain"}), "plain"),
            ("post", post, "T\nsee here\n**bold**"),
            ("interactive", card, "T\n**h**\nA\n1"),
            ("image", json!({"image_key": "img_1"}), ""),
        ];
        for (kind, content, expected) in texts {
            assert_eq!(visible(kind, &content), expected);
        }
    }
}
