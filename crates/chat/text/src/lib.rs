//! Renders Markdown in a platform's markup and splits it into parts.
//!
//! Decision: Markdown is parsed once into a [`Document`], flat text with marks over ranges of it,
//! as chat platforms model text themselves. Splitting cuts the flat text and clips the marks, so a
//! part never ends inside a tag, and its length is what the platform counts. Where a platform
//! counts markup too, its [overhead](nanobot_markup::Overhead) is known before the text is split. A
//! channel that wants Markdown gets the source itself, with links in place of images, split where
//! Markdown allows it.
//!
//! Out of scope: any platform. A markup is a trait object of `nanobot-markup` that the channel
//! hands over. Only white space is lost where a text is split.
//!
//! # Example
//!
//! A markup in which only bold text exists, as `+bold+`:
//!
//! ```
//! use nanobot_markup::{
//!     Document, Format, Mark, Markup, Measure, Overhead, TagMarkup, Tags, TextStyle, render_tags,
//! };
//!
//! #[derive(Debug)]
//! struct Plus;
//!
//! impl TagMarkup for Plus {
//!     fn tags(&self, mark: &Mark, _text: &str) -> Option<Tags> {
//!         matches!(mark, Mark::Bold | Mark::Heading { .. }).then(|| Tags::new("+", "+"))
//!     }
//!
//!     fn escape(&self, text: &str, out: &mut String) {
//!         out.push_str(&text.replace('+', "\\+"));
//!     }
//! }
//!
//! impl Markup for Plus {
//!     fn render(&self, document: &Document) -> String {
//!         render_tags(document, self)
//!     }
//!
//!     fn link_schemes(&self) -> &'static [&'static str] {
//!         &[]
//!     }
//!
//!     fn overhead(&self) -> Option<&dyn Overhead> {
//!         None
//!     }
//! }
//!
//! let style = TextStyle {
//!     format: Format::Markup(&Plus),
//!     measure: Measure::CodePoints,
//!     limit: 16,
//! };
//! let markdown = "# Title\n\nOne **two**.\n\nThree + **four**.";
//! let parts: Vec<String> = nanobot_text::render(markdown, style)
//!     .into_iter()
//!     .map(|part| part.text)
//!     .collect();
//! assert_eq!(parts, ["+Title+\n\nOne +two+.", "Three \\+ +four+."]);
//! ```

mod address;
mod builder;
mod cjk;
mod depth;
mod image;
mod markdown;
mod mask;
mod native_table;
mod overhead;
mod parse;
mod part;
mod part_by_part;
mod preprocess;
mod render;
mod split;
mod table;
mod whole;

pub use builder::{Links, parse};
pub use part::RenderedPart;
pub use render::render;

#[cfg(doc)]
use nanobot_markup::Document;
