//! Templates of messages (`msgKey`), and the check of their values (`msgParam`).

use serde_json::{Map, Value};

use crate::api::ApiError;

/// Templates with their values.
const TEMPLATES: &[(&str, &[&str])] = &[
    ("sampleText", &["content"]),
    ("sampleMarkdown", &["title", "text"]),
    ("sampleImageMsg", &["photoURL"]),
    ("sampleLink", &["text", "title", "picUrl", "messageUrl"]),
    (
        "sampleActionCard",
        &["title", "text", "singleTitle", "singleURL"],
    ),
    ("sampleAudio", &["mediaId", "duration"]),
    ("sampleFile", &["mediaId", "fileName", "fileType"]),
    (
        "sampleVideo",
        &["duration", "videoMediaId", "videoType", "picMediaId"],
    ),
];

/// Reads the values of a template. Returns the names of unknown ones, too.
pub(crate) fn read(template: &str, values: &str) -> Result<(Value, Vec<String>), ApiError> {
    let Some((_, names)) = TEMPLATES.iter().find(|(known, _)| *known == template) else {
        return Err(ApiError::because("invalidParameter.msgKey", template));
    };
    let wrong = |reason: &str| Err(ApiError::because("invalidParameter.msgParam", reason));
    let Ok(Value::Object(values)) = serde_json::from_str(values) else {
        return wrong("no JSON object");
    };
    for name in *names {
        match values.get(*name) {
            Some(Value::String(text)) if !text.trim().is_empty() => {}
            _ => return wrong(name),
        }
    }
    let unknown = unknown(&values, names);
    Ok((Value::Object(values), unknown))
}

fn unknown(values: &Map<String, Value>, names: &[&str]) -> Vec<String> {
    let names_of = values.keys().filter(|name| !names.contains(&name.as_str()));
    names_of.cloned().collect()
}

/// Returns the visible text of a message's values.
pub(crate) fn visible(values: &Value) -> String {
    let text = |key| values.get(key).and_then(Value::as_str);
    let shown = text("text").or_else(|| text("content"));
    shown.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_their_template() {
        let table = [
            ("sampleMarkdown", r#"{"title":"T","text":"x"}"#, ""),
            (
                "sampleMarkdown",
                r#"{"title":"T"}"#,
                "invalidParameter.msgParam",
            ),
            (
                "sampleMarkdown",
                r#"{"title":"T","text":" "}"#,
                "invalidParameter.msgParam",
            ),
            (
                "sampleText",
                r#"{"content":5}"#,
                "invalidParameter.msgParam",
            ),
            ("sampleText", "x", "invalidParameter.msgParam"),
            ("sampleLetter", "{}", "invalidParameter.msgKey"),
        ];
        for (template, values, expected) in table {
            let code = read(template, values).err().map(|error| error.code);
            assert_eq!(code.unwrap_or_default(), expected, "{template} {values}");
        }
        let (values, unknown) = read("sampleText", r#"{"content":"x","at":"y"}"#).unwrap();
        assert_eq!(
            (visible(&values).as_str(), unknown),
            ("x", vec!["at".to_owned()])
        );
    }
}
