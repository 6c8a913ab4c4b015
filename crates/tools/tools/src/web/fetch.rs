//! `web_fetch`.
//!
//! The guard checks every hop, redirects included. The result is a JSON document, even for an
//! error, and marks the text as untrusted: its bounds have a digest of it, so that a page cannot
//! imitate its own end, and characters that a person would not see are removed.

use std::{sync::Arc, time::Duration};

use nanobot_extract::{ExtractError, PageRequest, TextMode};
use nanobot_tool::{CallReview, ToolContext};
use nanobot_types::{Effect, Picture, PictureFormat, ToolResult, WholeText, chain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{WebError, client::HttpClients, decode::DecodedBody, external::External, jina};
use crate::{config::FetchConfig, files::pixel_size, operation::Operation};

/// Timeout for all hops and the body together.
const TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CHARACTERS: usize = 50_000;
const MIN_CHARACTERS: usize = 100;
/// Maximum number of digits in the length of a text.
const LENGTH: usize = 20;

#[derive(Debug)]
pub(crate) struct WebFetch {
    config: FetchConfig,
    http: Arc<HttpClients>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FetchArguments {
    url: String,
    #[serde(default)]
    extract_mode: TextMode,
    max_chars: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fetched {
    url: String,
    final_url: String,
    status: u16,
    extractor: &'static str,
    truncated: bool,
    length: usize,
    untrusted: bool,
    text: String,
}

/// The result for a page, and its whole text if that is longer.
struct FetchedPage {
    document: Fetched,
    whole: Option<WholeText>,
    picture: Option<Picture>,
}

/// The content of a page.
struct Extracted {
    text: String,
    extractor: &'static str,
    /// `true` if the page was truncated.
    cut: bool,
    picture: Option<Picture>,
}

#[derive(Serialize)]
struct Failed<'a> {
    error: &'a str,
    url: &'a str,
}

impl WebFetch {
    pub(crate) const fn new(config: FetchConfig, http: Arc<HttpClients>) -> Self {
        Self { config, http }
    }

    /// Fetches a page and returns a document of at most `room` characters, if it can be that short.
    async fn fetch(
        &self,
        arguments: &FetchArguments,
        room: usize,
    ) -> Result<FetchedPage, WebError> {
        let target = self.http.guard().check(&arguments.url).await?;
        if self.config.use_jina_reader {
            let base = &self.config.jina_reader_base;
            let page = jina::read(&self.http, base, target.url().as_str()).await;
            if let Some(page) = page {
                let extracted = Extracted {
                    text: page.text(),
                    extractor: "jina",
                    cut: false,
                    picture: None,
                };
                let place = page.url.unwrap_or_else(|| target.url().to_string());
                return Ok(extracted.page(arguments, place, 200, room));
            }
        }
        // Starting the extractor takes about as long as downloading a page, so start it now.
        self.http.extractor().prepare();
        let download = async {
            let (response, target) = self.http.follow(target, |_| Ok::<_, WebError>(())).await?;
            let status = response.status();
            if !status.is_success() {
                return Err(WebError::of_status(status));
            }
            Ok((DecodedBody::read(response).await?, status, target))
        };
        let Ok(downloaded) = tokio::time::timeout(TIMEOUT, download).await else {
            return Err(WebError::passing(format!(
                "the page took longer than {} seconds",
                TIMEOUT.as_secs()
            )));
        };
        let (body, status, target) = downloaded?;
        let place = target.url().to_string();
        let extracted = self.extract(body, &place, arguments.extract_mode).await?;
        Ok(extracted.page(arguments, place, status.as_u16(), room))
    }

    /// Extracts the text of a body in the helper process; a picture is returned as it is.
    async fn extract(
        &self,
        body: DecodedBody,
        url: &str,
        mode: TextMode,
    ) -> Result<Extracted, WebError> {
        if body.bytes.starts_with(b"%PDF-") {
            return self.extract_pdf(body).await;
        }
        if let Some(format) = PictureFormat::of(&body.bytes) {
            return Ok(picture(format, body));
        }
        let DecodedBody {
            content_type,
            bytes,
            cut,
        } = body;
        let request = PageRequest {
            url: url.to_owned(),
            content_type,
            mode,
            body: bytes,
        };
        let page = self.http.extractor().page(request).await;
        let page = page.map_err(|error| unread(error, "page"))?;
        Ok(Extracted {
            text: page.text,
            extractor: page.extractor.as_str(),
            cut: cut || page.cut,
            picture: None,
        })
    }

    async fn extract_pdf(&self, body: DecodedBody) -> Result<Extracted, WebError> {
        if body.cut {
            let size = body.bytes.len();
            return Err(format!("the PDF document is larger than {size} bytes").into());
        }
        let found = self.http.extractor().pdf(body.bytes).await;
        let found = found.map_err(|error| unread(error, "PDF document"))?;
        Ok(Extracted {
            text: found.text,
            extractor: "pdf",
            cut: found.cut,
            picture: None,
        })
    }
}

fn unread(error: ExtractError, kind: &str) -> WebError {
    if let ExtractError::Unreadable(reason) = error {
        return WebError::from(reason);
    }
    tracing::warn!(%error, "a web page could not be read");
    // These errors mean that the machine was busy; the page itself may be fine.
    let may_pass = matches!(error, ExtractError::TimedOut | ExtractError::Start(_));
    WebError {
        reason: format!("the {kind} could not be read: {}", chain(&error)),
        may_pass,
    }
}

/// Returns a picture for models that see, with its description.
fn picture(format: PictureFormat, body: DecodedBody) -> Extracted {
    let pixels = pixel_size(format, &body.bytes).map_or_else(String::new, |(width, height)| {
        format!(" of {width} × {height} pixels")
    });
    let (size, name) = (body.bytes.len(), format!("{format:?}").to_uppercase());
    let (text, picture) = if body.cut {
        (
            format!("(A {name} picture{pixels}, too large to show.)"),
            None,
        )
    } else {
        let bytes = body.bytes;
        let text = format!("(A {name} picture{pixels}, {size} bytes.)");
        (text, Some(Picture { format, bytes }))
    };
    Extracted {
        text,
        extractor: "image",
        cut: body.cut,
        picture,
    }
}

impl Extracted {
    /// Builds a document of at most `room` characters, or longer if it would otherwise contain less
    /// than the minimum of its text.
    fn page(
        self,
        arguments: &FetchArguments,
        final_url: String,
        status: u16,
        room: usize,
    ) -> FetchedPage {
        let Self {
            text,
            extractor,
            cut,
            picture,
        } = self;
        let mut document = Fetched {
            url: arguments.url.clone(),
            final_url,
            status,
            extractor,
            truncated: cut,
            length: 0,
            untrusted: true,
            text: String::new(),
        };
        let around = serde_json::to_string(&document).map_or(0, |text| text.chars().count());
        let content = External::new(&text);
        let wanted = arguments
            .max_chars
            .unwrap_or(DEFAULT_CHARACTERS)
            .max(MIN_CHARACTERS);
        let room = room.saturating_sub(around + LENGTH + content.bounds_in_json());
        let fitting = fitting(content.text(), room).max(MIN_CHARACTERS);
        let shown = content.first(fitting.min(wanted));
        document.length = shown.text.chars().count();
        document.text = shown.text;
        document.truncated = shown.is_cut || cut;
        let whole = shown.is_cut.then(|| WholeText {
            text: content.whole(),
            shown: shown.end,
            is_complete: !cut,
        });
        FetchedPage {
            document,
            whole,
            picture,
        }
    }
}

/// Counts the leading characters of `text` that take at most `room` characters in JSON.
fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    let fits = |character: &char| {
        used += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => 1,
        };
        used <= room
    };
    text.chars().take_while(fits).count()
}

