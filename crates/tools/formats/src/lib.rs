//! Parsers of web pages, mails and PDF documents.
//!
//! Decision: they are a crate of their own, because their dependencies are a quarter of what an
//! embedding program would compile. They recurse as deep as their input says, so a program runs
//! them in the helper process of `nanobot-extract`:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if let Some(code) = nanobot_extract::enter(nanobot_formats::read) {
//!         return code;
//!     }
//!     // The program itself; its `HelperProcess` now parses pages, mails and PDF.
//!     ExitCode::SUCCESS
//! }
//! ```

mod mail;
mod page;
mod pdf;

use nanobot_extract::{ExtractError, ExtractRequest, ExtractResponse, read_body};

/// Parses one document in this process, without limits.
///
/// # Errors
/// Returns [`ExtractError::Unreadable`] if the document has no text.
pub fn read(request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
    match request {
        ExtractRequest::Page(page) => read_body(&page, page::content).map(ExtractResponse::Page),
        ExtractRequest::MailHeader(header) => {
            mail::header(&header).map(ExtractResponse::MailHeader)
        }
        ExtractRequest::MailHeaders(headers) => {
            let parsed = headers.iter().map(|header| mail::header(header).ok());
            Ok(ExtractResponse::MailHeaders(parsed.collect()))
        }
        ExtractRequest::Mail(mail) => mail::text(mail).map(ExtractResponse::Mail),
        ExtractRequest::Pdf(document) => pdf::text(&document).map(ExtractResponse::Pdf),
        ExtractRequest::PdfPage(document, number) => {
            pdf::picture(document, number).map(ExtractResponse::Picture)
        }
    }
}
