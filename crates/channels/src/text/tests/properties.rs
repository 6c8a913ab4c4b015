//! What holds for all text: nothing is lost, every part fits and is whole.

use std::collections::HashMap;

use nanobot_channel::{Dialect, Measure, TextStyle};
use proptest::prelude::*;

use super::super::{RenderedPart, render};
use super::checks;

const DIALECTS: [Dialect; 5] =
    [Dialect::Plain, Dialect::TelegramHtml, Dialect::Markdown, Dialect::Discord, Dialect::SlackMrkdwn];

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

fn markdown() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..60).prop_map(|pieces| pieces.concat())
}

fn without_blank(parts: &[RenderedPart]) -> String {
    parts.iter().flat_map(|part| part.text.chars()).filter(|c| !c.is_whitespace()).collect()
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
fn letters(text: &str) -> HashMap<char, usize> {
    let mut counts = HashMap::new();
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        *counts.entry(c).or_default() += 1;
    }
    counts
}

fn is_subsequence(of: &str, text: &str) -> bool {
    let mut rest = text.chars();
    of.chars().filter(|c| !c.is_whitespace()).all(|c| rest.any(|other| other == c))
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
