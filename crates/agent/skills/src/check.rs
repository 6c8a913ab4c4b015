//! Checks skills for problems.

use std::fmt;

use nanobot_skill::SkillOrigin;

use crate::header::Header;
use crate::load::{FILE_LIMIT, SKILL_FILE};
use crate::lock::LockFile;
use crate::name;
use crate::package::Package;
use crate::survey::{SkillStatus, Skills};
use crate::{SkillEntry, SkillsError};

/// Folders that are expected next to a SKILL.md.
const FOLDERS: [&str; 3] = ["scripts", "references", "assets"];

/// Maximum length of a description in a prompt, in characters.
const DESCRIPTION: usize = 300;

/// A problem found in a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFinding {
    /// Description of the problem.
    pub what: String,
    /// `true` if it prevents installing.
    pub is_error: bool,
}

impl SkillFinding {
    fn error(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            is_error: true,
        }
    }

    fn remark(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            is_error: false,
        }
    }
}

impl fmt::Display for SkillFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Package {
    /// Returns the problems of the package, errors first.
    #[must_use]
    pub fn findings(&self) -> Vec<SkillFinding> {
        let document = self.document();
        let mut findings = Vec::new();
        let name = self.name();
        if !name::is_well_formed(&name) {
            findings.push(SkillFinding::error(format!(
                "the name `{name}` may only have lowercase letters a-z, digits and single hyphens (at most 64)"
            )));
        }
        match document.header {
            Header::Missing => findings.push(SkillFinding::error(
                "it has no complete header between two `---` lines",
            )),
            Header::Broken(why) | Header::TooLarge(why) => findings.push(SkillFinding::error(why)),
            Header::Read(fields) => {
                let description = fields.text("description").unwrap_or_default();
                if description.is_empty() || is_to_do(&description) {
                    findings.push(SkillFinding::error(
                        "its description does not say yet what it is for",
                    ));
                }
                if description.chars().count() > DESCRIPTION {
                    let what = format!(
                        "its description is longer than the {DESCRIPTION} characters that prompts show"
                    );
                    findings.push(SkillFinding::remark(what));
                }
                if fields.text("name").is_none() {
                    findings.push(SkillFinding::remark(
                        "its header has no name; the folder's name is used",
                    ));
                }
                if fields.by_line {
                    findings.push(SkillFinding::remark(
                        "its header is not valid YAML; put texts with a colon in quotes",
                    ));
                }
            }
        }
        if document.body.is_empty() {
            findings.push(SkillFinding::remark("it says nothing below its header"));
        }
        findings.extend(self.files_to_mend());
        findings.sort_by_key(|finding| !finding.is_error);
        findings
    }

    fn files_to_mend(&self) -> Vec<SkillFinding> {
        let mut findings = Vec::new();
        for (path, file) in self.files() {
            if path == SKILL_FILE && file.bytes.len() as u64 > FILE_LIMIT {
                findings.push(SkillFinding::error(format!(
                    "its {SKILL_FILE} has more than {FILE_LIMIT} bytes"
                )));
            }
            if path == SKILL_FILE && std::str::from_utf8(&file.bytes).is_err() {
                findings.push(SkillFinding::remark(format!(
                    "its {SKILL_FILE} is not UTF-8"
                )));
            }
        }
        let at_top = self
            .files()
            .keys()
            .map(|path| path.split('/').next().unwrap_or_default());
        let mut strays: Vec<&str> = at_top.filter(|name| !is_expected(name)).collect();
        strays.dedup();
        if !strays.is_empty() {
            let what = format!("unexpected next to its {SKILL_FILE}: {}", strays.join(", "));
            findings.push(SkillFinding::remark(what));
        }
        findings
    }
}

impl Skills {
    /// Checks a skill of the workspace or of a library, including whether it has changed since it
    /// was installed. Returns nothing for a built-in one.
    ///
    /// # Errors
    /// Returns [`SkillsError::Unknown`] if there is no such skill, and [`SkillsError::Lock`] if the
    /// list of installed skills cannot be parsed.
    pub fn check(&self, name: &str) -> Result<Vec<SkillFinding>, SkillsError> {
        let survey = self.scan();
        let found = survey.into_iter().find(|found| found.name == name);
        self.check_found(&found.ok_or_else(|| SkillsError::Unknown {
            name: name.to_owned(),
        })?)
    }

