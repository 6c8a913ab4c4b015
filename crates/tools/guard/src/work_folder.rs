//! Names of the conversations' working folders.
//!
//! Decision: the name of a conversation is escaped so that no two share a folder and none leads out
//! of the parent folder. Very long names become nested folders, because file systems limit the
//! length of each name.

use std::path::PathBuf;

/// Maximum length of one folder name, in bytes.
const NAME_LIMIT: usize = 200;

/// Returns the relative path of a conversation's folder: `telegram_42` for `telegram:42`.
pub(crate) fn folder_name(conversation: &str) -> PathBuf {
    let mut names = vec![String::new()];
    for byte in conversation.bytes() {
        let escaped = match byte {
            b':' => "_".to_owned(),
            b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        match names
            .last_mut()
            .filter(|name| name.len() + escaped.len() <= NAME_LIMIT)
        {
            Some(name) => name.push_str(&escaped),
            None => names.push(escaped),
        }
    }
    if conversation.is_empty() {
        return "%".into();
    }
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_readable_and_cannot_escape() {
        for (conversation, expected) in [
            ("telegram:42", "telegram_42"),
            ("telegram:-100:topic:7", "telegram_-100_topic_7"),
            ("cli_a", "cli%5Fa"),
            ("..", "%2E%2E"),
            ("a/../b\\c", "a%2F%2E%2E%2Fb%5Cc"),
            ("咖", "%E5%92%96"),
            ("", "%"),
        ] {
            assert_eq!(
                folder_name(conversation),
                PathBuf::from(expected),
                "{conversation}"
            );
        }
        let long = folder_name(&format!("matrix:{}", "界".repeat(60)));
        assert!(
            long.components()
                .all(|name| name.as_os_str().len() <= NAME_LIMIT)
                && long.components().count() > 1
        );
    }
}
