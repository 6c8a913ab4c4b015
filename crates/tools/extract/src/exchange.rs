//! Requests and responses, and their encoding as the parts of a frame.
//!
//! Decision: metadata is encoded as JSON in the first part, documents and files as bytes in the
//! others.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::ExtractError;

/// A document to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractRequest {
    /// A web page, or any other body that a web server sent.
    Page(PageRequest),
    /// The header of a mail, as the server sent it.
    MailHeader(Vec<u8>),
    /// The headers of several mails.
    MailHeaders(Vec<Vec<u8>>),
    /// A mail, or its beginning.
    Mail(Vec<u8>),
    /// A PDF document, for its text.
    Pdf(Vec<u8>),
    /// A PDF document, for a picture of one page; the first is number 1.
    PdfPage(Vec<u8>, u32),
}

/// A body that a web server sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    /// Address of the page, which relative links refer to.
    pub url: String,
    /// Value of the header `Content-Type`; empty if there was none.
    pub content_type: String,
    /// Form of the text.
    pub mode: TextMode,
    /// The bytes, decompressed.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// Form of the text of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextMode {
    /// Headings, lists and links in Markdown.
    #[default]
    Markdown,
    /// Text alone.
    Text,
}

/// A response, of the kind of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractResponse {
    /// The content of a page.
    Page(PageText),
    /// The header of a mail.
    MailHeader(MailHeader),
    /// The headers of several mails, in the order of the request; `None` for one that cannot be
    /// read.
    MailHeaders(Vec<Option<MailHeader>>),
    /// The content of a mail.
    Mail(MailText),
    /// The text of a PDF document.
    Pdf(PdfText),
    /// A picture in PNG or JPEG.
    Picture(Vec<u8>),
}

/// The text of a PDF document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfText {
    /// The text, each page after a line `--- Page N of M ---`.
    #[serde(skip)]
    pub text: String,
    /// Number of pages of the document.
    pub pages: u32,
    /// Pages without text, such as scans, in order.
    pub without_text: Vec<u32>,
    /// `true` if the text was truncated to the maximum size of a response.
    pub cut: bool,
}

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    /// The text, as found by `extractor`.
    #[serde(skip)]
    pub text: String,
    /// Method that extracted the text.
    pub extractor: Extractor,
    /// `true` if the text was truncated to the maximum size of a response.
    pub cut: bool,
}

/// Method that extracted the text of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extractor {
    /// A JSON document, indented.
    Json,
    /// The main content of a page.
    Readability,
    /// The body unchanged, or with its tags removed.
    Raw,
}

impl Extractor {
    /// Returns the name that `web_fetch` shows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Readability => "readability",
            Self::Raw => "raw",
        }
    }
}

/// Fields of the header of a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailHeader {
    /// Mailboxes in `From`, at most two; empty if the field is missing or is a group.
    pub from: Vec<Mailbox>,
    /// `Subject`, decoded.
    pub subject: Option<String>,
    /// `Message-ID` without brackets.
    pub message_id: Option<String>,
    /// Ids in `In-Reply-To` without brackets; only the first ones.
    pub in_reply_to: Vec<String>,
    /// Ids in `References` without brackets, oldest first. A long list is reduced to the first and
    /// the last ids.
    pub references: Vec<String>,
    /// Names and values of all fields, undecoded, the topmost first.
    pub fields: Vec<(String, String)>,
}

impl MailHeader {
    /// Returns the undecoded values of a field, the topmost first.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// One entry of an address list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Display name, decoded.
    pub name: Option<String>,
    /// The address, undecoded.
    pub address: Option<String>,
}

/// The text of a mail and its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailText {
    /// The text, with `\n` line ends; empty if there is none.
    #[serde(skip)]
    pub text: String,
    /// The files, at most [`MailText::MAX_FILES`].
    pub files: Vec<MailFile>,
}

impl MailText {
    /// Maximum number of files in a response.
    pub const MAX_FILES: usize = 1000;
}

/// A file in a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailFile {
    /// File name given by the sender.
    pub name: String,
    /// Media type stated by the mail, in lower case.
    pub mime: Option<String>,
    /// The content, decoded.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// The unencoded parts of a frame: metadata, then documents.
pub(crate) type Parts = Vec<Vec<u8>>;

