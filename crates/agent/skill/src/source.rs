//! The source of skills.

use crate::Skill;

/// Provides skills. The result may change from call to call, because users add skills while the
/// program runs.
pub trait SkillSource: std::fmt::Debug + Send + Sync {
    /// Returns all skills, sorted by name, with unique names. Never fails: an unusable skill is
    /// either listed with its blocker or logged. May read files, so call it where blocking is
    /// acceptable.
    fn skills(&self) -> Vec<Skill>;

    /// Returns a fingerprint of the source's configuration, in any form. While it stays the same,
    /// prompts built earlier remain valid, also in another process. The content of skill files is
    /// not part of it.
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
