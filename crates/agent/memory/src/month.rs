//! The file of a month, which holds its day notes one after the other.
//!
//! Decision: the file is written first, and then the notes are removed. A note whose section is
//! already in the file is not added again, so a retry after any interruption has the same result. A
//! note that was changed in the meantime gets a second section, so no line is lost.

use chrono::NaiveDate;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns the section of a day: a heading and the unchanged bytes of the note, with a final
/// newline.
fn section(date: NaiveDate, note: &[u8]) -> Vec<u8> {
    let note = note.strip_prefix(BYTE_ORDER_MARK).unwrap_or(note);
    let mut section = format!("## {date}\n\n").into_bytes();
    section.extend_from_slice(note);
    if !section.ends_with(b"\n") {
        section.push(b'\n');
    }
    section
}

/// Returns the file of a month with these notes added. The notes must be in the order of their
/// days.
pub(crate) fn merged(month: &[u8], notes: &[(NaiveDate, Vec<u8>)]) -> Vec<u8> {
    let mut merged = month.to_vec();
    for (date, note) in notes {
        let section = section(*date, note);
        if holds(&merged, &section) {
            continue;
        }
        if !merged.is_empty() {
            merged.extend_from_slice(if merged.ends_with(b"\n") {
                b"\n"
            } else {
                b"\n\n"
            });
        }
        merged.extend_from_slice(&section);
    }
    merged
}

/// `true` if a section is in the file: it begins at the beginning of a line and ends at the next
/// heading of a day or at the end.
fn holds(month: &[u8], section: &[u8]) -> bool {
    let starts = std::iter::once(0).chain(
        month
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at + 1),
    );
    starts
        .filter_map(|start| month.get(start..)?.strip_prefix(section))
        .any(|rest| rest.is_empty() || rest.starts_with(b"\n## "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 3, day).unwrap()
    }

    #[test]
    fn merging_is_idempotent_and_lossless() {
        let notes = vec![
            (day(1), b"- tea\n".to_vec()),
            (day(2), "\u{feff}茶 without an end".as_bytes().to_vec()),
            (day(4), b"bad \xff byte\r\n".to_vec()),
        ];
        let once = merged(b"", &notes);
        let text: &[u8] =
            b"## 2026-03-01\n\n- tea\n\n## 2026-03-02\n\n\xe8\x8c\xb6 without an end\n\n## 2026-03-04\n\nbad \xff byte\r\n";
        assert_eq!(once, text);
        assert_eq!(merged(&once, &notes), once);
        assert_eq!(merged(&once, &notes[1..2]), once);
        let changed = merged(&once, &[(day(1), b"- tea\n- milk\n".to_vec())]);
        assert_eq!(
            changed,
            [text, b"\n## 2026-03-01\n\n- tea\n- milk\n"].concat()
        );
        let shorter = merged(&changed, &[(day(1), b"- te".to_vec())]);
        assert_eq!(
            shorter.len(),
            changed.len() + b"\n## 2026-03-01\n\n- te\n".len()
        );
        assert_eq!(
            merged(b"what a person wrote", &notes[..1]),
            b"what a person wrote\n\n## 2026-03-01\n\n- tea\n"
        );
    }
}