    /// Checks a skill that [`Skills::scan`] found.
    ///
    /// # Errors
    /// Returns [`SkillsError::Lock`] if the list of installed skills cannot be parsed.
    pub fn check_found(&self, found: &SkillEntry) -> Result<Vec<SkillFinding>, SkillsError> {
        let mut findings = match &found.status {
            SkillStatus::Refused(why) => vec![SkillFinding::error(why.clone())],
            _ if found.origin == SkillOrigin::BuiltIn => return Ok(Vec::new()),
            _ => Vec::new(),
        };
        LockFile::read(&self.settings().workspace)?;
        let Some(folder) = found.location.parent() else {
            return Ok(findings);
        };
        if findings.is_empty() {
            match Package::read_folder(folder) {
                Ok(package) => {
                    findings.extend(package.findings());
                    if package.name() != package.folder() {
                        let what = format!(
                            "its header says `{}`; the folder's name is used",
                            package.name()
                        );
                        findings.push(SkillFinding::remark(what));
                    }
                    if self.has_changed(found) {
                        findings.push(SkillFinding::remark("changed since it was installed"));
                    }
                    findings.extend(found.missing_consent_remark().map(SkillFinding::remark));
                }
                Err(error) => findings.push(SkillFinding::error(error.to_string())),
            }
        }
        Ok(findings)
    }
}

/// `true` if the description is an unfilled `TODO` of the template.
fn is_to_do(description: &str) -> bool {
    let upper = description
        .trim_start_matches(['[', '<', '(', ' '])
        .to_uppercase();
    upper
        .strip_prefix("TODO")
        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn is_expected(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    name == SKILL_FILE
        || FOLDERS.contains(&name)
        || ["LICENSE", "LICENCE", "NOTICE"].contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<(bool, String)> {
        let mut package = Package::new(std::path::PathBuf::new(), "folder".to_owned());
        for (path, text) in files {
            package
                .add((*path).to_owned(), text.as_bytes().to_vec(), false)
                .unwrap();
        }
        package
            .findings()
            .into_iter()
            .map(|finding| (finding.is_error, finding.what))
            .collect()
    }

    #[test]
    fn reports_problems_of_a_skill() {
        let good = "---\nname: good-1\ndescription: Does good.\n---\nBody.";
        assert_eq!(
            findings(&[
                ("SKILL.md", good),
                ("scripts/a.py", ""),
                ("LICENSE.txt", "")
            ]),
            []
        );
        let table = [
            (
                "---\nname: Bad Name\ndescription: x\n---\nBody.",
                true,
                "the name `Bad Name`",
            ),
            ("Just text.", true, "no complete header"),
            ("---\nname: [x\n---\nBody.", true, "no YAML"),
            ("---\nname: x\n---\nBody.", true, "does not say yet"),
            (
                "---\nname: x\ndescription: '[TODO: say it]'\n---\nBody.",
                true,
                "does not say yet",
            ),
            (
                "---\nname: x\ndescription: Todoist tasks\n---\n",
                false,
                "says nothing",
            ),
            ("---\ndescription: x\n---\nBody.", false, "no name"),
            (
                "---\nname: x\ndescription: when: so\n---\nBody.",
                false,
                "in quotes",
            ),
        ];
        for (text, is_error, part) in table {
            let found = findings(&[("SKILL.md", text)]);
            assert!(
                found.len() == 1 && found[0].0 == is_error && found[0].1.contains(part),
                "{text:?}: {found:?}"
            );
        }
        let strays = findings(&[
            ("SKILL.md", good),
            ("notes.txt", ""),
            ("src/a", ""),
            ("src/b", ""),
        ]);
        assert_eq!(
            strays,
            [(
                false,
                "unexpected next to its SKILL.md: notes.txt, src".to_owned()
            )]
        );
    }
}
