//! How skills appear in a prompt.

use super::{Skill, one_line};

const HOW_TO: &str = "# Skills

Guides for particular work. When one fits, read its file with read_file and follow it. One that is not available needs what it requires first.";

/// The full text of the skills that stand in every prompt; empty when there are none.
pub(crate) fn active_skills(skills: &[Skill]) -> String {
    let parts: Vec<String> = skills
        .iter()
        .filter(|skill| skill.always)
        .map(|skill| format!("### Skill: {}\n\n{}", skill.name, skill.body))
        .collect();
    if parts.is_empty() { String::new() } else { format!("# Active Skills\n\n{}", parts.join("\n\n---\n\n")) }
}

/// The list of all skills; empty when there are none.
pub(crate) fn skill_list(skills: &[Skill]) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let entries: String = skills.iter().map(entry).collect();
    format!("{HOW_TO}\n\n<skills>\n{entries}</skills>")
}

fn entry(skill: &Skill) -> String {
    let available = skill.missing.is_empty();
    let name = escape(&skill.name);
    let description = escape(&skill.description);
    let location = skill.location.display();
    let requires = if available {
        String::new()
    } else {
        format!("    <requires>{}</requires>\n", escape(&one_line(&skill.missing.join(", "))))
    };
    format!(
        "  <skill available=\"{available}\">\n    <name>{name}</name>\n    <description>{description}</description>\n    \
         <location>{location}</location>\n{requires}  </skill>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
