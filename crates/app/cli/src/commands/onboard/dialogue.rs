//! Questions of the setup conversation, and choices from lists.

use std::io;

use crate::failure::CommandFailure;

/// Maximum number of entries of a list that are shown at once.
const SHOWN: usize = 9;

/// Asks the user and shows text.
pub(super) trait Dialogue {
    /// Asks for a line; `None` at the end of the input.
    async fn ask(&mut self, question: &str) -> io::Result<Option<String>>;

    /// Asks for a line that is not echoed; `None` at the end of the input.
    async fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>>;

    /// Shows a line.
    fn say(&mut self, text: &str) -> io::Result<()>;
}

/// Reason why a conversation ended early. Nothing has been written.
#[derive(Debug)]
pub(super) enum Interruption {
    /// The user ended the input.
    Ended,
    /// A question could not be asked, or something else failed.
    Failed(CommandFailure),
}

impl From<io::Error> for Interruption {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The name that can be typed.
    pub(super) name: String,
    /// The text in the list.
    pub(super) label: String,
}

impl Entry {
    /// Creates an entry that is shown by its name.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: name.to_owned(),
        }
    }
}

/// A choice from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Nothing was typed.
    Skipped,
    /// The entry at this index.
    Entry(usize),
    /// Text that is not in the list.
    Other(String),
}

/// Asks for a line; `None` if it is empty.
pub(super) async fn line(
    talk: &mut impl Dialogue,
    question: &str,
) -> Result<Option<String>, Interruption> {
    let answer = talk.ask(question).await?.ok_or(Interruption::Ended)?;
    let answer = answer.trim();
    Ok((!answer.is_empty()).then(|| answer.to_owned()))
}

/// Asks for a line that is not echoed; `None` if it is empty.
pub(super) async fn secret(
    talk: &mut impl Dialogue,
    question: &str,
) -> Result<Option<String>, Interruption> {
    let answer = talk
        .ask_secret(question)
        .await?
        .ok_or(Interruption::Ended)?;
    let answer = answer.trim();
    Ok((!answer.is_empty()).then(|| answer.to_owned()))
}

/// Asks a question of yes or no; `None` if nothing was typed.
pub(super) async fn yes(
    talk: &mut impl Dialogue,
    question: &str,
) -> Result<Option<bool>, Interruption> {
    let answer = line(talk, question).await?;
    Ok(answer.map(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")))
}

/// Shows the beginning of a list and asks for a number, a name or a part of one until the answer is
/// clear. With `accepts_other`, text that is not in the list is accepted after a confirmation.
pub(super) async fn choose(
    talk: &mut impl Dialogue,
    entries: &[Entry],
    enter: &str,
    accepts_other: bool,
) -> Result<Choice, Interruption> {
    let mut shown: Vec<usize> = (0..entries.len()).collect();
    loop {
        show(talk, entries, &shown)?;
        let prompt = match entries.is_empty() {
            true => format!("Its name ({enter}): "),
            false => format!("Number or name ({enter}): "),
        };
        let Some(answer) = line(talk, &prompt).await? else {
            return Ok(Choice::Skipped);
        };
        let visible = shown.get(..SHOWN).unwrap_or(&shown);
        match find(entries, visible, &answer).as_slice() {
            [one] => return Ok(Choice::Entry(*one)),
            [] if entries.is_empty() => return Ok(Choice::Other(answer)),
            [] if accepts_other => {
                let question = format!("{answer} is not in the list. Use it? [y/N] ");
                if yes(talk, &question).await? == Some(true) {
                    return Ok(Choice::Other(answer));
                }
            }
            [] => talk.say(&format!("Nothing is called {answer}."))?,
            several => shown = several.to_vec(),
        }
    }
}

fn show(talk: &mut impl Dialogue, entries: &[Entry], shown: &[usize]) -> io::Result<()> {
    for (number, entry) in shown
        .iter()
        .filter_map(|index| entries.get(*index))
        .take(SHOWN)
        .enumerate()
    {
        talk.say(&format!("  {}. {}", number + 1, entry.label))?;
    }
    if shown.len() > SHOWN {
        let more = shown.len() - SHOWN;
        talk.say(&format!("  … {more} more: type a part of the name"))?;
    }
    Ok(())
}

/// Returns the entries that an answer may mean: the one with this number among the visible ones,
/// the one of this name, or all that contain the text.
fn find(entries: &[Entry], visible: &[usize], answer: &str) -> Vec<usize> {
    if let Ok(number) = answer.parse::<usize>() {
        let index = number.checked_sub(1).and_then(|index| visible.get(index));
        if let Some(index) = index {
            return vec![*index];
        }
    }
    let wanted = answer.to_lowercase();
    let is_same =
        |entry: &Entry| entry.name.to_lowercase() == wanted || entry.label.to_lowercase() == wanted;
    if let Some(index) = entries.iter().position(is_same) {
        return vec![index];
    }
    let is_part = |entry: &Entry| {
        entry.name.to_lowercase().contains(&wanted) || entry.label.to_lowercase().contains(&wanted)
    };
    (0..entries.len())
        .filter(|index| entries.get(*index).is_some_and(is_part))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_numbers_names_or_parts() {
        let entries = ["gpt-4.1", "gpt-4.1-mini", "gpt-5", "o3"].map(Entry::named);
        let table: &[(&str, &[usize])] = &[
            ("1", &[2]),
            ("2", &[3]),
            ("GPT-4.1", &[0]),
            ("mini", &[1]),
            ("gpt", &[0, 1, 2]),
            ("9", &[]),
            ("claude", &[]),
        ];
        for (answer, expected) in table {
            assert_eq!(find(&entries, &[2, 3], answer), *expected, "{answer}");
        }
    }
}
