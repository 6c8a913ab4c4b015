//! Pairing codes: eight letters and digits in two groups, about 41 bits from the system's random
//! source.

use uuid::Uuid;

const SYMBOLS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LENGTH: usize = 8;
const GROUP: usize = 4;
/// Number of byte values that map evenly to the symbols. Higher values would make some symbols
/// likelier than others.
const UNBIASED: usize = 256 / SYMBOLS.len() * SYMBOLS.len();

/// A code in the form shown to people.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Code(String);

impl Code {
    /// Generates a new code.
    pub(super) fn random() -> Self {
        let mut symbols = String::with_capacity(LENGTH);
        while symbols.len() < LENGTH {
            // Bytes 6 and 8 of a UUID hold its version and variant; the other fourteen are random.
            let (bytes, fixed) = (Uuid::new_v4().into_bytes(), [6, 8]);
            let random = bytes
                .iter()
                .enumerate()
                .filter(|(at, _)| !fixed.contains(at))
                .map(|(_, byte)| usize::from(*byte));
            let unbiased = random
                .filter(|byte| *byte < UNBIASED)
                .filter_map(|byte| SYMBOLS.get(byte % SYMBOLS.len()));
            symbols.extend(
                unbiased
                    .take(LENGTH - symbols.len())
                    .map(|symbol| char::from(*symbol)),
            );
        }
        Self::grouped(&symbols)
    }

    /// Parses a code as typed, in any case and grouping; `None` if it cannot be a code.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let symbols: String = text
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '-')
            .map(|c| c.to_ascii_uppercase())
            .collect();
        let is_code =
            symbols.len() == LENGTH && symbols.bytes().all(|byte| SYMBOLS.contains(&byte));
        is_code.then(|| Self::grouped(&symbols))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn grouped(symbols: &str) -> Self {
        Self(
            symbols
                .chars()
                .take(GROUP)
                .chain(['-'])
                .chain(symbols.chars().skip(GROUP))
                .collect(),
        )
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_have_one_format_and_use_every_symbol() {
        let codes: BTreeSet<String> = (0..500).map(|_| Code::random().into()).collect();
        assert_eq!(codes.len(), 500);
        assert!(
            codes
                .iter()
                .all(|code| Code::parse(code).is_some_and(|parse| parse.as_str() == code))
        );
        let used: BTreeSet<char> = codes.iter().flat_map(|code| code.chars()).collect();
        assert_eq!(used.len(), SYMBOLS.len() + 1);
    }

    #[test]
    fn typed_codes_are_normalised() {
        let table = [
            ("ABCD-EF12", Some("ABCD-EF12")),
            (" abcdef12\n", Some("ABCD-EF12")),
            ("ab cd ef 12", Some("ABCD-EF12")),
            ("ABCD-EF1", None),
            ("ABCD-EF123", None),
            ("ABCD-EFÄ2", None),
            ("", None),
        ];
        for (text, code) in table {
            assert_eq!(Code::parse(text).as_ref().map(Code::as_str), code, "{text}");
        }
    }
}
