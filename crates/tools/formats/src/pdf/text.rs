//! Extracts the text of PDF documents, page by page.
//!
//! Decision: `pdf-extract` decodes fonts and finds words by their place on the page. It panics on
//! some malformed pages, so each page is read on its own, and a page that breaks is named in the
//! text. Loops and bombs in a document end the helper process, which has limits.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nanobot_extract::{ExtractError, MAX_TEXT, PdfText};
use pdf_extract::{Document, PlainTextOutput, output_doc_page};

/// Maximum number of pages that are read.
const MAX_PAGES: usize = 5_000;

/// Returns the text of a PDF document. Pages without text, such as scans, are empty and listed.
pub(crate) fn text(document: &[u8]) -> Result<PdfText, ExtractError> {
    let unreadable = |reason: String| ExtractError::Unreadable(reason);
    let mut pdf = Document::load_mem(document)
        .map_err(|error| unreadable(format!("the PDF is damaged: {error}")))?;
    // Many documents are encrypted with an empty password, only to restrict editing.
    if pdf.is_encrypted() && pdf.decrypt("").is_err() {
        return Err(unreadable("the PDF is protected by a password".to_owned()));
    }
    let pages = pdf.get_pages();
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let (mut text, mut cut) = (String::new(), pages.len() > MAX_PAGES);
    let mut without_text = Vec::new();
    for number in pages.keys().take(MAX_PAGES) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        // Writing to a string does not fail.
        writeln!(text, "--- Page {number} of {count} ---").ok();
        let content = page(&pdf, *number);
        if content
            .as_ref()
            .is_none_or(|content| content.trim().is_empty())
        {
            without_text.push(*number);
        }
        match content {
            Some(content) => text.push_str(content.trim()),
            None => text.push_str("(This page cannot be read.)"),
        }
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            cut = true;
            break;
        }
    }
    Ok(PdfText {
        text,
        pages: count,
        without_text,
        cut,
    })
}

/// Returns the text of one page, without control characters; `None` if it is malformed.
fn page(pdf: &Document, number: u32) -> Option<String> {
    let mut content = String::new();
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut output = PlainTextOutput::new(&mut content);
        output_doc_page(pdf, &mut output, number)
    }));
    read.ok()?.ok()?;
    content.retain(|character| !character.is_control() || matches!(character, '\n' | '\t'));
    Some(content)
}

#[cfg(test)]
mod tests {
    use nanobot_extract::{ExtractRequest, ExtractResponse};
    use nanobot_testkit::pdf_of_pages;

    use super::super::sample::{SCAN, line};
    use super::*;

    /// Returns a document with a line of text on each page.
    fn document(lines: &[&str]) -> Vec<u8> {
        let pages: Vec<String> = lines.iter().map(|text| line(text)).collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        pdf_of_pages(&pages)
    }

    fn read(document: Vec<u8>) -> Result<ExtractResponse, ExtractError> {
        crate::read(ExtractRequest::Pdf(document))
    }

    #[test]
    fn pages_are_marked() {
        let Ok(ExtractResponse::Pdf(found)) = read(document(&["Hello tea", "Second"])) else {
            panic!("the document is unreadable")
        };
        assert_eq!(
            found,
            PdfText {
                text: "--- Page 1 of 2 ---\nHello tea\n\n--- Page 2 of 2 ---\nSecond".to_owned(),
                pages: 2,
                without_text: Vec::new(),
                cut: false,
            }
        );
    }

    #[test]
    fn malformed_page_does_not_hide_the_others() {
        let broken = String::from_utf8(document(&["One", "Two"])).unwrap();
        // The first page has no content any more.
        let broken = broken.replacen("/Contents 6 0 R", "/Contents 9 0 R", 1);
        let Ok(ExtractResponse::Pdf(found)) = read(broken.into_bytes()) else {
            panic!("the document is unreadable")
        };
        assert!(
            found.text.contains("--- Page 2 of 2 ---\nTwo"),
            "{}",
            found.text
        );
    }

    #[test]
    fn pages_without_text_are_listed() {
        let pages = [SCAN, &line("Words"), ""];
        let Ok(ExtractResponse::Pdf(found)) = read(pdf_of_pages(&pages)) else {
            panic!("the document is unreadable")
        };
        assert_eq!(found.without_text, [1, 3]);
    }

    #[test]
    fn damaged_documents_are_unreadable() {
        let whole = document(&["One"]);
        for length in [0, 5, 60] {
            let error = read(whole.iter().take(length).copied().collect()).unwrap_err();
            assert!(matches!(error, ExtractError::Unreadable(_)), "{error:?}");
        }
    }
}
