//! Units of length.

/// The unit in which a platform counts the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// UTF-16 code units.
    Utf16,
    /// Unicode code points.
    CodePoints,
    /// Bytes of UTF-8.
    Bytes,
}

impl Measure {
    /// Returns the length of `text`.
    #[must_use]
    pub fn of(self, text: &str) -> usize {
        match self {
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
            Self::CodePoints => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }

    /// Returns the length of one character.
    #[must_use]
    pub fn of_char(self, c: char) -> usize {
        match self {
            Self::Utf16 => c.len_utf16(),
            Self::CodePoints => 1,
            Self::Bytes => c.len_utf8(),
        }
    }
}