/// Returns the host of a URL, or the text if it is none.
fn host_of(url: &str) -> String {
    let parsed = Url::parse(url).ok();
    let host = parsed.as_ref().and_then(Url::host_str);
    host.unwrap_or(url).to_owned()
}

impl Operation for WebFetch {
    type Arguments = FetchArguments;
    const NAME: &'static str = "web_fetch";
    const DESCRIPTION: &'static str = "Read a web page.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "url": {"type": "string"},
                "extractMode": {"type": "string", "enum": ["markdown", "text"]},
                "maxChars": {"type": "integer"},
            },
            "required": ["url"],
        })
    }

    async fn review(&self, arguments: &Value, _: &ToolContext) -> CallReview {
        let url = arguments.get("url").and_then(Value::as_str);
        CallReview {
            destination: url.map(host_of),
            ..CallReview::default()
        }
    }

    async fn run(&self, arguments: FetchArguments, context: &ToolContext) -> ToolResult {
        let outcome = tokio::select! {
            outcome = self.fetch(&arguments, context.max_result_chars) => outcome,
            () = context.cancel.cancelled() => Err("the fetch was stopped".to_owned().into()),
        };
        match outcome {
            Ok(FetchedPage {
                document,
                whole,
                picture,
            }) => match serde_json::to_string(&document) {
                Ok(text) => ToolResult {
                    whole,
                    pictures: picture.into_iter().collect(),
                    ..ToolResult::ok(text).from_strangers(Self::NAME)
                },
                Err(error) => ToolResult::error(format!("Error: {error}")),
            },
            Err(error) => match serde_json::to_string(&Failed {
                error: &error.reason,
                url: &arguments.url,
            }) {
                Ok(text) => error.result(text),
                Err(error) => ToolResult::error(format!("Error: {error}")),
            },
        }
    }
}
