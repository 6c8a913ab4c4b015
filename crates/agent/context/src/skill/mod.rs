//! Skills in a prompt: listed, in full, or loaded by a message that names one.
//!
//! Decision: the text of a skill is untrusted. In the list it is bounded, put on one line and
//! escaped; in full it is bounded, and a note says where to read the rest. A
//! [`SkillSource`](nanobot_skill::SkillSource) decides where skills come from.

mod listing;
mod mention;

pub(crate) use listing::{active_skills, skill_list, skill_names};
pub(crate) use mention::{might_name, named_skills};

use nanobot_skill::Skill;

/// Maximum size of one skill's full text in a prompt, in bytes.
const BODY_LIMIT: usize = 32 * 1024;

/// Returns the text of a skill, cut at [`BODY_LIMIT`].
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
