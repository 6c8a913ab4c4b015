//! The contract of a markup: documents, their length, and how a platform writes them.
//!
//! Decision: a platform's markup is a trait object that its channel hands over in a [`TextStyle`],
//! so a platform with a markup of its own touches its own crate only. `nanobot-text` parses
//! Markdown, splits it and calls the markup; this crate holds the types that both sides share. It
//! has no dependencies, because every channel of a third party compiles it through
//! `nanobot-channel`.
//!
//! A markup is written in one of three ways, each a [`Format`]:
//!
//! - [`Format::Markdown`]: the Markdown of the model, unchanged.
//! - [`Format::Markup`]: a [`Markup`] renders each part from a [`Document`], which is flat text
//!   with marks on ranges of it. Two writers do most of the work: [`render_tags`] for markups of
//!   opening and closing tags ([`TagMarkup`]), [`render_lines`] for markups of special characters
//!   ([`LineMarkup`]).
//! - [`Format::Whole`]: a [`WholeMarkup`] renders a text that is never split from the [`Event`]s of
//!   the parser, with its lists and tables.
//!
//! Out of scope: parsing Markdown, choosing where a text is split, and any platform.
//!
//! # Example
//!
//! A markup of tags, `[b]bold[/b]`:
//!
//! ```
//! use nanobot_markup::{Document, Mark, Span, TagMarkup, Tags, render_tags};
//!
//! #[derive(Debug)]
//! struct BbCode;
//!
//! impl TagMarkup for BbCode {
//!     fn tags(&self, mark: &Mark, _text: &str) -> Option<Tags> {
//!         match mark {
//!             Mark::Bold | Mark::Heading { .. } => Some(Tags::new("[b]", "[/b]")),
//!             Mark::Italic => Some(Tags::new("[i]", "[/i]")),
//!             _ => None,
//!         }
//!     }
//!
//!     fn escape(&self, text: &str, out: &mut String) {
//!         out.push_str(&text.replace('[', "&#91;"));
//!     }
//! }
//!
//! let document = Document {
//!     text: "a bold [word]".to_owned(),
//!     spans: vec![Span { range: 2..6, mark: Mark::Bold }],
//!     ..Document::default()
//! };
//! assert_eq!(render_tags(&document, &BbCode), "a [b]bold[/b] &#91;word]");
//! ```

mod document;
mod event;
pub mod html;
mod line;
mod markup;
mod measure;
mod style;
mod table;
mod tag;
mod text;

pub use document::{Document, Mark, Span};
pub use event::{Alignment, Event, Tag, TagEnd, WholeMarkup};
pub use line::{
    LineMarkup, MarkupLine, TextRun, ZERO_WIDTH_SPACE, longest_backtick_run, push_fenced,
    render_lines, with_neighbours,
};
pub use markup::{Markup, Overhead, PlainText, TableLimits};
pub use measure::Measure;
pub use style::{Format, TextStyle};
pub use table::{Block, Table};
pub use tag::{TagMarkup, Tags, render_tags};
pub use text::{is_web_address, slice, starts_with_scheme};
