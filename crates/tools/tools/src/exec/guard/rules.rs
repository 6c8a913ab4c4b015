//! The rules for single programs: those that are never run, and the effects of others.
//!
//! `rules.toml` has them with examples, which are checked when the rules are loaded, before the first
//! command. With rules that break an example, no command is run.
//!
//! Decision: case folding, word characters and white space are ASCII only, like programs and their
//! options. Unicode tables would take more space than everything else here.

use std::{collections::BTreeMap, sync::LazyLock};

use regex_lite::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Argument, effect};
use crate::exec::shell;

static LOADED: LazyLock<Result<Rules, String>> =
    LazyLock::new(|| Rules::load(include_str!("rules.toml")));

/// Programs that are never run.
pub(super) struct Rules {
    refusals: Vec<(Refusal, Regex)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    refusal: Vec<Refusal>,
    /// Commands with their effects, separated by commas.
    effects: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    programs: Vec<String>,
    #[serde(default)]
    arguments: String,
    reason: String,
    /// Examples that it refuses.
    refused: Vec<String>,
    /// Examples that it does not refuse.
    #[serde(default)]
    passed: Vec<String>,
}

impl Rules {
    /// Returns the built-in rules.
    ///
    /// # Errors
    ///
    /// The example that the rules break, with what was found instead.
    pub(super) fn built_in() -> Result<&'static Self, &'static str> {
        LOADED.as_ref().map_err(String::as_str)
    }

    /// Returns the reason why the program `name` is not run with these arguments.
    pub(super) fn refusal(&self, name: &str, arguments: &[Argument]) -> Option<&str> {
        let line = effect::line(arguments);
        let mut refusals = self.refusals.iter();
        refusals
            .find(|(refusal, pattern)| refusal.is_about(name) && pattern.is_match(&line))
            .map(|(refusal, _)| refusal.reason.as_str())
    }

    fn load(text: &str) -> Result<Self, String> {
        let file: RuleFile = basic_toml::from_str(text).map_err(|error| error.to_string())?;
        let compiled = file.refusal.into_iter().map(|refusal| {
            let pattern = ignoring_case(&refusal.arguments).map_err(|error| error.to_string())?;
            Ok::<_, String>((refusal, pattern))
        });
        let refusals = compiled.collect::<Result<_, _>>()?;
        let rules = Self { refusals };
        for (refusal, _) in &rules.refusals {
            let refused = refusal.refused.iter().map(|e| (e, Some(&*refusal.reason)));
            for (example, expected) in refused.chain(refusal.passed.iter().map(|e| (e, None))) {
                let (name, arguments) = words(example);
                let found = rules.refusal(&name, &arguments);
                if found != expected {
                    return Err(format!("{example}: {found:?} instead of {expected:?}"));
                }
            }
        }
        for (example, expected) in &file.effects {
            let (name, arguments) = words(example);
            let found = effect::of(&name, &arguments);
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            if found.join(", ") != *expected {
                return Err(format!("{example}: {found:?} instead of '{expected}'"));
            }
        }
        Ok(rules)
    }
}

impl Refusal {
    fn is_about(&self, name: &str) -> bool {
        let mut programs = self.programs.iter();
        programs.any(|program| {
            program == name || program.ends_with('.') && name.starts_with(program.as_str())
        })
    }
}

/// Compiles a pattern that ignores the case of letters.
pub(super) fn ignoring_case(pattern: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).build()
}

/// Returns the program and the arguments of an example.
fn words(example: &str) -> (String, Vec<Argument>) {
    let script = shell::parse(example).unwrap_or_default();
    let stages = script.stages.iter().flat_map(|stage| &stage.words);
    let mut words = stages.map(|word| Argument::literal(word.written()));
    let program = words.next().map(|word| word.program());
    (program.unwrap_or_default(), words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_do_what_their_examples_say() {
        assert_eq!(Rules::built_in().err(), None);
    }

    #[test]
    fn rules_that_break_an_example_are_not_loaded() {
        let rule = "[[refusal]]\nprograms = ['kill']\narguments = '-9'\nreason = 'harm'\n";
        for (rest, expected) in [
            (
                "refused = ['kill -15 1']\n[effects]\n",
                "kill -15 1: None instead of Some(\"harm\")",
            ),
            (
                "refused = []\npassed = ['kill -9 1']\n[effects]\n",
                "kill -9 1: Some(\"harm\") instead of None",
            ),
            (
                "refused = []\n[effects]\n\"rm a\" = \"\"\n",
                "rm a: [\"removes a\"] instead of ''",
            ),
        ] {
            let loaded = Rules::load(&format!("{rule}{rest}"));
            assert_eq!(loaded.err().as_deref(), Some(expected));
        }
    }
}
