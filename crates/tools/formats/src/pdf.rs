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

/// Returns the text of a PDF document. Pages without text, such as scans, are empty.
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
    for number in pages.keys().take(MAX_PAGES) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        // Writing to a string does not fail.
        writeln!(text, "--- Page {number} of {count} ---").ok();
        match page(&pdf, *number) {
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

    use super::*;

    /// Returns a document with a line of text on each page.
    fn document(lines: &[&str]) -> Vec<u8> {
        let pages = lines.len();
        let first = 4;
        let kids: String = (0..pages)
            .map(|page| format!("{} 0 R ", first + 2 * page))
            .collect();
        let mut objects = vec![
            "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
            format!("<</Type/Pages/Count {pages}/Kids[{kids}]/MediaBox[0 0 300 300]>>"),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
        ];
        for (page, line) in lines.iter().enumerate() {
            let stream = format!("BT /F1 12 Tf 20 200 Td ({line}) Tj ET");
            let content = first + 2 * page + 1;
            objects.push(format!(
                "<</Type/Page/Parent 2 0 R/Resources<</Font<</F1 3 0 R>>>>/Contents {content} 0 R>>"
            ));
            objects.push(format!(
                "<</Length {}>>stream\n{stream}\nendstream",
                stream.len()
            ));
        }
        let mut file = "%PDF-1.4\n".to_owned();
        let mut table = String::new();
        for (index, object) in objects.iter().enumerate() {
            table.push_str(&format!("{:010} 00000 n \n", file.len()));
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
        }
        let (start, size) = (file.len(), objects.len() + 1);
        file.push_str(&format!(
            "xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF"
        ));
        file.into_bytes()
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
                cut: false,
            }
        );
    }

    #[test]
    fn malformed_page_does_not_hide_the_others() {
        let broken = String::from_utf8(document(&["One", "Two"])).unwrap();
        // The first page has no content any more.
        let broken = broken.replacen("/Contents 5 0 R", "/Contents 9 0 R", 1);
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
    fn damaged_documents_are_unreadable() {
        let whole = document(&["One"]);
        for length in [0, 5, 60] {
            let error = read(whole.iter().take(length).copied().collect()).unwrap_err();
            assert!(matches!(error, ExtractError::Unreadable(_)), "{error:?}");
        }
    }
}
