//! Parses untrusted documents in a resource-limited helper process.
//!
//! Decision: web pages, JSON documents, mails and PDF can be written by anyone, and the input
//! determines how deep their parsers recurse and how long they run. A stack overflow or a failed
//! allocation ends the whole process, so the parsers run in a process of their own with an empty
//! environment, two pipes, and limits on memory, CPU time, files and processes. A crash of the
//! helper becomes an [`ExtractError`].
//!
//! [`HelperProcess`] starts the program [`PROGRAM`], which is installed beside the program that
//! uses it, so that the parsers are neither in its file nor in its memory. A program that calls
//! [`enter`] first in its `main` is its own helper instead. A helper is started on demand, kept for
//! a few idle seconds, and then ended.
//!
//! Memory, CPU time, files and processes are limited on Linux. macOS does not enforce the limit on
//! memory. On Windows only the time, the size of the response and the two pipes are limited. The
//! helper is not a sandbox: a compromised parser can read whatever the user can read.

mod error;
mod exchange;
mod frame;
mod helper;
mod page;
mod plain;

use async_trait::async_trait;

pub use crate::{
    error::ExtractError,
    exchange::{
        ExtractRequest, ExtractResponse, Extractor, MailFile, MailHeader, MailText, Mailbox,
        PageRequest, PageText, PdfText, TextMode,
    },
    helper::{HelperProcess, PROGRAM, enter},
    page::{MAX_TEXT, read_body},
    plain::plain,
};

/// Parses untrusted documents.
#[async_trait]
pub trait Extract: std::fmt::Debug + Send + Sync {
    /// Checks whether documents can be parsed at all.
    ///
    /// # Errors
    /// Returns [`ExtractError::NotInstalled`] if the program that parses them is not there.
    fn check(&self) -> Result<(), ExtractError> {
        Ok(())
    }

    /// Prepares for a document that is about to arrive, for example when a download begins. Returns
    /// at once. This is only an optimization.
    fn prepare(&self) {}

    /// Parses one document. The response is of the kind of the request.
    ///
    /// Dropping the future cancels the work.
    ///
    /// # Errors
    /// Returns [`ExtractError`]; [`ExtractError::blames_input`] is `true` if the same document
    /// would fail again.
    async fn extract(&self, request: ExtractRequest) -> Result<ExtractResponse, ExtractError>;
}

impl dyn Extract {
    /// Parses a downloaded page or document.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn page(&self, page: PageRequest) -> Result<PageText, ExtractError> {
        match self.extract(ExtractRequest::Page(page)).await? {
            ExtractResponse::Page(text) => Ok(text),
            _ => Err(ExtractError::Garbled),
        }
    }

    /// Parses the header of a mail.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn mail_header(&self, header: Vec<u8>) -> Result<MailHeader, ExtractError> {
        match self.extract(ExtractRequest::MailHeader(header)).await? {
            ExtractResponse::MailHeader(header) => Ok(header),
            _ => Err(ExtractError::Garbled),
        }
    }

    /// Parses the headers of several mails with one request. `None` for one that cannot be read;
    /// if a header fails so that none is returned, `mail_header` tells which.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn mail_headers(
        &self,
        headers: Vec<Vec<u8>>,
    ) -> Result<Vec<Option<MailHeader>>, ExtractError> {
        let count = headers.len();
        match self.extract(ExtractRequest::MailHeaders(headers)).await? {
            ExtractResponse::MailHeaders(parsed) if parsed.len() == count => Ok(parsed),
            _ => Err(ExtractError::Garbled),
        }
    }

    /// Parses a mail, which may be truncated.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn mail(&self, mail: Vec<u8>) -> Result<MailText, ExtractError> {
        match self.extract(ExtractRequest::Mail(mail)).await? {
            ExtractResponse::Mail(text) => Ok(text),
            _ => Err(ExtractError::Garbled),
        }
    }

    /// Extracts the text of a PDF document.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn pdf(&self, pdf: Vec<u8>) -> Result<PdfText, ExtractError> {
        match self.extract(ExtractRequest::Pdf(pdf)).await? {
            ExtractResponse::Pdf(text) => Ok(text),
            _ => Err(ExtractError::Garbled),
        }
    }

    /// Draws a page of a PDF document, as a picture in PNG or JPEG. The first page is number 1.
    ///
    /// # Errors
    /// Returns the errors of [`Extract::extract`].
    pub async fn pdf_page(&self, pdf: Vec<u8>, number: u32) -> Result<Vec<u8>, ExtractError> {
        match self.extract(ExtractRequest::PdfPage(pdf, number)).await? {
            ExtractResponse::Picture(picture) => Ok(picture),
            _ => Err(ExtractError::Garbled),
        }
    }
}

/// Parses one document; the helper process calls it with limits on memory and time.
pub type Parser = fn(ExtractRequest) -> Result<ExtractResponse, ExtractError>;

/// Parses a document without a parser for its format, for programs that are to stay small: pages
/// without their tags, other text as it is.
///
/// # Errors
/// Returns [`ExtractError::Unreadable`] for a mail, a PDF document, and a body that is not text.
pub fn read_plain(request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
    match request {
        ExtractRequest::Page(page) => read_body(&page, |_, _| None).map(ExtractResponse::Page),
        ExtractRequest::MailHeader(_)
        | ExtractRequest::MailHeaders(_)
        | ExtractRequest::Mail(_) => Err(ExtractError::Unreadable(
            "this program has no parser for mails".to_owned(),
        )),
        ExtractRequest::Pdf(_) | ExtractRequest::PdfPage(..) => Err(ExtractError::Unreadable(
            "this program has no parser for PDF".to_owned(),
        )),
    }
}
