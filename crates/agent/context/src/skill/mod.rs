//! How skills appear in a prompt: listed, in full, or loaded by a message that names one.
//!
//! Decision: everything a skill says is somebody's text. In the list it is bounded, on one line
//! and escaped; in full it is bounded, and the model is told where it goes on. Where skills come
//! from is the business of a [`SkillSource`](nanobot_skill::SkillSource).

mod listing;
mod mention;

pub(crate) use listing::{active_skills, skill_list};
pub(crate) use mention::{might_name, named_skills};

use nanobot_skill::Skill;

/// The most that one skill takes of a prompt in full, in bytes.
const BODY_LIMIT: usize = 32 * 1024;

/// What a skill says, cut where it is too long for a prompt.
fn body_of(skill: &Skill) -> String {
    if skill.body.len() <= BODY_LIMIT {
        return skill.body.clone();
    }
    let end = skill.body.floor_char_boundary(BODY_LIMIT);
    let shown = skill.body.get(..end).unwrap_or_default();
    format!(
        "{shown}\n\n[It goes on; read the rest with read_file: {}]",
        skill.location.display()
    )
}
