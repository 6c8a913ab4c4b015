//! What holds for all text: nothing is lost, every part fits and is whole.

use std::collections::HashMap;

use nanobot_channel::{Dialect, Measure, TextStyle};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::super::document::{Document, Links, Mark, Span};
use super::super::{RenderedPart, discord, lines, render, slack};
use super::{checks, readers};

const DIALECTS: [Dialect; 5] = [
    Dialect::Plain,
    Dialect::TelegramHtml,
    Dialect::Markdown,
    Dialect::Discord,
    Dialect::SlackMrkdwn,
];

/// Pieces of Markdown that meet in ways nobody would write.
fn piece() -> impl Strategy<Value = String> {
    let samples = vec![
        "**",
        "_",
        "~~",
        "`",
        "```",
        "```rust\n",
        "\n```\n",
        "# ",
        "> ",
        "- ",
        "1. ",
        "\n",
        "\n\n",
        "  ",
        "[a](https://e.org/x)",
        "](",
        "| a | b |\n|---|---|\n| c | d |\n",
        "<b>",
        "&amp;",
        "<",
        "é",
        "中文。",
        "👩‍👩‍👧‍👦",
        "👍🏽",
        "e\u{301}",
        "word ",
        "A sentence. ",
        "---\n",
        "- [x] ",
        "![i](u)",
        "<br>",
        "\\",
        "\t",
        "https://e.org ",
        "~",
        "*",
        "* ",
        "_x_ ",
        "||",
        "<@1> ",
        "<@U1> ",
        "<@all>",
        "<t:1:R>",
        "[x] ",
        "```` ```",
        "a|b",
        "- - ",
        "https://e.org/a_(b)_*c*?d=1&e=2|f。",
        "[l](https://e.org/?a=1&b=(2))",
        "###### ",
        "| long name of a column | another long name of a column | and one more of these |\n|---|---|---|\n| c | d | e |\n",
        "\u{200b}",
        "\u{202e}",
    ];
    prop_oneof![4 => proptest::sample::select(samples).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

pub(super) fn markdown() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..60).prop_map(|pieces| pieces.concat())
}

fn without_blank(parts: &[RenderedPart]) -> String {
    parts
        .iter()
        .flat_map(|part| part.text.chars())
        .filter(|c| !c.is_whitespace())
        .collect()
}

/// What a reader sees, as far as it is the writer's.
fn seen(dialect: Dialect, text: &str) -> String {
    match dialect {
        Dialect::Plain | Dialect::Markdown => text.to_owned(),
        Dialect::TelegramHtml | Dialect::EmailHtml => checks::html(text),
        Dialect::Discord => checks::discord(text),
        Dialect::SlackMrkdwn => checks::slack(text),
    }
}

/// How often each letter and digit occurs: what no dialect may change. A part that names the
/// language of its code again, or its address, has more.
pub(super) fn letters(text: &str) -> HashMap<char, usize> {
    let mut counts = HashMap::new();
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        *counts.entry(c).or_default() += 1;
    }
    counts
}

fn is_subsequence(of: &str, text: &str) -> bool {
    let mut rest = text.chars();
    of.chars()
        .filter(|c| !c.is_whitespace())
        .all(|c| rest.any(|other| other == c))
}

proptest! {
    #[test]
    fn splitting_loses_nothing_and_keeps_the_limit(
        markdown in markdown(), limit in 12_usize..300,
        measure in proptest::sample::select(vec![Measure::Utf16, Measure::CodePoints, Measure::Bytes]),
    ) {
        for dialect in DIALECTS {
            let whole = render(&markdown, TextStyle { dialect, measure, limit: 1_000_000 });
            let parts = render(&markdown, TextStyle { dialect, measure, limit });
            for part in &parts {
                prop_assert!(!part.text.trim().is_empty());
                prop_assert!(measure.of(&part.plain) <= limit, "{:?} > {limit}", part.plain);
                let counted = if dialect == Dialect::TelegramHtml { checks::html(&part.text) } else { part.text.clone() };
                prop_assert!(measure.of(&counted) <= limit, "{dialect:?} {counted:?} > {limit}");
            }
            if dialect == Dialect::Markdown {
                // What a cut fence adds is code marks and an info string: nothing else may differ.
                let joined = without_blank(&parts);
                prop_assert!(is_subsequence(&markdown, &joined), "{markdown:?} is not in {joined:?}");
            } else if let ([whole], true) = (whole.as_slice(), limit >= 100 || matches!(dialect, Dialect::Plain | Dialect::TelegramHtml)) {
                let joined: String = parts.iter().map(|part| seen(dialect, &part.text)).collect();
                let (whole, joined) = (letters(&seen(dialect, &whole.text)), letters(&joined));
                for (letter, count) in whole {
                    prop_assert!(joined.get(&letter).copied().unwrap_or_default() >= count, "{dialect:?} {letter} {parts:#?}");
                }
            }
        }
    }
}

