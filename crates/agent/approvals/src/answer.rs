//! Reads a message as the answer to a question.

use super::question::OpenQuestion;

/// An answer of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call may run.
    Once,
    /// This call may run, and later ones of the same rule.
    Always,
    /// The call must not run.
    No,
}

/// Meaning of a message while a question is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It answers the question.
    Answers(Answer),
    /// It is the button of another question.
    Stale,
    /// It is something else: a refusal, and a message to be handled as usual.
    Instead,
}

const YES: [&str; 12] = [
    "yes", "y", "ok", "okay", "approve", "allow", "once", "是", "好", "好的", "可以", "同意",
];
const ALWAYS: [&str; 5] = ["always", "a", "总是", "始终", "一直"];
const NO: [&str; 10] = [
    "no", "n", "deny", "stop", "cancel", "否", "不", "不行", "不要", "拒绝",
];

/// Reads the text of a message. A button adds the code of its question to the word; a typed word
/// needs no code.
pub(crate) fn read(text: &str, question: &OpenQuestion) -> Reply {
    let text = text.trim();
    let (word, code) = match text.split_once(char::is_whitespace) {
        Some((word, code)) => (word, Some(code.trim())),
        None => (text, None),
    };
    let word = word.to_lowercase();
    let Some(answer) = answer_of(word.trim_end_matches(['.', '!', '。', '！'])) else {
        return Reply::Instead;
    };
    match code {
        None => Reply::Answers(answer),
        Some(code) if code.eq_ignore_ascii_case(&question.code) => Reply::Answers(answer),
        Some(code) if OpenQuestion::is_code(code) => Reply::Stale,
        Some(_) => Reply::Instead,
    }
}

/// `true` if the text is the button of a question.
pub(crate) fn is_button(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let (word, code, rest) = (words.next(), words.next(), words.next());
    let is_word = word.is_some_and(|word| ["Yes", "Always", "No"].contains(&word));
    is_word && code.is_some_and(OpenQuestion::is_code) && rest.is_none()
}

fn answer_of(word: &str) -> Option<Answer> {
    match word {
        _ if YES.contains(&word) => Some(Answer::Once),
        _ if ALWAYS.contains(&word) => Some(Answer::Always),
        _ if NO.contains(&word) => Some(Answer::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::tests::open_question;

    #[test]
    fn only_whole_words_are_answers() {
        let question = OpenQuestion {
            code: "K7QX".to_owned(),
            ..open_question()
        };
        let table = [
            ("yes", Reply::Answers(Answer::Once)),
            (" Yes! ", Reply::Answers(Answer::Once)),
            ("Yes K7QX", Reply::Answers(Answer::Once)),
            ("yes k7qx", Reply::Answers(Answer::Once)),
            ("好的。", Reply::Answers(Answer::Once)),
            ("always", Reply::Answers(Answer::Always)),
            ("Always K7QX", Reply::Answers(Answer::Always)),
            ("No K7QX", Reply::Answers(Answer::No)),
            ("不要", Reply::Answers(Answer::No)),
            ("Yes AB2C", Reply::Stale),
            ("yes please", Reply::Instead),
            ("yes dear", Reply::Instead),
            ("no, list the files first", Reply::Instead),
            ("yesterday", Reply::Instead),
            ("[forwarded from Ann]\nyes", Reply::Instead),
            ("> yes", Reply::Instead),
            ("", Reply::Instead),
        ];
        for (text, expected) in table {
            assert_eq!(read(text, &question), expected, "{text:?}");
        }
    }

    #[test]
    fn buttons_are_told_from_words() {
        for (text, expected) in [
            ("Yes K7QX", true),
            ("Always K7QX", true),
            ("yes K7QX", false),
            ("Yes", false),
            ("Yes K7QX now", false),
            ("Yes dear", false),
        ] {
            assert_eq!(is_button(text), expected, "{text}");
        }
    }
}
