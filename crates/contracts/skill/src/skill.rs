//! A skill as a prompt and a person see it.

use std::fmt;
use std::path::PathBuf;

/// Who a skill belongs to, in the order in which one stands before another of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillOrigin {
    /// The workspace: a person, or the assistant itself, wrote or installed it.
    Workspace,
    /// The program brought it along.
    BuiltIn,
    /// A folder that the configuration names.
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

/// Why a skill cannot be used here and now. Names things, never shows their values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blocker {
    /// A program that is not on the path; several names when one of them is enough.
    Program(String),
    /// A variable that has no value.
    Variable(String),
    /// It is for other systems.
    System(String),
    /// Its file cannot be used, for this reason.
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
    /// What it is called; unique among the skills of a source.
    pub name: String,
    /// What it is for; its name when nobody said.
    pub description: String,
    /// Who it belongs to.
    pub origin: SkillOrigin,
    /// Its file, as an absolute path.
    pub location: PathBuf,
    /// What it says, without the header; empty when the file cannot be used.
    pub body: String,
    /// Whether it stands in every prompt: it asks for it, may, and is available.
    pub always: bool,
    /// What is in the way; nothing when it is available.
    pub blockers: Vec<Blocker>,
}

impl Skill {
    /// Whether it can be used here and now.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.blockers.is_empty()
    }

    /// What is in the way, in words: `CLI: gh, ENV: TOKEN`. Empty for one that is available.
    #[must_use]
    pub fn requires(&self) -> String {
        let words: Vec<String> = self.blockers.iter().map(Blocker::to_string).collect();
        words.join(", ")
    }
}