/// What shall be seen of a document: every character with its looks.
fn meant(document: &Document, shows_code: fn(&str) -> bool) -> readers::Seen {
    let mut seen = readers::Seen::new();
    for (at, c) in document
        .text
        .char_indices()
        .filter(|(_, c)| !readers::is_blank(*c))
    {
        let mut looks = 0;
        for span in document
            .spans
            .iter()
            .filter(|span| span.range.contains(&at))
        {
            looks |= match &span.mark {
                _ if looks & (readers::LINK | readers::CODE) != 0 => 0,
                Mark::Heading { .. } | Mark::Bold => readers::BOLD,
                Mark::Italic => readers::ITALIC,
                Mark::Strike => readers::STRIKE,
                Mark::Code if !shows_code(document.text.get(span.range.clone()).unwrap()) => 0,
                Mark::Code | Mark::Pre { .. } => readers::CODE,
                Mark::Link { .. } => readers::LINK,
                Mark::Address | Mark::Reference | Mark::Item | Mark::Quote => 0,
            };
        }
        seen.push((c, looks));
    }
    seen
}

/// Whether Discord cannot show it: a mark around code or an address that holds a mark, code with
/// too many marks of its own, a link whose words look like an address or brackets.
fn is_beyond_discord(document: &Document, span: &Span) -> bool {
    let text = |span: &Span| document.text.get(span.range.clone()).unwrap().to_owned();
    match span.mark {
        Mark::Code => text(span).contains("``"),
        Mark::Link { .. } => text(span).contains(['[', ']']) || text(span).contains("://"),
        Mark::Bold | Mark::Italic | Mark::Strike | Mark::Heading { .. } => {
            document.spans.iter().any(|inner| {
                matches!(inner.mark, Mark::Code | Mark::Address | Mark::Reference)
                    && span.range.contains(&inner.range.start)
                    && text(inner).contains(['*', '_', '~'])
            })
        }
        _ => false,
    }
}

/// Whether it is a mark around what would be a mark itself.
fn is_beyond_slack(document: &Document, span: &Span) -> bool {
    let is_mark = |c| matches!(c, '*' | '_' | '~' | '`');
    let text = document.text.get(span.range.clone()).unwrap();
    let mut lines = text
        .split('\n')
        .map(|line| line.trim_matches(readers::is_blank));
    matches!(
        span.mark,
        Mark::Bold | Mark::Italic | Mark::Strike | Mark::Heading { .. }
    ) && lines.any(|line| line.starts_with(is_mark) || line.ends_with(is_mark))
}

/// The same texts every time: what Discord and Slack make of absurd ones is not known for all.
#[test]
fn a_reader_sees_what_is_meant() {
    let mut runner = TestRunner::deterministic();
    let markdown = proptest::collection::vec(piece(), 0..16).prop_map(|pieces| pieces.concat());
    let result = runner.run(&markdown, |markdown| {
        let links = |schemes| Links::Marked {
            schemes,
            longest: 10_000,
        };
        let document = Document::parse(&markdown, links(slack::SCHEMES));
        if !document
            .spans
            .iter()
            .any(|span| is_beyond_slack(&document, span))
        {
            let written = lines::render(&document, &slack::Slack);
            prop_assert_eq!(
                readers::slack(&written),
                meant(&document, |code| !code.contains('`')),
                "{}",
                written
            );
        }
        let document = Document::parse(&markdown, links(discord::SCHEMES));
        if !document
            .spans
            .iter()
            .any(|span| is_beyond_discord(&document, span))
        {
            let written = lines::render(&document, &discord::Discord);
            let mut meant = meant(&document, |_| true);
            meant
                .iter_mut()
                .filter(|(c, _)| *c == '•')
                .for_each(|(c, _)| *c = '-');
            prop_assert_eq!(
                readers::discord(&written.replace('•', "-")),
                meant,
                "{}",
                written
            );
        }
        Ok(())
    });
    result.unwrap();
}
