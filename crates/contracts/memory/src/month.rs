//! The file of a month: its day notes, one below the other.
//!
//! Decision: the file is written first and the notes are removed then. A note whose section stands
//! in the file already is not added again, so that whatever interrupts this, doing it again ends
//! the same; a note that was changed in between gets a second section, and no line is lost.

use chrono::NaiveDate;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The section of a day: a heading and the note byte by byte, with a line end behind it.
fn section(date: NaiveDate, note: &[u8]) -> Vec<u8> {
    let note = note.strip_prefix(BYTE_ORDER_MARK).unwrap_or(note);
    let mut section = format!("## {date}\n\n").into_bytes();
    section.extend_from_slice(note);
    if !section.ends_with(b"\n") {
        section.push(b'\n');
    }
    section
}

/// The file of a month with these notes in it, which are in the order of their days.
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

/// Whether a section stands in the file, from the beginning of a line to the next heading of a
/// day or the end.
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
    fn merging_again_changes_nothing_and_loses_nothing() {
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
