//! Recognises calls that read files which people sent.
//!
//! Decision: the folder of these files is searched for in the arguments, because commands and tools
//! of other programs read them as well as `read_file`. Too many hits are harmless: a marked turn asks
//! once more. A picture is no text, so that what it shows is not marked.

use std::path::{Path, PathBuf};

use nanobot_tool::Registry;
use nanobot_types::{ToolCall, ToolResult, ToolSource};
use serde_json::Value;

/// Built-in tools whose results show text of files. Others only name them, such as `list_dir`.
const READERS: [&str; 4] = ["exec", "grep", "read_file", "write_stdin"];

/// The folder of the files that people sent.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedFiles {
    /// The folder; `None` if no files are received.
    pub(super) folder: Option<PathBuf>,
}

impl ReceivedFiles {
    /// Returns `true` if the result of a call shows text of a received file.
    pub(super) fn are_shown_by(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        registry: &Registry,
    ) -> bool {
        let Some(folder) = &self.folder else {
            return false;
        };
        let is_picture = !result.pictures.is_empty() && !result.output.contains('\n');
        !is_picture && may_read(call, registry) && names_folder(call, folder)
    }
}

fn may_read(call: &ToolCall, registry: &Registry) -> bool {
    let tool = registry.get(&call.name);
    tool.is_some_and(|tool| {
        let spec = tool.spec();
        spec.source == ToolSource::External || READERS.contains(&spec.name.as_str())
    })
}

/// `true` if the arguments contain the folder: its whole path, its last two names, or its name next
/// to a folder in which relative paths begin.
fn names_folder(call: &ToolCall, folder: &Path) -> bool {
    let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let parent = folder.parent().and_then(Path::file_name);
    let parent = parent.and_then(|name| name.to_str()).unwrap_or("..");
    let [from_home, from_workspace] = [format!("{parent}/{name}"), format!("../{name}")];
    let arguments = Value::Object(call.parsed_arguments().unwrap_or_default());
    any_text(&arguments, &|text| {
        let text = text.replace('\\', "/");
        [&from_home, &from_workspace].iter().any(|path| {
            text.match_indices(path.as_str()).any(|(begin, found)| {
                let rest = text.get(begin + found.len()..).unwrap_or_default();
                !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_' || next == '-')
            })
        })
    })
}

/// `true` if the predicate holds for a string in a value.
fn any_text(value: &Value, holds: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, holds)),
        Value::Object(members) => members.values().any(|item| any_text(item, holds)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_the_folder_in_several_ways() {
        let folder = Path::new("/home/me/.nanobot/media");
        for (arguments, expected) in [
            (
                r#"{"path":"/home/me/.nanobot/media/telegram/a-1.pdf"}"#,
                true,
            ),
            (
                r#"{"path":"/home/me/.nanobot\u002fmedia/telegram/a-1.pdf"}"#,
                true,
            ),
            (r#"{"path":"../media/telegram/a-1.pdf"}"#, true),
            (r#"{"command":"cat ~/.nanobot/media/*/*.txt"}"#, true),
            (r#"{"path":"/home/me/.nanobot/media"}"#, true),
            (r#"{"path":"C:\\Users\\me\\.nanobot\\media\\a.txt"}"#, true),
            (r#"{"tasks":[{"path":"../media/a.txt"}]}"#, true),
            (r#"{"path":"/home/me/.nanobot/media-list.txt"}"#, false),
            (r#"{"path":"media/notes.md"}"#, false),
            (r#"{"path":"notes.md"}"#, false),
            ("not JSON", false),
        ] {
            let call = ToolCall::new("1", "read_file", arguments);
            assert_eq!(names_folder(&call, folder), expected, "{arguments}");
        }
    }
}