#[derive(Serialize, Deserialize)]
enum RequestFacts {
    Page(PageRequest),
    MailHeader,
    MailHeaders,
    Mail,
    Pdf,
    PdfPage(u32),
}

#[derive(Serialize, Deserialize)]
enum AnswerFacts {
    Page(PageText),
    MailHeader(MailHeader),
    MailHeaders(Vec<Option<MailHeader>>),
    Mail(MailText),
    Pdf(PdfText),
    Picture,
    Unreadable(String),
    Broken,
}

impl ExtractRequest {
    /// Returns the size of the document in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Page(page) => page.body.len(),
            Self::MailHeaders(headers) => headers.iter().map(Vec::len).sum(),
            Self::MailHeader(bytes)
            | Self::Mail(bytes)
            | Self::Pdf(bytes)
            | Self::PdfPage(bytes, _) => bytes.len(),
        }
    }

    pub(crate) fn into_parts(self) -> Result<Parts, ExtractError> {
        let (facts, document) = match self {
            Self::Page(mut page) => {
                let body = std::mem::take(&mut page.body);
                (RequestFacts::Page(page), body)
            }
            Self::MailHeader(bytes) => (RequestFacts::MailHeader, bytes),
            Self::MailHeaders(headers) => {
                let facts = written(&RequestFacts::MailHeaders)?;
                return Ok([vec![facts], headers].concat());
            }
            Self::Mail(bytes) => (RequestFacts::Mail, bytes),
            Self::Pdf(bytes) => (RequestFacts::Pdf, bytes),
            Self::PdfPage(bytes, number) => (RequestFacts::PdfPage(number), bytes),
        };
        Ok(vec![written(&facts)?, document])
    }

    pub(crate) fn from_parts(parts: Parts) -> Result<Self, ExtractError> {
        let (facts, mut documents) = taken_apart(parts)?;
        let mut document = || documents.next().ok_or(ExtractError::Garbled);
        Ok(match facts {
            RequestFacts::Page(page) => Self::Page(PageRequest {
                body: document()?,
                ..page
            }),
            RequestFacts::MailHeader => Self::MailHeader(document()?),
            RequestFacts::MailHeaders => Self::MailHeaders(documents.collect()),
            RequestFacts::Mail => Self::Mail(document()?),
            RequestFacts::Pdf => Self::Pdf(document()?),
            RequestFacts::PdfPage(number) => Self::PdfPage(document()?, number),
        })
    }
}

/// Encodes a response of the helper.
pub(crate) fn answer_parts(
    answer: Result<ExtractResponse, ExtractError>,
) -> Result<Parts, ExtractError> {
    let mut documents = Vec::new();
    let facts = match answer {
        Ok(ExtractResponse::Page(mut page)) => {
            documents.push(std::mem::take(&mut page.text).into_bytes());
            AnswerFacts::Page(page)
        }
        Ok(ExtractResponse::MailHeader(header)) => AnswerFacts::MailHeader(header),
        Ok(ExtractResponse::MailHeaders(headers)) => AnswerFacts::MailHeaders(headers),
        Ok(ExtractResponse::Mail(mut mail)) => {
            documents.push(std::mem::take(&mut mail.text).into_bytes());
            documents.extend(
                mail.files
                    .iter_mut()
                    .map(|file| std::mem::take(&mut file.bytes)),
            );
            AnswerFacts::Mail(mail)
        }
        Ok(ExtractResponse::Pdf(mut pdf)) => {
            documents.push(std::mem::take(&mut pdf.text).into_bytes());
            AnswerFacts::Pdf(pdf)
        }
        Ok(ExtractResponse::Picture(bytes)) => {
            documents.push(bytes);
            AnswerFacts::Picture
        }
        Err(ExtractError::Unreadable(reason)) => AnswerFacts::Unreadable(reason),
        Err(_) => AnswerFacts::Broken,
    };
    let mut parts = vec![written(&facts)?];
    parts.append(&mut documents);
    Ok(parts)
}

