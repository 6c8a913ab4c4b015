//! The contract of skills: what one is, and who knows them.
//!
//! Decision: a prompt needs names, texts and reasons, and nothing of how they are found. So that
//! is all there is here; folders, headers and installation belong to whoever implements
//! [`SkillSource`], and an embedding program that has skills of its own needs none of that.

mod skill;
mod source;

pub use skill::{Blocker, Skill, SkillOrigin};
pub use source::{NoSkills, SkillSource};
