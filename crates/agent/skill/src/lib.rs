//! The contract of skills: the skill type and the source of skills.
//!
//! Decision: a prompt needs the names, texts and unmet requirements of skills, but not how they are
//! found. That is all this crate holds. Folders, headers and installation belong to the
//! implementations of [`SkillSource`], and an embedding program with skills of its own needs none
//! of them.

mod skill;
mod source;

pub use skill::{Blocker, Skill, SkillOrigin};
pub use source::{NoSkills, SkillSource};
