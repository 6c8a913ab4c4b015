//! Loads the skill that a user names as `$name` in a message.
//!
//! Decision: the skill's text is stored with the message, so that later requests repeat the same
//! bytes. A `$` counts only before the whole name of a skill that exists and is available; prices
//! and shell variables are left alone.

use nanobot_skill::Skill;

use super::body_of;

/// Maximum number of skills that one message loads.
const MAX_SKILLS: usize = 3;

/// `true` if the text may name a skill, so that reading the skills is worthwhile.
pub(crate) fn might_name(text: &str) -> bool {
    marks(text).any(|(_, rest)| rest.chars().next().is_some_and(char::is_alphanumeric))
}

/// Returns the text of the skills named in `text`, in order of mention; `None` if it names none.
pub(crate) fn named_skills(text: &str, skills: &[Skill]) -> Option<String> {
    let mut named: Vec<&Skill> = Vec::new();
    for (before, rest) in marks(text) {
        let Some(skill) = named_by(before, rest, skills) else {
            continue;
        };
        if named.len() < MAX_SKILLS && !named.iter().any(|known| known.name == skill.name) {
            named.push(skill);
        }
    }
    let blocks: Vec<String> = named.into_iter().map(block).collect();
    (!blocks.is_empty()).then(|| blocks.join("\n\n"))
}

/// Splits the text at each `$`: yields the text before it and the text after it.
fn marks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let places = text.match_indices('$');
    places.filter_map(|(place, mark)| Some((text.get(..place)?, text.get(place + mark.len()..)?)))
}

/// Finds the skill with the longest name that `rest` starts with as a whole word.
fn named_by<'a>(before: &str, rest: &str, skills: &'a [Skill]) -> Option<&'a Skill> {
    if before.ends_with(|character: char| {
        character.is_ascii_alphanumeric() || "$\\_".contains(character)
    }) {
        return None;
    }
    let is_word = |skill: &&Skill| {
        let Some(rest_of_text) = rest.strip_prefix(skill.name.as_str()) else {
            return false;
        };
        !continues_name(rest_of_text)
    };
    skills
        .iter()
        .filter(|skill| skill.is_available())
        .filter(is_word)
        .max_by_key(|skill| skill.name.len())
}

/// `true` if the text after a name continues that name, so that the match is only a prefix.
fn continues_name(rest_of_text: &str) -> bool {
    let mut characters = rest_of_text.chars();
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    match characters.next() {
        Some('-' | '.') => characters.next().is_some_and(is_of_name),
        Some(character) => is_of_name(character),
        None => false,
    }
}

fn block(skill: &Skill) -> String {
    let (name, location) = (&skill.name, skill.location.display());
    format!(
        "[Skill {name}, named in this message; its file: {location}]\n{}\n[/Skill {name}]",
        body_of(skill)
    )
}

#[cfg(test)]
mod tests {
    use nanobot_skill::{Blocker, SkillOrigin};

    use super::*;

    fn skills() -> Vec<Skill> {
        [
            "HOME", "a", "cron", "tax", "tax-2", "x", "y", "天气", "blocked",
        ]
        .map(|name| Skill {
            name: name.to_owned(),
            description: String::new(),
            origin: SkillOrigin::Workspace,
            location: format!("/s/{name}/SKILL.md").into(),
            body: format!("Body of {name}."),
            always: false,
            blockers: if name == "blocked" {
                vec![Blocker::Variable("X".to_owned())]
            } else {
                Vec::new()
            },
        })
        .into()
    }

    #[test]
    fn finds_whole_names_of_available_skills() {
        let table: [(&str, &[&str]); 18] = [
            ("use $tax please", &["tax"]),
            ("$tax", &["tax"]),
            ("$tax, then $cron.", &["tax", "cron"]),
            ("($tax-2)!", &["tax-2"]),
            ("$tax-", &["tax"]),
            ("$tax $tax $cron $tax", &["tax", "cron"]),
            ("请用$tax看看", &["tax"]),
            ("$天气怎么样", &["天气"]),
            ("$x $y $a $cron", &["x", "y", "a"]),
            ("it costs $5 or $5.50", &[]),
            ("echo $PATH ${tax} $$tax \\$tax", &[]),
            ("US$tax", &[]),
            ("$taxes $tax_1 $tax-x $tax.md", &[]),
            ("$unknown", &[]),
            ("$blocked", &[]),
            ("tax", &[]),
            ("$", &[]),
            ("$HOME/x", &["HOME"]),
        ];
        for (text, expected) in table {
            let expected: Vec<String> = expected
                .iter()
                .map(|name| {
                    format!("[Skill {name}, named in this message; its file: /s/{name}/SKILL.md]\nBody of {name}.\n[/Skill {name}]")
                })
                .collect();
            assert_eq!(
                named_skills(text, &skills()).unwrap_or_default(),
                expected.join("\n\n"),
                "{text}"
            );
            assert!(expected.is_empty() || might_name(text), "{text}");
        }
        assert!(!might_name("a price of 5 $, or none"));
    }
}
