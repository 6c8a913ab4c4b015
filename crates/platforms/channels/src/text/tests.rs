//! How text looks on each platform, and that none of it is lost.

mod checks;
mod dialects;
mod general;
mod hostile;
mod native;
mod properties;
mod readers;

use nanobot_channel::{Dialect, Measure, TextStyle};

use super::render;

fn style(dialect: Dialect, limit: usize) -> TextStyle {
    TextStyle {
        dialect,
        measure: Measure::Utf16,
        limit,
    }
}

fn texts(markdown: &str, dialect: Dialect, limit: usize) -> Vec<String> {
    render(markdown, style(dialect, limit))
        .into_iter()
        .map(|part| part.text)
        .collect()
}
