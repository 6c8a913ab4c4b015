//! Splitting of random texts at random limits.

use anyhow::{anyhow, ensure};
use nanobot_channel::{Format, Measure, TextStyle};
use nanobot_text::{RenderedPart, render};
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::{config, failed, fits};
use crate::markup::{letters, markdown};

/// Smallest limit at which markup leaves enough room for the text.
const ROOMY: usize = 100;

pub(super) fn run(
    style: TextStyle,
    visible: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let measures = select(vec![Measure::Utf16, Measure::CodePoints, Measure::Bytes]);
    TestRunner::new(config())
        .run(
            &(markdown(60), 12_usize..300, measures),
            |(markdown, limit, measure)| {
                let style = TextStyle {
                    measure,
                    limit,
                    ..style
                };
                check(&markdown, style, visible).map_err(|error| failed(&error))
            },
        )
        .map_err(|error| anyhow!("{error}"))
}

fn check(
    markdown: &str,
    style: TextStyle,
    visible: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let parts = render(markdown, style);
    for part in &parts {
        ensure!(!part.text.trim().is_empty(), "a blank part");
        fits(style, part, visible)?;
    }
    let is_roomy = match style.format {
        Format::Markup(markup) => style.limit >= ROOMY || markup.overhead().is_none(),
        // A split fence adds markers and repeats its info string, and an image loses its `!`.
        Format::Markdown => {
            let joined = without_blank(&parts);
            ensure!(is_subsequence(markdown, &joined), "lost in {joined:?}");
            return Ok(());
        }
        Format::Whole(_) => false,
    };
    let unsplit = TextStyle {
        limit: 1_000_000,
        ..style
    };
    if let ([whole], true) = (render(markdown, unsplit).as_slice(), is_roomy) {
        let mut joined = String::new();
        for part in &parts {
            joined.push_str(&visible(&part.text)?);
        }
        let joined = letters(&joined);
        for (letter, count) in letters(&visible(&whole.text)?) {
            let found = joined.get(&letter).copied().unwrap_or_default();
            ensure!(found >= count, "{letter} is lost: {parts:#?}");
        }
    }
    Ok(())
}

fn without_blank(parts: &[RenderedPart]) -> String {
    parts
        .iter()
        .flat_map(|part| part.text.chars())
        .filter(|c| !c.is_whitespace())
        .collect()
}

fn is_subsequence(of: &str, text: &str) -> bool {
    let mut rest = text.chars();
    of.chars()
        .filter(|c| !c.is_whitespace() && *c != '!')
        .all(|c| rest.any(|other| other == c))
}
