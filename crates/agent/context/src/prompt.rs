//! A system prompt as an ordered list of sections, the most stable first.
//!
//! Decision: types enforce the order. Only [`FrozenPart`] takes frozen sections, and it is consumed
//! when [`EpochPart`] begins. Neither takes text that changes every turn, which belongs after the
//! newest message. A prefix in a provider's cache therefore breaks only where an epoch ends.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{PromptProfile, identity};

/// Separator between two sections.
const SEPARATOR: &str = "\n\n---\n\n";

/// Time for which a section stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stability {
    /// For the lifetime of a session.
    Frozen,
    /// Until the session's prompt is renewed.
    Epoch,
    /// For one turn. Never in a system prompt: it comes after the newest message.
    Turn,
}

/// One section of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Short name for reports.
    pub name: Cow<'static, str>,
    /// Time for which the section stays unchanged.
    pub stability: Stability,
    /// Content of the section.
    pub text: String,
}

/// Builder for the first part of a prompt, the frozen sections. Empty sections are left out.
///
/// A less stable section cannot come before a more stable one: an [`EpochPart`] does not turn back
/// into a `FrozenPart`.
/// ```compile_fail,E0308
/// use nanobot_context::FrozenPart;
/// let part: FrozenPart = FrozenPart::new().epoch().section("memory", "facts");
/// part.section("identity", "I am");
/// ```
#[derive(Clone, Debug, Default)]
pub struct FrozenPart(Sections);

/// Builder for the second part of a prompt, the sections of an epoch. Empty sections are left out.
#[derive(Clone, Debug)]
pub struct EpochPart(Sections);

#[derive(Clone, Debug, Default)]
struct Sections(Vec<Section>);

impl Sections {
    fn with(mut self, name: &'static str, stability: Stability, text: String) -> Self {
        if !text.is_empty() {
            self.0.push(Section {
                name: Cow::Borrowed(name),
                stability,
                text,
            });
        }
        self
    }
}

impl FrozenPart {
    /// Creates a prompt without sections.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a section that stays for the lifetime of a session.
    #[must_use]
    pub fn section(self, name: &'static str, text: impl Into<String>) -> Self {
        Self(self.0.with(name, Stability::Frozen, text.into()))
    }

    /// Continues with the sections that stay for an epoch.
    #[must_use]
    pub fn epoch(self) -> EpochPart {
        EpochPart(self.0)
    }
}

impl EpochPart {
    /// Adds a section that stays until the session's prompt is renewed.
    #[must_use]
    pub fn section(self, name: &'static str, text: impl Into<String>) -> Self {
        Self(self.0.with(name, Stability::Epoch, text.into()))
    }

    /// Returns the finished prompt.
    #[must_use]
    pub fn finish(self) -> SystemPrompt {
        SystemPrompt::of(self.0.0)
    }
}

/// Position at which two prompts first differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Section of the newer prompt in which they differ; `"end"` if the newer prompt is a prefix of
    /// the older one.
    pub section: String,
    /// Byte offset of the first difference in the whole text.
    pub byte: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SectionSpan {
    name: Cow<'static, str>,
    stability: Stability,
    bytes: usize,
}

/// A system prompt: the same bytes as long as the same value is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPrompt {
    text: Arc<str>,
    spans: Vec<SectionSpan>,
}

impl SystemPrompt {
    /// Joins sections into a prompt.
    pub(crate) fn of(sections: Vec<Section>) -> Self {
        let texts: Vec<&str> = sections
            .iter()
            .map(|section| section.text.as_str())
            .collect();
        let text = texts.join(SEPARATOR).into();
        let spans = sections
            .into_iter()
            .map(|section| SectionSpan {
                name: section.name,
                stability: section.stability,
                bytes: section.text.len(),
            })
            .collect();
        Self { text, spans }
    }

    /// Returns the whole text, as it is sent in a request.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns its profile, which the name of the first section states, so that a stored prompt
    /// has it as well.
    #[must_use]
    pub fn profile(&self) -> PromptProfile {
        match self.spans.first() {
            Some(first) if first.name == identity::LEAN => PromptProfile::Lean,
            _ => PromptProfile::Full,
        }
    }

    /// Returns the sections in order: name, stability and length in bytes.
    pub fn sections(&self) -> impl Iterator<Item = (&str, Stability, usize)> {
        self.spans
            .iter()
            .map(|span| (&*span.name, span.stability, span.bytes))
    }

    /// Returns the sections in order: name and text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut begin = 0;
        self.spans.iter().map(move |span| {
            let text = self.text.get(begin..begin + span.bytes).unwrap_or_default();
            begin += span.bytes + SEPARATOR.len();
            (&*span.name, text)
        })
    }

    /// Returns the sections, from which [`Self::of`] rebuilds an equal prompt.
    pub(crate) fn to_sections(&self) -> Vec<Section> {
        let spans = self.spans.iter().zip(self.texts());
        let section = |(span, (_, text)): (&SectionSpan, (&str, &str))| Section {
            name: span.name.clone(),
            stability: span.stability,
            text: text.to_owned(),
        };
        spans.map(section).collect()
    }

    /// Finds the first difference from an older prompt; `None` if they are equal.
    #[must_use]
    pub fn difference(&self, older: &Self) -> Option<Difference> {
        let (new, old) = (self.text.as_bytes(), older.text.as_bytes());
        let byte = new
            .iter()
            .zip(old)
            .take_while(|(new, old)| new == old)
            .count();
        if byte == new.len() && byte == old.len() {
            return None;
        }
        let mut end = 0;
        let within = self.spans.iter().find(|span| {
            end += span.bytes + SEPARATOR.len();
            byte < end && byte < new.len()
        });
        let section = within.map_or("end", |span| &*span.name).to_owned();
        Some(Difference { section, byte })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(memory: &str) -> SystemPrompt {
        FrozenPart::new()
            .section("identity", "I am")
            .section("bootstrap", "")
            .epoch()
            .section("memory", memory)
            .finish()
    }

    #[test]
    fn joins_sections_and_omits_empty_ones() {
        let prompt = prompt("facts");
        assert_eq!(&**prompt.text(), "I am\n\n---\n\nfacts");
        let sections: Vec<_> = prompt.sections().collect();
        assert_eq!(
            sections,
            [
                ("identity", Stability::Frozen, 4),
                ("memory", Stability::Epoch, 5)
            ]
        );
        assert_eq!(
            prompt.texts().collect::<Vec<_>>(),
            [("identity", "I am"), ("memory", "facts")]
        );
        assert!(Stability::Frozen < Stability::Epoch && Stability::Epoch < Stability::Turn);
    }

    #[test]
    fn difference_names_its_section_and_byte() {
        let at = |section: &str, byte| {
            Some(Difference {
                section: section.to_owned(),
                byte,
            })
        };
        let table = [
            (prompt("facts"), prompt("facts"), None),
            (prompt("facts"), prompt("fakes"), at("memory", 13)),
            (prompt("facts and more"), prompt("facts"), at("memory", 16)),
            (prompt("facts"), prompt("facts and more"), at("end", 16)),
            (
                FrozenPart::new().section("identity", "We").epoch().finish(),
                prompt("facts"),
                at("identity", 0),
            ),
        ];
        for (newer, older, expected) in table {
            assert_eq!(
                newer.difference(&older),
                expected,
                "{:?} after {:?}",
                newer.text(),
                older.text()
            );
        }
    }
}
