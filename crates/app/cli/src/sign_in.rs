//! The terminal of a person who logs a channel in.

use nanobot_runtime::{SignInPrompt, async_trait};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use crate::output::sanitize;
use crate::{ask, output};

/// Shows steps and codes on standard error, and asks on the terminal.
#[derive(Debug)]
pub(crate) struct TerminalPrompt;

#[async_trait]
impl SignInPrompt for TerminalPrompt {
    fn show(&self, text: &str) {
        output::note(&sanitize(text));
    }

    fn show_code(&self, text: &str) {
        match picture(text) {
            Some(picture) => output::note(&picture),
            None => output::note(&sanitize(text)),
        }
    }

    async fn confirm(&self, question: &str) -> bool {
        if !ask::can_ask() {
            return false;
        }
        let question = format!("{} [y/N] ", sanitize(question));
        let answer = ask::line(&question).await.ok().flatten();
        matches!(
            answer.unwrap_or_default().to_lowercase().as_str(),
            "y" | "yes"
        )
    }
}

/// Draws a QR code, two rows of it in a line of text. `None` if the text is too long for one.
///
/// The colours are drawn explicitly: cameras read black on white, and terminals are mostly dark.
fn picture(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let rows = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Dark)
        .light_color(Dense1x2::Light)
        .build();
    Some(format!("\n{rows}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_a_square_of_blocks() {
        let picture = picture("2@abcdefghijklmnop,qrstuvwxyz,0123456789").unwrap();
        let rows: Vec<&str> = picture.trim_matches('\n').lines().collect();
        let widths: Vec<usize> = rows.iter().map(|row| row.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]));
        assert_eq!(widths[0].div_ceil(2), rows.len());
        let is_block = |sign: char| matches!(sign, ' ' | '▀' | '▄' | '█');
        assert!(rows.iter().all(|row| row.chars().all(is_block)));
    }

    #[test]
    fn text_that_is_too_long_for_a_code_has_none() {
        assert_eq!(picture(&"x".repeat(4000)), None);
    }
}
