//! Who knows skills.

use crate::Skill;

/// Knows skills. What it answers may change from call to call, because people add skills while
/// the program runs.
pub trait SkillSource: std::fmt::Debug + Send + Sync {
    /// All skills, sorted by name, no name twice. Never fails: what cannot be used is in the list
    /// with its reason, or logged. May read files: call it where waiting is fine.
    fn skills(&self) -> Vec<Skill>;

    /// How the source is set up, in any form. While it stays the same, so may prompts that were
    /// built before, also in another process; what files say does not belong to it.
    fn configuration(&self) -> String;
}

/// A source without skills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoSkills;

impl SkillSource for NoSkills {
    fn skills(&self) -> Vec<Skill> {
        Vec::new()
    }

    fn configuration(&self) -> String {
        String::new()
    }
}
