//! What a reader of Discord and of Slack sees: every character with its looks.
//!
//! Discord's own rules are regular expressions that are tried at every character, of which the
//! longest match counts; Slack lets a mark count only beside white space or punctuation. Both are
//! written here from that, and know nothing of the renderers.

pub(super) const BOLD: u8 = 1;
pub(super) const ITALIC: u8 = 2;
pub(super) const STRIKE: u8 = 4;
pub(super) const CODE: u8 = 8;
pub(super) const LINK: u8 = 16;

/// Characters with their looks, without white space of any kind.
pub(super) type Seen = Vec<(char, u8)>;

pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{200b}'
}

/// Reads line by line; `line` reads one that is no code, `code` one that is.
fn read(
    text: &str,
    headings: bool,
    line: fn(&[char], u8, &mut Seen),
    code: fn(&str) -> String,
) -> Seen {
    let mut seen = Seen::new();
    let mut within = false;
    for written in text.split('\n') {
        if written.starts_with("```") {
            within = !within;
            continue;
        }
        if within {
            seen.extend(code(written).chars().map(|c| (c, CODE)));
            continue;
        }
        let mut rest = written.strip_prefix("> ").unwrap_or(written);
        let mut looks = 0;
        if headings {
            for heading in ["# ", "## ", "### "] {
                if let Some(behind) = rest.strip_prefix(heading) {
                    (rest, looks) = (behind, BOLD);
                }
            }
        }
        line(&rest.chars().collect::<Vec<_>>(), looks, &mut seen);
    }
    assert!(!within, "a fence is open: {text:?}");
    seen
}

pub(super) fn discord(text: &str) -> Seen {
    let mut seen = read(text, true, discord_line, str::to_owned);
    seen.retain(|(c, _)| !is_blank(*c));
    seen
}

fn starts(text: &[char], with: &str) -> bool {
    with.chars()
        .enumerate()
        .all(|(at, c)| text.get(at) == Some(&c))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The length of the content between two marks; `step` says how much of the rest is one piece of it.
fn between(
    text: &[char],
    mark: &str,
    step: impl Fn(&[char]) -> Option<usize>,
    closes: impl Fn(Option<char>) -> bool,
) -> Option<usize> {
    let mut at = mark.len();
    if !starts(text, mark) {
        return None;
    }
    while at < text.len() {
        let is_close = at > mark.len()
            && starts(&text[at..], mark)
            && closes(text.get(at + mark.len()).copied());
        if is_close {
            return Some(at - mark.len());
        }
        at += step(&text[at..])?;
    }
    None
}

fn escaped(text: &[char]) -> Option<usize> {
    (text[0] == '\\').then_some(2)
}

fn discord_line(text: &[char], looks: u8, seen: &mut Seen) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let any = |rest: &[char]| escaped(rest).or(Some(1));
        let mut matches: Vec<(usize, usize, u8)> = Vec::new();
        if let Some(length) = between(rest, "**", any, |next| next != Some('*')) {
            matches.push((2, length, BOLD));
        }
        let in_star = |rest: &[char]| match rest {
            ['*', '*', ..] => Some(2),
            ['*', ..] => None,
            [c, next, ..] if c.is_whitespace() && *next == '*' && !starts(&rest[1..], "**") => None,
            rest => escaped(rest).or(Some(1)),
        };
        if rest[0] == '*'
            && rest.get(1).is_some_and(|c| !c.is_whitespace())
            && let Some(length) = between(rest, "*", in_star, |next| next != Some('*'))
        {
            matches.push((1, length, ITALIC));
        }
        let in_line = |rest: &[char]| match rest {
            ['_', '_', ..] => Some(2),
            ['_', ..] => None,
            rest => escaped(rest).or(Some(1)),
        };
        if rest[0] == '_'
            && let Some(length) = between(rest, "_", in_line, |next| !next.is_some_and(is_word))
        {
            matches.push((1, length, ITALIC));
        }
        if let Some(length) = between(rest, "~~", |_| Some(1), |next| next != Some('_')) {
            matches.push((2, length, STRIKE));
        }
        for (mark, what) in [("__", "an underline"), ("||", "a spoiler")] {
            assert!(
                between(rest, mark, any, |_| true).is_none(),
                "{what}: {text:?}"
            );
        }
        if rest[0] == '\\'
            && rest
                .get(1)
                .is_some_and(|c| !c.is_ascii_alphanumeric() && !c.is_whitespace())
        {
            seen.push((rest[1], looks));
            at += 2;
        } else if let Some(length) = discord_code(rest) {
            let marks = rest.iter().take_while(|c| **c == '`').count();
            seen.extend(
                rest[marks..length - marks]
                    .iter()
                    .map(|c| (*c, looks | CODE)),
            );
            at += length;
        } else if let Some((words, length)) = discord_link(rest) {
            discord_line(&rest[1..=words], looks | LINK, seen);
            at += length;
        } else if let Some(length) = discord_token(rest) {
            seen.extend(
                rest[..length]
                    .iter()
                    .filter(|c| rest[1] != 'h' || !"<>".contains(**c))
                    .map(|c| (*c, looks)),
            );
            at += length;
        } else if starts(rest, "http://") || starts(rest, "https://") {
            let length = rest
                .iter()
                .take_while(|c| !c.is_whitespace() && **c != '<')
                .count();
            let kept = rest[..length]
                .iter()
                .rposition(|c| !"<.,:;\"']".contains(*c))
                .map_or(length, |last| last + 1);
            seen.extend(rest[..kept].iter().map(|c| (*c, looks)));
            at += kept;
        } else if let Some((mark, length, look)) = matches
            .into_iter()
            .max_by_key(|found| found.1 + 2 * found.0)
        {
            discord_line(&rest[mark..mark + length], looks | look, seen);
            at += 2 * mark + length;
        } else {
            seen.push((rest[0], looks));
            at += 1;
        }
    }
}

