//! What is known about each vendor: names, addresses, and how its API differs from its model.
//!
//! Decision: a vendor is a row of data, and code asks for a row's property, never for its name.
//! Order matters: earlier rows win among equals. A provider that people name themselves is read
//! with the row [`CUSTOM`].

mod entries;
mod select;
mod window;
mod wire_model;

pub use entries::{CUSTOM, DEMO, TABLE};
pub use select::{Section, SelectError, Selection, select};
pub use window::context_window;
pub use wire_model::wire_model;

/// The protocol that a vendor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's `/chat/completions`.
    OpenAi,
    /// OpenAI's `/chat/completions` under a deployment's address, with the key in `api-key`.
    Azure,
    /// Anthropic's `/v1/messages`.
    Anthropic,
    /// None: the answers are made in the program.
    Demo,
    /// One that this program does not speak yet; why, for people.
    Unsupported(&'static str),
}

/// How a vendor is reached and recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Makes or serves its own models and needs a key.
    Vendor,
    /// Passes requests on to many vendors and needs a key.
    Gateway,
    /// A server that the user runs; no key needed.
    Local,
    /// Takes part in a match only by its own name or section.
    Direct,
    /// Signs in without a key.
    SignIn,
    /// Turns speech into text with a key, and has no model that answers.
    Speech,
}

/// What becomes of a model name on its way to the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelRule {
    /// It is sent as it is.
    Verbatim,
    /// Only what follows the last `/` is sent.
    LastSegment,
    /// The vendor's own name in front is taken off once; so are these spellings.
    StripOwn(&'static [&'static str]),
    /// The own name is taken off only when a vendor's name follows it.
    StripBeforeVendor,
}

/// How a request for more or less reasoning is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// `reasoning_effort`.
    Effort,
    /// `reasoning: {effort}`.
    ReasoningObject,
    /// `thinking: {type}`, `enabled` or `disabled`.
    Type,
    /// `enable_thinking`, a flag.
    Flag,
    /// `reasoning_split`, a flag.
    Split,
    /// `reasoning_effort`, which knows `none` and `high` only.
    NoneOrHigh,
}

/// How a vendor's chat API differs from OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// Call ids must be nine letters and digits.
    pub short_ids: bool,
    /// The name under which reasoning is sent back; `None` when it must not be.
    pub reasoning_back: Option<&'static str>,
    /// Marks of what to cache are understood, where the model's vendor takes them.
    pub cache_marks: bool,
    /// `prompt_cache_key` is understood.
    pub cache_key: bool,
    /// The limit is called `max_completion_tokens`.
    pub completion_limit: bool,
    /// How reasoning is asked for.
    pub thinking: Thinking,
    /// Temperatures that models insist on, by a part of their names.
    pub temperatures: &'static [(&'static str, f64)],
}

impl Quirks {
    /// None.
    pub const NONE: Self = Self {
        short_ids: false,
        reasoning_back: Some("reasoning_content"),
        cache_marks: false,
        cache_key: false,
        completion_limit: false,
        thinking: Thinking::Effort,
        temperatures: &[],
    };
}

/// One vendor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderSpec {
    /// Its name in `snake_case`.
    pub name: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// Words in a model's name that speak for it.
    pub keywords: &'static [&'static str],
    /// Environment variables that hold its key and nobody else's, the first that is set counts.
    pub environment: &'static [&'static str],
    /// Its address; `None` when it has to be configured.
    pub base: Option<&'static str>,
    /// How its keys begin; empty when they are not told apart.
    pub key_prefix: &'static str,
    /// What its addresses contain; empty when they are not told apart.
    pub base_marker: &'static str,
    /// How it is reached.
    pub kind: Kind,
    /// What it speaks.
    pub wire: Wire,
    /// What becomes of model names.
    pub model: ModelRule,
    /// How its API differs.
    pub quirks: Quirks,
    /// What else to try when the key is refused; empty when nothing.
    pub key_hint: &'static str,
}

impl ProviderSpec {
    /// Whether it takes requests without a key.
    #[must_use]
    pub fn is_keyless(&self) -> bool {
        matches!(self.kind, Kind::Local | Kind::SignIn) || self.wire == Wire::Demo
    }

    /// The row of this name, written in `snake_case`, `kebab-case` or `camelCase`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let folded = fold_name(name);
        TABLE.iter().find(|spec| {
            fold_name(spec.name) == folded || (spec.name == "opencode" && folded == "opencodezen")
        })
    }
}

/// A name without the marks that set its spellings apart.
fn fold_name(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}
