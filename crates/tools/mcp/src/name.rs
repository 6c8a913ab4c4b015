//! Names of tools: `mcp_<server>_<tool>`.
//!
//! Decision: a name consists of `[A-Za-z0-9_-]` and has at most 64 characters. A name that had to be
//! changed, is too long or could be another server's gets a hash of both parts as a suffix, so that
//! no two tools share a name by accident. Which server it is decided by comparing the names of all
//! configured servers: `a` and `a_b` would both have `mcp_a_b_c`, so tools of `a_b` get the suffix.

use sha2::{Digest as _, Sha256};

/// Maximum length that vendors accept, in characters.
const MAX_NAME: usize = 64;
/// Number of hexadecimal digits of a suffix.
const DIGITS: usize = 8;

/// Returns the name of a tool. `kind` is empty for tools, otherwise `resource` or `prompt`.
pub(crate) fn tool_name<'a>(
    server: &str,
    kind: &str,
    tool: &str,
    mut all_servers: impl Iterator<Item = &'a str>,
) -> String {
    let parts = match kind {
        "" => vec!["mcp", server, tool],
        kind => vec!["mcp", server, kind, tool],
    };
    let plain = parts.join("_");
    let clean: String = plain.chars().map(allowed).collect();
    let clean_server: String = server.chars().map(allowed).collect();
    let is_ambiguous = all_servers.any(|other| {
        let other: String = other.chars().map(allowed).collect();
        clean_server
            .strip_prefix(&other)
            .is_some_and(|rest| rest.starts_with('_'))
    });
    if clean == plain && !is_ambiguous && clean.len() <= MAX_NAME {
        return clean;
    }
    with_suffix(&clean, server, kind, tool)
}

/// Returns a name with the hash of its parts.
fn with_suffix(clean: &str, server: &str, kind: &str, tool: &str) -> String {
    let digest = Sha256::digest(format!("{server}\0{kind}\0{tool}"));
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits: String = digits.chars().take(DIGITS).collect();
    let head: String = clean.chars().take(MAX_NAME - DIGITS - 1).collect();
    format!("{head}_{digits}")
}

fn allowed(character: char) -> char {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_plain_where_they_can_be() {
        let servers = ["a", "a_b", "time", "über"];
        let name = |server, kind, tool| tool_name(server, kind, tool, servers.into_iter());
        for (server, kind, tool, expected) in [
            ("time", "", "get_current_time", "mcp_time_get_current_time"),
            ("time", "resource", "notes", "mcp_time_resource_notes"),
            ("time", "prompt", "greet", "mcp_time_prompt_greet"),
            ("a", "", "b_c", "mcp_a_b_c"),
            ("a_b", "", "c", "mcp_a_b_c_"),
            ("time", "", "a b\n;rm", "mcp_time_a_b__rm_"),
            ("über", "", "x", "mcp__ber_x_"),
            ("time", "", "\u{202e}\u{1b}[31m", "mcp_time____31m_"),
        ] {
            let found = name(server, kind, tool);
            let matches = match expected.ends_with('_') {
                true => found.starts_with(expected) && found.len() == expected.len() + DIGITS,
                false => found == expected,
            };
            assert!(matches, "{found} for {expected}");
        }
        let long = name("time", "", &"x".repeat(500));
        assert_eq!(long.len(), MAX_NAME);
    }

    #[test]
    fn similar_parts_have_different_names() {
        let servers = ["a", "a_b", "a b", "a.b"];
        let mut names = HashSet::new();
        for (server, tool) in [
            ("a", "b_c"),
            ("a_b", "c"),
            ("a b", "c"),
            ("a.b", "c"),
            ("a", "b c"),
            ("a", "b.c"),
        ] {
            let name = tool_name(server, "", tool, servers.into_iter());
            assert!(names.insert(name.clone()), "{name}");
        }
    }
}
