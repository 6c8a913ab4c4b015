//! A skill as the prompt and the user see it.

use std::fmt;
use std::path::PathBuf;

/// Origin of a skill, in order of precedence among skills of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillOrigin {
    /// The workspace: the user or the assistant wrote or installed it.
    Workspace,
    /// Built into the program.
    BuiltIn,
    /// A folder named in the configuration.
    Library,
}

impl fmt::Display for SkillOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workspace => "workspace",
            Self::BuiltIn => "built-in",
            Self::Library => "library",
        })
    }
}

/// Unmet requirement of a skill. Names the thing that is missing, never its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blocker {
    /// A program that is not on the path; several alternative names if one of them is enough.
    Program(String),
    /// An environment variable without a value.
    Variable(String),
    /// The skill is for other operating systems.
    System(String),
    /// The skill's file cannot be used, for this reason.
    Broken(String),
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => write!(f, "CLI: {name}"),
            Self::Variable(name) => write!(f, "ENV: {name}"),
            Self::System(names) => write!(f, "OS: {names}"),
            Self::Broken(why) => write!(f, "a SKILL.md that can be used: {why}"),
        }
    }
}

/// A guide for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name; unique among the skills of a source.
    pub name: String,
    /// Its purpose; the name if the skill does not state one.
    pub description: String,
    /// Its origin.
    pub origin: SkillOrigin,
    /// Absolute path of its file.
    pub location: PathBuf,
    /// Its text without the header; empty if the file cannot be used.
    pub body: String,
    /// `true` if the skill is part of every prompt: it requests that, is allowed to, and is
    /// available.
    pub always: bool,
    /// Unmet requirements; empty if it is available.
    pub blockers: Vec<Blocker>,
}

impl Skill {
    /// `true` if the skill can be used in this environment.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.blockers.is_empty()
    }

    /// Returns the unmet requirements as text: `CLI: gh, ENV: TOKEN`. Empty if the skill is
    /// available.
    #[must_use]
    pub fn requires(&self) -> String {
        let words: Vec<String> = self.blockers.iter().map(Blocker::to_string).collect();
        words.join(", ")
    }
}
