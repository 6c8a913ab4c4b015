//! `tool.toml`: the definition of a tool whose program is in a folder.

use serde_json::{Map, Value};

use crate::code::Code;
use crate::definition::Definition;

/// Members of a definition.
const MEMBERS: [&str; 5] = ["name", "description", "parameters", "effect", "timeout"];

/// Reads the manifest of a folder: the members of a definition, and `command`. Without a name, that
/// of the folder is used.
///
/// # Errors
/// Returns what is wrong with it, as one line.
pub(crate) fn read(folder: &str, text: &str) -> Result<(Code, Definition), String> {
    let declared: Result<Map<String, Value>, _> = basic_toml::from_str(text);
    let mut declared = declared.map_err(|error| error.to_string())?;
    let command = command(declared.remove("command").unwrap_or_default())?;
    if let Some(unknown) = declared.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
        return Err(format!("{unknown} is unknown"));
    }
    declared.entry("name").or_insert_with(|| folder.into());
    let definition = Definition::of(&declared)?;
    let folder = folder.to_owned();
    Ok((Code::Program { folder, command }, definition))
}

fn command(value: Value) -> Result<Vec<String>, String> {
    let words: Vec<String> = serde_json::from_value(value).unwrap_or_default();
    if words.first().is_none_or(String::is_empty) {
        return Err("command has to be a list of words, the first one a program".to_owned());
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err("command has a null character".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_has_a_definition_and_a_command() {
        let text = r#"
            description = "Counts words."
            command = ["sh", "./count.sh"]
            effect = "pure"
            timeout = 5

            [parameters]
            type = "object"
            required = ["path"]

            [parameters.properties.path]
            type = "string"
        "#;
        let (code, definition) = read("count", text).unwrap();
        let command = vec!["sh".to_owned(), "./count.sh".to_owned()];
        let folder = "count".to_owned();
        assert_eq!(code, Code::Program { folder, command });
        assert_eq!(definition.spec.name.as_str(), "count");
        assert_eq!(definition.timeout, Some(5));
        let schema = json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
        });
        assert_eq!(definition.spec.parameters, schema);
    }

    #[test]
    fn a_bad_manifest_has_one_clear_line() {
        let no_command = "command has to be a list of words, the first one a program";
        for (text, expected) in [
            ("description = \"x\"", no_command),
            ("command = \"a\"", no_command),
            ("command = []", no_command),
            ("command = [\"\"]", no_command),
            ("command = [\"a\\u0000\"]", "command has a null character"),
            ("command = [\"a\"]\nnetwork = true", "network is unknown"),
            (
                "command = [\"a\"]",
                "description has to be a text that says what the tool does",
            ),
        ] {
            assert_eq!(read("x", text).unwrap_err(), expected, "{text}");
        }
        assert!(!read("x", "command = ").unwrap_err().contains('\n'));
    }
}
