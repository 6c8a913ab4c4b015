//! Finds, checks and installs skills in folders, and provides the built-in ones.
//!
//! Decision: a skill is text for the model and files next to it, never code in this process. A
//! SKILL.md is untrusted: bounded in size, read by a parser that expands nothing, and never
//! executed. How skills appear in a prompt is not decided here.

mod archive;
mod built_in;
mod capabilities;
mod check;
mod consent;
mod directory;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod install;
mod load;
mod lock;
mod name;
mod open;
mod package;
mod requirement;
mod survey;
mod yaml;

pub use capabilities::Capabilities;
pub use check::SkillFinding;
pub use consent::ConsentPlan;
pub use error::SkillsError;
pub use install::{InstallEffect, InstallPlan};
pub use lock::{LockFile, Pin};
pub use nanobot_skill::{Blocker, NoSkills, Skill, SkillOrigin, SkillSource};
pub use package::Package;
pub use survey::{Consent, SkillEntry, SkillSettings, SkillStatus, Skills};

// Needed only for its choice of a backend; see the workspace's Cargo.toml.
use flate2 as _;
