//! Splits texts and queries into search terms.
//!
//! Decision: scripts that are written without spaces become overlapping pairs of characters, so
//! that two characters are a word that can be found and longer ones are phrases. The last character
//! of a run is repeated alone after its pairs, so that each single character is found as the
//! beginning of a pair or as itself. Everything else is words, found by prefix. There is no
//! stemming: the rules of one language harm all others.

/// Maximum number of terms in a query.
const MAX_TERMS: usize = 16;

/// A run of text that is indexed in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermRun<'a> {
    Word(&'a str),
    Pairs(&'a str),
}

/// Returns the text as it is indexed: words and pairs, separated by spaces.
pub(crate) fn indexed(text: &str) -> String {
    let mut indexed = String::with_capacity(text.len() + text.len() / 2);
    for run in runs(text) {
        match run {
            TermRun::Word(word) => push(&mut indexed, word),
            TermRun::Pairs(run) => pairs(run, |pair| push(&mut indexed, pair)),
        }
    }
    indexed
}

fn push(text: &mut String, word: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

/// Calls `each` with the pairs of a run and then with its last character.
fn pairs<'a>(run: &'a str, mut each: impl FnMut(&'a str)) {
    let starts: Vec<usize> = run.char_indices().map(|(start, _)| start).collect();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 2).copied().unwrap_or(run.len());
        each(run.get(*start..end).unwrap_or_default());
    }
}

/// A search term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// FTS5 query expression.
    pub(crate) expression: String,
    /// The expression for the word alone, if [`Self::expression`] is a prefix query.
    pub(crate) exact: Option<String>,
    /// The term in lower case, for excerpts.
    pub(crate) text: String,
}

impl Term {
    /// Creates a prefix query. Quoting disables operators; the text contains no quotes.
    fn beginning(text: &str) -> Self {
        let exact = format!("\"{text}\"");
        Self {
            expression: format!("{exact}*"),
            exact: Some(exact),
            text: text.to_lowercase(),
        }
    }

    /// Creates a query for a word, or for several in sequence.
    fn phrase(words: &str, text: &str) -> Self {
        Self {
            expression: format!("\"{words}\""),
            exact: None,
            text: text.to_lowercase(),
        }
    }
}

/// Returns the distinct terms of a query; none if it has no words.
pub(crate) fn query_terms(query: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for run in runs(query) {
        let term = match run {
            // One or two letters are the prefix of too many words.
            TermRun::Word(word) if word.chars().nth(2).is_none() => Term::phrase(word, word),
            TermRun::Word(word) => Term::beginning(word),
            TermRun::Pairs(run) if run.chars().nth(1).is_none() => Term::beginning(run),
            TermRun::Pairs(run) => {
                let mut phrase = Vec::new();
                pairs(run, |pair| phrase.push(pair));
                // The last character is indexed alone only at the end of a run, so it is not part
                // of the phrase.
                phrase.pop();
                Term::phrase(&phrase.join(" "), run)
            }
        };
        if terms.len() < MAX_TERMS && !terms.contains(&term) {
            terms.push(term);
        }
    }
    terms
}

fn runs(text: &str) -> impl Iterator<Item = TermRun<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(|character: char| character.is_alphanumeric())?;
        let found = rest.get(start..)?;
        let is_paired = found.chars().next().is_some_and(is_unspaced);
        let belongs =
            |character: char| character.is_alphanumeric() && is_unspaced(character) == is_paired;
        let end = found
            .find(|character| !belongs(character))
            .unwrap_or(found.len());
        let (run, behind) = found.split_at_checked(end)?;
        rest = behind;
        Some(if is_paired {
            TermRun::Pairs(run)
        } else {
            TermRun::Word(run)
        })
    })
}

/// Returns `true` for Han, kana, bopomofo and Hangul, whose words have no spaces around them, or
/// have endings without one.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_indexed_as_words_and_bigrams() {
        for (text, expected) in [
            ("", ""),
            ("Hello, wörld! gpt-4o", "Hello wörld gpt 4o"),
            ("我住在北京。", "我住 住在 在北 北京 京"),
            ("茶", "茶"),
            ("用Rust写", "用 Rust 写"),
            ("東京タワー", "東京 京タ タワ ワー ー"),
            ("학교에서", "학교 교에 에서 서"),
            ("𠀀𠀁", "𠀀𠀁 𠀁"),
            ("\"*^:( OR", "OR"),
        ] {
            assert_eq!(indexed(text), expected, "{text}");
        }
    }

    #[test]
    fn queries_become_prefixes_and_phrases() {
        for (query, expected) in [
            ("deploy THE deploy", vec!["\"deploy\"*", "\"THE\"*"]),
            ("北京", vec!["\"北京\""]),
            ("茶", vec!["\"茶\"*"]),
            ("北京烤鸭 duck", vec!["\"北京 京烤 烤鸭\"", "\"duck\"*"]),
            ("\"x\" OR NEAR(", vec!["\"x\"", "\"OR\"", "\"NEAR\"*"]),
            ("!? 🦆", vec![]),
        ] {
            let expressions: Vec<String> = query_terms(query)
                .into_iter()
                .map(|term| term.expression)
                .collect();
            assert_eq!(expressions, expected, "{query}");
        }
        let many = (0..100)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(query_terms(&many).len(), MAX_TERMS);
    }
}
