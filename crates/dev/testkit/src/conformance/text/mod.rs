//! Conformance suites for text styles.
//!
//! [`text_style`] holds for all formats: nothing is lost, every part fits and is well formed,
//! hostile texts included. [`looks`] is for markups of characters, where the meaning of a character
//! depends on its neighbours: a reader written from the platform's rules must see what the document
//! says.

mod hostile;
mod looks;
mod split;

use anyhow::{Context as _, ensure};
use nanobot_channel::{Format, TextStyle};
use proptest::test_runner::{Config, TestCaseError};

pub use looks::{MarkupReader, looks};

/// Checks a text style. `visible` returns the text that a reader sees of a part, or an error if the
/// markup is malformed, such as a tag that is not closed.
///
/// # Errors
/// Returns an error that names the first promise that is broken.
pub fn text_style(
    style: TextStyle,
    visible: impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    hostile::run(style, &visible).context("hostile texts")?;
    match style.format {
        Format::Whole(_) => Ok(()),
        Format::Markdown | Format::Markup(_) => {
            split::run(style, &visible).context("splitting loses nothing and keeps the limit")
        }
    }
}

/// Checks that a part fits.
fn fits(
    style: TextStyle,
    part: &nanobot_text::RenderedPart,
    visible: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let shown = visible(&part.text)?;
    let counted = match style.format {
        Format::Whole(_) => return Ok(()),
        Format::Markup(markup) if markup.overhead().is_none() => &shown,
        Format::Markup(_) | Format::Markdown => &part.text,
    };
    for text in [counted, &part.plain] {
        let length = style.measure.of(text);
        ensure!(
            length <= style.limit,
            "{length} > {}: {text:?}",
            style.limit
        );
    }
    Ok(())
}

/// Returns a configuration with the same cases in every run, or those of `PROPTEST_RNG_SEED`.
fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

fn failed(error: &anyhow::Error) -> TestCaseError {
    TestCaseError::fail(format!("{error:#}"))
}
