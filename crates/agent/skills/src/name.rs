//! Rules for the names of skills.

/// Maximum length of a name, in characters.
const LIMIT: usize = 64;

/// `true` if a folder of this name may be a skill. Existing installations have names with spaces
/// and in any script, so those are accepted; paths, leading dots and invisible or bidirectional
/// control characters are not.
pub(crate) fn is_usable(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || " -_.".contains(character);
    let length = name.chars().count();
    !name.starts_with('.')
        && name.trim() == name
        && (1..=LIMIT).contains(&length)
        && name.chars().all(is_plain)
}

/// `true` if a name follows the rules for new skills: lowercase ASCII letters, digits and single
/// hyphens.
pub(crate) fn is_well_formed(name: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    name.len() <= LIMIT
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_paths() {
        let long = "x".repeat(65);
        let table = [
            ("weather", true, true),
            ("skill-creator-2", true, true),
            ("My Skill_1.2", true, false),
            ("天气", true, false),
            ("-x", true, false),
            ("a--b", true, false),
            ("", false, false),
            (".hidden", false, false),
            ("../../outside", false, false),
            ("a/b", false, false),
            ("a\\b", false, false),
            (" a", false, false),
            ("we\u{202e}rehta", false, false),
            (long.as_str(), false, false),
        ];
        for (name, usable, good) in table {
            assert_eq!(
                (is_usable(name), is_well_formed(name)),
                (usable, good),
                "{name:?}"
            );
        }
    }
}
