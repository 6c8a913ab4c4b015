//! Reads strangers' formats in a helper process.
//!
//! Decision: web pages, JSON documents and mails are written by anyone, and their parsers recurse as
//! deep and run as long as the input says. A stack that overflows or memory that runs out ends the
//! whole process, so the parsers run in a process of their own: the same program under a hidden
//! argument, with no environment, two pipes, and limits on memory, processor time, files and
//! processes. It answers with text and parts or it dies, and a death is an [`ExtractError`].
//!
//! A program that uses [`HelperProcess`] calls [`enter`] first in its `main`. The helper is started
//! on demand, kept warm for a few seconds, and ended.
//!
//! Memory, processor time, files and processes are limited on Linux. macOS does not enforce the
//! limit on memory. On Windows only the time, the size of the answer and the two pipes are limited.
//! The helper is no sandbox: a parser that is taken over can read what the user can read.

mod error;
mod exchange;
mod frame;
mod helper;
mod mail;
mod page;
mod plain;

use async_trait::async_trait;

pub use crate::{
    error::ExtractError,
    exchange::{
        Answer, Extractor, MailFile, MailHeader, MailText, Mailbox, PageRequest, PageText, Request,
        TextMode,
    },
    helper::{HelperProcess, enter},
    plain::plain,
};

/// Reads what strangers wrote.
#[async_trait]
pub trait Extract: std::fmt::Debug + Send + Sync {
    /// Gets ready for a document that is about to come. Returns at once, and is worth calling when a
    /// download begins; nothing depends on it.
    fn prepare(&self) {}

    /// Reads one document. The answer is of the kind of the request.
    ///
    /// Dropping the future ends the work.
    ///
    /// # Errors
    /// [`ExtractError`]; ask [`ExtractError::blames_input`] whether the same document would fail again.
    async fn extract(&self, request: Request) -> Result<Answer, ExtractError>;
}

impl dyn Extract {
    /// Reads a page or a document that was downloaded.
    ///
    /// # Errors
    /// As [`Extract::extract`].
    pub async fn page(&self, page: PageRequest) -> Result<PageText, ExtractError> {
        match self.extract(Request::Page(page)).await? {
            Answer::Page(text) => Ok(text),
            Answer::MailHeader(_) | Answer::Mail(_) => Err(ExtractError::Garbled),
        }
    }

    /// Reads the header of a mail.
    ///
    /// # Errors
    /// As [`Extract::extract`].
    pub async fn mail_header(&self, header: Vec<u8>) -> Result<MailHeader, ExtractError> {
        match self.extract(Request::MailHeader(header)).await? {
            Answer::MailHeader(header) => Ok(header),
            Answer::Page(_) | Answer::Mail(_) => Err(ExtractError::Garbled),
        }
    }

    /// Reads a mail, or its beginning.
    ///
    /// # Errors
    /// As [`Extract::extract`].
    pub async fn mail(&self, mail: Vec<u8>) -> Result<MailText, ExtractError> {
        match self.extract(Request::Mail(mail)).await? {
            Answer::Mail(text) => Ok(text),
            Answer::Page(_) | Answer::MailHeader(_) => Err(ExtractError::Garbled),
        }
    }
}

/// Reads one document in this process, without any limit: the work of the helper, and of tests.
///
/// # Errors
/// [`ExtractError::Unreadable`].
pub fn read(request: Request) -> Result<Answer, ExtractError> {
    match request {
        Request::Page(page) => page::read(&page).map(Answer::Page),
        Request::MailHeader(header) => mail::header(&header).map(Answer::MailHeader),
        Request::Mail(mail) => mail::text(mail).map(Answer::Mail),
    }
}
