//! Styles of text at a terminal, and their escape sequences.

use crate::output::Palette;

/// Ends all styles.
const RESET: &str = "\u{1b}[0m";

/// Bits of [`Ink::attributes`] and their escape sequences.
const ATTRIBUTES: [(u8, &str); 5] = [
    (1, "\u{1b}[1m"),
    (2, "\u{1b}[2m"),
    (4, "\u{1b}[3m"),
    (8, "\u{1b}[4m"),
    (16, "\u{1b}[9m"),
];

pub(super) const PLAIN: Ink = Ink::attribute(0);
pub(super) const BOLD: Ink = Ink::attribute(1);
pub(crate) const DIM: Ink = Ink::attribute(2);
pub(super) const ITALIC: Ink = Ink::attribute(4);
pub(super) const UNDERLINE: Ink = Ink::attribute(8);
pub(super) const STRIKE: Ink = Ink::attribute(16);
pub(super) const CYAN: Ink = Ink::colour("\u{1b}[36m");
pub(super) const GREEN: Ink = Ink::colour("\u{1b}[32m");
pub(super) const RED: Ink = Ink::colour("\u{1b}[31m");

/// The width and the styles of rendered text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns of the terminal; `None` if lines are not wrapped.
    pub(crate) width: Option<usize>,
    /// The styles that are shown.
    pub(crate) palette: Palette,
}

/// Attributes and a colour of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ink {
    attributes: u8,
    /// The escape sequence of the colour.
    colour: Option<&'static str>,
}

impl Ink {
    const fn attribute(attributes: u8) -> Self {
        Self {
            attributes,
            colour: None,
        }
    }

    const fn colour(colour: &'static str) -> Self {
        Self {
            attributes: 0,
            colour: Some(colour),
        }
    }

    /// Returns both styles together; the colour of `other` wins.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            attributes: self.attributes | other.attributes,
            colour: other.colour.or(self.colour),
        }
    }

    /// Returns the part of the style that a palette shows.
    fn within(self, palette: Palette) -> Self {
        match palette {
            Palette::Colours => self,
            Palette::Attributes => Self::attribute(self.attributes),
            Palette::Plain => PLAIN,
        }
    }

    /// `true` if text in the style `on` takes this style without a reset.
    fn extends(self, on: Self) -> bool {
        self.attributes & on.attributes == on.attributes
            && (on.colour.is_none() || self.colour == on.colour)
    }
}

/// Writes runs of text with as few escape sequences as possible.
pub(super) struct Brush {
    palette: Palette,
    on: Ink,
}

impl Brush {
    /// Returns a brush at a place where no style is on.
    pub(super) fn new(palette: Palette) -> Self {
        Self { palette, on: PLAIN }
    }

    /// Writes text in a style.
    pub(super) fn write(&mut self, text: &str, ink: Ink, out: &mut String) {
        let ink = ink.within(self.palette);
        if ink != self.on {
            if !ink.extends(self.on) {
                self.end(out);
            }
            let new = |bit: u8| ink.attributes & bit != 0 && self.on.attributes & bit == 0;
            for (_, sequence) in ATTRIBUTES.into_iter().filter(|(bit, _)| new(*bit)) {
                out.push_str(sequence);
            }
            if ink.colour != self.on.colour {
                out.push_str(ink.colour.unwrap_or_default());
            }
            self.on = ink;
        }
        out.push_str(text);
    }

    /// Ends the styles that are on.
    pub(super) fn end(&mut self, out: &mut String) {
        if self.on != PLAIN {
            out.push_str(RESET);
            self.on = PLAIN;
        }
    }
}

/// Returns text in a style of a palette.
pub(crate) fn painted(text: &str, ink: Ink, palette: Palette) -> String {
    let mut out = String::new();
    let mut brush = Brush::new(palette);
    brush.write(text, ink, &mut out);
    brush.end(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palette_limits_escape_sequences() {
        let ink = BOLD.with(CYAN);
        for (palette, expected) in [
            (Palette::Colours, "\u{1b}[1m\u{1b}[36ma\u{1b}[0m"),
            (Palette::Attributes, "\u{1b}[1ma\u{1b}[0m"),
            (Palette::Plain, "a"),
        ] {
            assert_eq!(painted("a", ink, palette), expected, "{palette:?}");
        }
    }

    #[test]
    fn added_style_needs_no_reset() {
        let mut brush = Brush::new(Palette::Colours);
        let mut out = String::new();
        for (text, ink) in [("a", BOLD), ("b", BOLD.with(ITALIC)), ("c", CYAN)] {
            brush.write(text, ink, &mut out);
        }
        brush.end(&mut out);
        assert_eq!(out, "\u{1b}[1ma\u{1b}[3mb\u{1b}[0m\u{1b}[36mc\u{1b}[0m");
    }
}