/// Decodes a response of the helper.
pub(crate) fn answer_of(parts: Parts) -> Result<ExtractResponse, ExtractError> {
    let (facts, mut documents) = taken_apart(parts)?;
    let mut document = || documents.next().ok_or(ExtractError::Garbled);
    let text = |bytes| String::from_utf8(bytes).map_err(|_not_text| ExtractError::Garbled);
    let answer = match facts {
        AnswerFacts::Page(page) => ExtractResponse::Page(PageText {
            text: text(document()?)?,
            ..page
        }),
        AnswerFacts::MailHeader(header) => ExtractResponse::MailHeader(header),
        AnswerFacts::MailHeaders(headers) => ExtractResponse::MailHeaders(headers),
        AnswerFacts::Mail(mut mail) => {
            mail.text = text(document()?)?;
            for file in &mut mail.files {
                file.bytes = document()?;
            }
            ExtractResponse::Mail(mail)
        }
        AnswerFacts::Pdf(pdf) => ExtractResponse::Pdf(PdfText {
            text: text(document()?)?,
            ..pdf
        }),
        AnswerFacts::Picture => ExtractResponse::Picture(document()?),
        AnswerFacts::Unreadable(reason) => return Err(ExtractError::Unreadable(reason)),
        AnswerFacts::Broken => return Err(ExtractError::Broken),
    };
    if documents.next().is_some() {
        Err(ExtractError::Garbled)
    } else {
        Ok(answer)
    }
}

fn written(facts: &impl Serialize) -> Result<Vec<u8>, ExtractError> {
    serde_json::to_vec(facts).map_err(|_not_json| ExtractError::Garbled)
}

fn taken_apart<T: DeserializeOwned>(
    parts: Parts,
) -> Result<(T, std::vec::IntoIter<Vec<u8>>), ExtractError> {
    let mut parts = parts.into_iter();
    let facts = parts.next().ok_or(ExtractError::Garbled)?;
    let facts = serde_json::from_slice(&facts).map_err(|_not_json| ExtractError::Garbled)?;
    Ok((facts, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_round_trip() {
        let requests = [
            ExtractRequest::Page(PageRequest {
                url: "http://x.example/".into(),
                content_type: "text/html".into(),
                mode: TextMode::Text,
                body: vec![0, 255],
            }),
            ExtractRequest::MailHeader(vec![1]),
            ExtractRequest::MailHeaders(Vec::new()),
            ExtractRequest::MailHeaders(vec![vec![1], Vec::new(), vec![2]]),
            ExtractRequest::Mail(Vec::new()),
            ExtractRequest::Pdf(vec![3]),
            ExtractRequest::PdfPage(vec![3], 7),
        ];
        for request in requests {
            assert_eq!(
                ExtractRequest::from_parts(request.clone().into_parts().unwrap()).unwrap(),
                request
            );
        }
        let file = MailFile {
            name: "a".into(),
            mime: Some("image/png".into()),
            bytes: vec![1, 2],
        };
        let answers = [
            ExtractResponse::Page(PageText {
                text: "ä".into(),
                extractor: Extractor::Raw,
                cut: true,
            }),
            ExtractResponse::MailHeader(MailHeader {
                fields: vec![("A".into(), " b".into())],
                ..MailHeader::default()
            }),
            ExtractResponse::MailHeaders(vec![None, Some(MailHeader::default())]),
            ExtractResponse::Mail(MailText {
                text: "t".into(),
                files: vec![file.clone(), file],
            }),
            ExtractResponse::Pdf(PdfText {
                text: "é".into(),
                pages: 2,
                without_text: vec![2],
                cut: true,
            }),
            ExtractResponse::Picture(vec![0, 255]),
        ];
        for answer in answers {
            assert_eq!(
                answer_of(answer_parts(Ok(answer.clone())).unwrap()).unwrap(),
                answer
            );
        }
    }

    #[test]
    fn rejects_garbled_responses() {
        let page = || {
            answer_parts(Ok(ExtractResponse::Page(PageText {
                text: "x".into(),
                extractor: Extractor::Raw,
                cut: false,
            })))
        };
        let more = [page().unwrap(), vec![vec![1]]].concat();
        let less = page().unwrap().into_iter().take(1).collect();
        let binary = page()
            .unwrap()
            .into_iter()
            .take(1)
            .chain([vec![0xff]])
            .collect();
        for parts in [Vec::new(), vec![b"{".to_vec()], more, less, binary] {
            assert!(matches!(answer_of(parts), Err(ExtractError::Garbled)));
        }
    }
}
