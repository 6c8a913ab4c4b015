//! Records the messages and checks that each was answered as it should be.

use std::collections::{BTreeMap, BTreeSet};

use nanobot_chat_fakes::Place;
use serde_json::Value;

use super::world::World;

/// Prefix of every answer of the model.
pub(super) const DONE: &str = nanobot_chat_fakes::ANSWER_PREFIX;

/// The tokens that need an answer, and those that must not have one.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Tokens by chat, in the order in which the messages were delivered.
    said: BTreeMap<Place, Vec<String>>,
    /// Tokens of reminders, which arrive in any order.
    reminders: BTreeMap<Place, Vec<String>>,
    /// Tokens of messages that are not for the assistant.
    ignored: BTreeSet<String>,
}

impl Judge {
    pub(super) fn said(&mut self, place: Place, token: String) {
        self.said.entry(place).or_default().push(token);
    }

    pub(super) fn reminder(&mut self, place: Place, token: String) {
        self.reminders.entry(place).or_default().push(token);
    }

    /// Returns the text of a message that is not for the assistant.
    pub(super) fn noise(&mut self) -> String {
        let token = format!("n-{:04}", self.ignored.len() + 1);
        let text = format!("between us: {token}");
        self.ignored.insert(token);
        text
    }

    /// Returns the tokens without an answer, in the chats that `is_meant` selects.
    pub(super) fn unanswered(
        &self,
        world: &World,
        uncertain: &BTreeSet<String>,
        is_meant: impl Fn(Place) -> bool,
        with_reminders: bool,
    ) -> Vec<String> {
        let reminders = self.reminders.iter().filter(|_| with_reminders);
        let wanted = self
            .said
            .iter()
            .chain(reminders)
            .filter(|(place, _)| is_meant(**place));
        let open = wanted.flat_map(|(place, tokens)| {
            let answered: BTreeSet<String> = answers(world, *place).into_iter().flatten().collect();
            tokens
                .iter()
                .filter(move |token| !answered.contains(*token))
                .cloned()
                .collect::<Vec<_>>()
        });
        open.filter(|token| !uncertain.contains(token)).collect()
    }

    /// Judges the whole day.
    pub(super) fn verdict(&self, world: &World, ledger: &[Value]) {
        let uncertain = uncertain_tokens(ledger);
        let mut problems = Vec::new();
        for place in world.places() {
            let answers = answers(world, place);
            let answered: Vec<String> = answers.into_iter().flatten().collect();
            let said = self.said.get(&place).cloned().unwrap_or_default();
            let reminders = self.reminders.get(&place).cloned().unwrap_or_default();
            for token in said.iter().chain(&reminders) {
                let count = answered
                    .iter()
                    .filter(|answered| *answered == token)
                    .count();
                if count > 1 || (count == 0 && !uncertain.contains(token)) {
                    problems.push(format!("{place:?}: {token} was answered {count} times"));
                }
            }
            let of_people: Vec<&String> = answered
                .iter()
                .filter(|token| !reminders.contains(token))
                .collect();
            if let Some(stray) = of_people.iter().find(|token| !said.contains(token)) {
                problems.push(format!(
                    "{place:?}: {stray} was answered in the wrong chat, or at all"
                ));
            }
            let expected: Vec<&String> = said
                .iter()
                .filter(|token| of_people.contains(token))
                .collect();
            if place.is_one_conversation && expected != of_people {
                problems.push(format!(
                    "{place:?}: answered in the order {of_people:?} instead of {expected:?}"
                ));
            }
        }
        let everything = world
            .places()
            .into_iter()
            .flat_map(|place| world.shown(place))
            .collect::<Vec<_>>()
            .join("\n");
        problems.extend(
            self.ignored
                .iter()
                .filter(|token| everything.contains(*token))
                .cloned(),
        );
        problems.extend(
            ledger
                .iter()
                .filter(|entry| is_lost(entry))
                .map(|entry| format!("in the inbox: {entry}")),
        );
        problems.extend(world.violations());
        println!(
            "{} answers expected, uncertain: {uncertain:?}",
            self.said.values().map(Vec::len).sum::<usize>()
        );
        assert!(
            problems.is_empty(),
            "{}\nuncertain: {uncertain:?}",
            problems.join("\n")
        );
    }
}

/// `true` if an entry is neither settled well nor visibly uncertain.
fn is_lost(entry: &Value) -> bool {
    !matches!(
        entry["state"].as_str(),
        Some("answered" | "sent" | "uncertain")
    )
}

/// Returns the tokens of uncertain messages.
pub(super) fn uncertain_tokens(ledger: &[Value]) -> BTreeSet<String> {
    let uncertain = ledger.iter().filter(|entry| entry["state"] == "uncertain");
    uncertain
        .flat_map(|entry| tokens(entry["outbound"]["content"].as_str().unwrap_or_default()))
        .collect()
}

/// Returns the tokens of each answer in a chat, in order.
fn answers(world: &World, place: Place) -> Vec<Vec<String>> {
    let shown = world.shown(place);
    shown
        .iter()
        .filter(|text| text.starts_with(DONE))
        .map(|text| tokens(text))
        .collect()
}

/// Returns all tokens in a text: a letter, a minus and digits.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let is_token = |word: &&str| {
        word.split_once('-').is_some_and(|(kind, number)| {
            matches!(kind, "q" | "r" | "n")
                && number.len() == 4
                && number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    words.filter(is_token).map(str::to_owned).collect()
}
