//! Skills that people name in a message or with `/skill`.

use std::sync::Arc;

use nanobot_skill::Skill;
use nanobot_types::{ChannelName, ChatId, Origin, Timestamp};

use super::Agent;

/// Maximum number of characters of a skill that `/skill NAME` shows.
const MAX_SHOWN: usize = 3000;

impl Agent {
    /// Returns the text that is stored next to a message and sent after it: the runtime block, and
    /// the skills that a person names in the message as `$name`.
    pub(crate) async fn attached_text(
        &self,
        text: &str,
        origin: &Origin,
        at: &Timestamp,
        channel: &ChannelName,
        chat: &ChatId,
    ) -> String {
        let block = self.runtime_block(at, channel, chat);
        let skills = match origin {
            Origin::User => self.context.named_skills(text).await,
            Origin::Cron { .. } | Origin::Heartbeat | Origin::Subagent { .. } => None,
        };
        match skills {
            Some(skills) => format!("{block}\n\n{skills}"),
            None => block,
        }
    }

    /// Returns the text of `/skill`: all skills, or the one called `name`.
    ///
    /// # Errors
    /// Returns a text for the person if there is no such skill, or the skills cannot be read.
    pub async fn skill_overview(&self, name: &str) -> Result<String, String> {
        let source = Arc::clone(self.context.skills());
        let skills = match tokio::task::spawn_blocking(move || source.skills()).await {
            Ok(skills) => skills,
            Err(error) => {
                tracing::error!(%error, "could not read the skills");
                return Err("The skills cannot be read now. The log says why.".to_owned());
            }
        };
        let name = name.trim().trim_start_matches('$');
        if name.is_empty() {
            return Ok(list(&skills));
        }
        match skills
            .iter()
            .find(|skill| skill.name.eq_ignore_ascii_case(name))
        {
            Some(skill) => Ok(show(skill)),
            None => Err(format!("There is no skill {name}. /skill lists them.")),
        }
    }
}

fn list(skills: &[Skill]) -> String {
    if skills.is_empty() {
        return "There are no skills.".to_owned();
    }
    let lines: Vec<String> = skills.iter().map(line).collect();
    format!(
        "Skills ($NAME in a message loads one, /skill NAME shows it):\n{}",
        lines.join("\n")
    )
}

fn line(skill: &Skill) -> String {
    let state = match (skill.is_available(), skill.always) {
        (false, _) => format!(" (not available: {})", skill.requires()),
        (true, true) => " (in every prompt)".to_owned(),
        (true, false) => String::new(),
    };
    format!(
        "- {}{state}: {}",
        skill.name,
        shortened(&skill.description.replace('\n', " "), 120)
    )
}

fn show(skill: &Skill) -> String {
    let state = if skill.is_available() {
        format!("Write ${} in a message to load it.", skill.name)
    } else {
        format!("Not available: {}", skill.requires())
    };
    format!(
        "{} ({}): {}\n{state}\n{}\n\n{}",
        skill.name,
        skill.origin,
        skill.description,
        skill.location.display(),
        shortened(&skill.body, MAX_SHOWN)
    )
    .trim_end()
    .to_owned()
}

fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}