/// The length of something between angle brackets that means something.
fn discord_token(text: &[char]) -> Option<usize> {
    let length = text
        .iter()
        .position(|c| *c == '>')
        .filter(|_| text[0] == '<')?
        + 1;
    let means = ["<@", "<#", "<:", "<a:", "<t:", "<http"]
        .iter()
        .any(|start| starts(text, start));
    (means && !text[..length].iter().any(|c| c.is_whitespace())).then_some(length)
}

fn discord_code(text: &[char]) -> Option<usize> {
    let marks = text.iter().take_while(|c| **c == '`').count();
    let mut at = marks;
    while marks > 0 && at < text.len() {
        let run = text[at..].iter().take_while(|c| **c == '`').count();
        if run == marks && at > marks {
            return Some(at + marks);
        }
        at += run.max(1);
    }
    None
}

/// Where the words of a link end, and the link.
fn discord_link(text: &[char]) -> Option<(usize, usize)> {
    let words = text
        .iter()
        .position(|c| *c == ']')
        .filter(|_| text[0] == '[')?;
    let behind = &text[words + 1..];
    let end = behind
        .iter()
        .position(|c| *c == ')')
        .filter(|_| starts(behind, "(<"))?;
    assert_eq!(behind[end - 1], '>', "{text:?}");
    Some((words - 1, words + 2 + end))
}

pub(super) fn slack(text: &str) -> Seen {
    let mut seen = read(text, false, slack_line, resolved);
    seen.retain(|(c, _)| !is_blank(*c));
    seen
}

/// Slack's three entities; the last has to be the one that the others begin with.
fn resolved(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// A character of a line, which may be a mark unless it is exact.
#[derive(Clone, Copy)]
struct Letter {
    c: char,
    looks: u8,
    exact: bool,
}

fn slack_line(text: &[char], _looks: u8, seen: &mut Seen) {
    let mut letters: Vec<Letter> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest: String = text[at..].iter().collect();
        let entity = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')]
            .into_iter()
            .find(|(name, _)| rest.starts_with(name));
        if let Some((name, c)) = entity {
            letters.push(Letter {
                c,
                looks: 0,
                exact: true,
            });
            at += name.len();
        } else if text[at] == '<' {
            let end = text[at..]
                .iter()
                .position(|c| *c == '>')
                .expect("a link ends");
            let inner: String = text[at + 1..at + end].iter().collect();
            let (words, looks) = match inner.split_once('|') {
                Some((_, words)) => (words.to_owned(), LINK),
                None if inner.starts_with(['@', '#']) => (format!("<{inner}>"), 0),
                None => (inner, 0),
            };
            let words = resolved(&words);
            letters.extend(words.chars().map(|c| Letter {
                c,
                looks,
                exact: true,
            }));
            at += end + 1;
        } else {
            assert!(!matches!(text[at], '>' | '&'), "{text:?}");
            letters.push(Letter {
                c: text[at],
                looks: 0,
                exact: false,
            });
            at += 1;
        }
    }
    let letters = without_code_marks(&letters);
    slack_marks(&letters, 0..letters.len(), 0, seen);
}

/// Whether a mark counts beside it.
fn bounds(letter: Option<&Letter>) -> bool {
    letter.is_none_or(|letter| {
        is_blank(letter.c) || letter.c.is_ascii_punctuation() || letter.looks & (LINK | CODE) != 0
    })
}

/// Where the mark at `at` is closed before `end`, if it is one.
fn closing(line: &[Letter], at: usize, end: usize) -> Option<usize> {
    let opens = bounds(at.checked_sub(1).and_then(|before| line.get(before)))
        && line.get(at + 1).is_some_and(|next| !is_blank(next.c));
    (at + 2..end).filter(|_| opens).find(|close| {
        let there = line[*close];
        !there.exact
            && there.c == line[at].c
            && !is_blank(line[close - 1].c)
            && bounds(line.get(close + 1))
    })
}

/// Code comes first: no mark in it counts.
fn without_code_marks(line: &[Letter]) -> Vec<Letter> {
    let mut letters = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let is_mark = line[at].c == '`' && !line[at].exact;
        match closing(line, at, line.len()).filter(|_| is_mark) {
            Some(close) => {
                let code = line[at + 1..close].iter();
                letters.extend(code.map(|letter| Letter {
                    looks: letter.looks | CODE,
                    exact: true,
                    ..*letter
                }));
                at = close + 1;
            }
            None => {
                letters.push(line[at]);
                at += 1;
            }
        }
    }
    letters
}

fn slack_marks(line: &[Letter], range: std::ops::Range<usize>, looks: u8, seen: &mut Seen) {
    let mut at = range.start;
    while at < range.end {
        let letter = line[at];
        let look = match letter.c {
            '*' => BOLD,
            '_' => ITALIC,
            '~' => STRIKE,
            _ => 0,
        };
        let close = closing(line, at, range.end).filter(|_| look != 0 && !letter.exact);
        if let Some(close) = close {
            slack_marks(line, at + 1..close, looks | look, seen);
            at = close + 1;
        } else {
            seen.push((letter.c, looks | letter.looks));
            at += 1;
        }
    }
}
