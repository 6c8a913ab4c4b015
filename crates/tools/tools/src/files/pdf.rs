//! Reads a PDF document for `read_file`.
//!
//! Decision: the first pages without text are shown as pictures unasked, because they are scans in
//! most cases; every other page is shown when the model names it. A page that cannot be drawn is
//! named, and its text remains.

use std::sync::Arc;

use nanobot_extract::Extract;
use nanobot_types::{Picture, PictureFormat, ToolResult, chain};

use super::read::{ReadArguments, lines};
use crate::operation::answer;

/// Maximum number of pages that are shown unasked.
const MAX_UNASKED: usize = 4;

/// Returns the requested lines of the text of a document, which may be hostile, and the pages to
/// see.
pub(super) async fn read(
    extractor: &Arc<dyn Extract>,
    document: Vec<u8>,
    arguments: &ReadArguments,
) -> ToolResult {
    let path = &arguments.path;
    let found = match extractor.pdf(document.clone()).await {
        Ok(found) => found,
        Err(error) => return answer(Err(format!("cannot read {path}: {}", chain(&error)))),
    };
    let pages = found.pages;
    if arguments
        .pdf_page
        .is_some_and(|page| page == 0 || page > pages)
    {
        return answer(Err(format!("{path} has pages 1 to {pages}")));
    }
    let text = match arguments.pdf_page {
        Some(page) => text_of_page(&found.text, page, pages),
        None => &found.text,
    };
    let text = match lines(text.as_bytes(), arguments) {
        Ok(text) => text,
        Err(reason) => return answer(Err(reason)),
    };
    let wanted = match (arguments.pdf_page, arguments.offset) {
        (Some(page), _) => vec![page],
        (None, None | Some(0 | 1)) => found
            .without_text
            .iter()
            .copied()
            .take(MAX_UNASKED)
            .collect(),
        (None, Some(_)) => Vec::new(),
    };
    let (mut pictures, mut shown, mut notes) = (Vec::new(), Vec::new(), String::new());
    for page in wanted {
        match draw(extractor, document.clone(), page).await {
            Ok(picture) => {
                pictures.push(picture);
                shown.push(page);
            }
            Err(reason) => notes.push_str(&format!(" Page {page} cannot be shown: {reason}.")),
        }
    }
    if !found.without_text.is_empty() {
        notes.push_str(&format!(
            " Pages without text: {}.",
            ranges(&found.without_text)
        ));
    }
    if !shown.is_empty() {
        notes.push_str(&format!(" Pages shown as pictures: {}.", ranges(&shown)));
    }
    if found.cut {
        notes.push_str(" The document is too long: only its beginning is read.");
    }
    ToolResult {
        pictures,
        ..ToolResult::ok(format!(
            "(Text of a PDF document; number of pages: {pages}.{notes})\n{text}"
        ))
    }
}

async fn draw(
    extractor: &Arc<dyn Extract>,
    document: Vec<u8>,
    page: u32,
) -> Result<Picture, String> {
    let drawn = extractor.pdf_page(document, page).await;
    let bytes = drawn.map_err(|error| chain(&error))?;
    let format = PictureFormat::of(&bytes).ok_or("its picture is unreadable")?;
    Ok(Picture { format, bytes })
}

/// Returns the text from the mark of a page to the next mark; all of it if there is none.
fn text_of_page(text: &str, page: u32, pages: u32) -> &str {
    let mark = |page: u32| format!("--- Page {page} of {pages} ---\n");
    let start = text.find(&mark(page)).unwrap_or_default();
    let text = text.get(start..).unwrap_or_default();
    let next = text.find(&mark(page.saturating_add(1)));
    text.get(..next.unwrap_or(text.len()))
        .unwrap_or(text)
        .trim_end()
}

/// Writes ascending numbers as ranges: `1-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let ranges = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_ranges() {
        for (numbers, expected) in [
            (&[][..], ""),
            (&[4], "4"),
            (&[1, 2, 3, 7, 9, 10], "1-3, 7, 9-10"),
            (&[u32::MAX - 1, u32::MAX], "4294967294-4294967295"),
        ] {
            assert_eq!(ranges(numbers), expected);
        }
    }

    #[test]
    fn text_of_a_page_ends_before_the_next() {
        let text = "--- Page 1 of 3 ---\na\n\n--- Page 2 of 3 ---\n\n\n--- Page 3 of 3 ---\nc";
        for (page, expected) in [
            (1, "--- Page 1 of 3 ---\na"),
            (2, "--- Page 2 of 3 ---"),
            (3, "--- Page 3 of 3 ---\nc"),
        ] {
            assert_eq!(text_of_page(text, page, 3), expected);
        }
    }
}
