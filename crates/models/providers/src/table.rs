//! The vendor table: names, addresses, and how each API differs from the one it imitates.
//!
//! Decision: a vendor is a row of data, and code asks for a row's property, never for its name.
//! Order matters: earlier rows win among equals. A custom provider uses the row [`CUSTOM`].

mod entries;
mod price;
mod route;
mod select;
mod window;
mod wire_model;

pub use entries::{CUSTOM, DEMO, TABLE};
pub use price::{model_price, price_date};
pub use route::{Route, SelectRule};
pub use select::{
    Section, SelectError, Selection, preferred, route, select, suggestion, usable_names,
};
pub use window::context_window;
use wire_model::wire_model;

/// The protocol that a vendor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    /// OpenAI's `/chat/completions`.
    OpenAi,
    /// OpenAI's `/chat/completions` under the address of a deployment, with the key in `api-key`.
    Azure,
    /// OpenAI's `/responses`.
    Responses,
    /// Anthropic's `/v1/messages`.
    Anthropic,
    /// No protocol: responses are generated in-process.
    Demo,
    /// Not supported yet; the text tells the user why.
    Unsupported(&'static str),
}

/// The way a vendor is reached and recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// Makes or serves its own models and needs a key.
    Vendor,
    /// Forwards requests to many vendors and needs a key.
    Gateway,
    /// A server that the user runs; no key needed.
    Local,
    /// Matches only by its own name or section.
    Direct,
    /// Uses a sign-in instead of a key.
    SignIn,
    /// Turns speech into text with a key, and has no chat model.
    Speech,
}

/// The kind of login that a vendor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// ChatGPT: OAuth with an authorization code and PKCE.
    Codex,
    /// GitHub: a device code, and a token that is exchanged for one of Copilot.
    Copilot,
    /// xAI: OAuth with an authorization code and PKCE.
    Grok,
}

/// Rule that turns a configured model name into the one sent to the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelRule {
    /// Sends the name unchanged.
    Verbatim,
    /// Sends only the part after the last `/`.
    LastSegment,
    /// Strips the vendor's own name, or one of these spellings, once from the front.
    StripOwn(&'static [&'static str]),
    /// Strips the own name only if another vendor's name follows it.
    StripBeforeVendor,
}

/// The parameter that controls reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningParam {
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
    /// `reasoning_effort`, only with the values `none` and `high`.
    NoneOrHigh,
}

/// API of a local server that reports the context window of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowApi {
    /// `/api/ps` of Ollama, and `/api/show` for a model that is not loaded.
    Ollama,
    /// `/api/v0/models` of LM Studio.
    LmStudio,
    /// `max_model_len` in the list of models, as vLLM sends it.
    ModelList,
    /// `/props` of llama.cpp.
    Props,
}

/// Differences between a vendor's chat API and OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// `true` if call ids must be nine letters and digits.
    pub short_ids: bool,
    /// The member that sends reasoning back; `None` if it must not be sent.
    pub reasoning_back: Option<&'static str>,
    /// `true` if `cache_control` marks are supported, for models whose vendor uses them.
    pub cache_marks: bool,
    /// `true` if `prompt_cache_key` is supported.
    pub cache_key: bool,
    /// `true` if the limit is called `max_completion_tokens`.
    pub completion_limit: bool,
    /// The parameter that controls reasoning.
    pub thinking: ReasoningParam,
    /// Temperatures that models insist on, by a part of their names.
    pub temperatures: &'static [(&'static str, f64)],
    /// `true` if neither a limit nor a temperature may be sent to `/responses`.
    pub fixed_generation: bool,
    /// The verbosity to ask for with `/responses`.
    pub verbosity: Option<&'static str>,
}

impl Quirks {
    /// No differences.
    pub const NONE: Self = Self {
        short_ids: false,
        reasoning_back: Some("reasoning_content"),
        cache_marks: false,
        cache_key: false,
        completion_limit: false,
        thinking: ReasoningParam::Effort,
        temperatures: &[],
        fixed_generation: false,
        verbosity: None,
    };
}

/// A row of the table: one vendor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderSpec {
    /// Its name in `snake_case`.
    pub name: &'static str,
    /// Its display name.
    pub label: &'static str,
    /// Words in a model's name that suggest this vendor.
    pub keywords: &'static [&'static str],
    /// Environment variables that hold only this vendor's key; the first that is set is used.
    pub environment: &'static [&'static str],
    /// Its base address; `None` if it has to be configured.
    pub base: Option<&'static str>,
    /// Prefix of its keys; empty if they have none.
    pub key_prefix: &'static str,
    /// Text that its addresses contain; empty if they are not recognised.
    pub base_marker: &'static str,
    /// The way it is reached and recognised.
    pub kind: ProviderKind,
    /// The protocol that it speaks.
    pub wire: WireProtocol,
    /// Its login; `None` if it has a key or neither.
    pub sign_in: Option<SignIn>,
    /// Rule for model names.
    pub model: ModelRule,
    /// The model to use if the configuration names none; `None` if the vendor has no such model.
    pub default_model: Option<&'static str>,
    /// `true` if its list of models needs no key, so that the list does not check one.
    pub public_list: bool,
    /// Words, between hyphens, in the names of models that only `/responses` serves.
    pub responses_models: &'static [&'static str],
    /// Differences of its API.
    pub quirks: Quirks,
    /// The API that reports the window of a model, which only local servers have.
    pub window_api: Option<WindowApi>,
    /// Advice for a rejected key; may be empty.
    pub key_hint: &'static str,
}

impl ProviderSpec {
    /// Returns `true` if it accepts requests without a key.
    #[must_use]
    pub fn is_keyless(&self) -> bool {
        matches!(self.kind, ProviderKind::Local | ProviderKind::SignIn)
            || self.wire == WireProtocol::Demo
    }

    /// Returns `true` if a model, in the vendor's spelling, is served by `/responses` only.
    #[must_use]
    pub fn needs_responses(&self, model: &str) -> bool {
        let model = format!("-{}-", model.to_lowercase());
        let is_in_name = |words: &&&str| model.contains(&format!("-{words}-"));
        self.responses_models.iter().any(|words| is_in_name(&words))
    }

    /// Returns `true` if its API has a list of models.
    #[must_use]
    pub fn lists_models(&self) -> bool {
        self.sign_in.is_none()
            && matches!(self.wire, WireProtocol::OpenAi | WireProtocol::Anthropic)
    }

    /// Finds a row by name, written in `snake_case`, `kebab-case` or `camelCase`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|spec| {
            is_same_name(spec.name, name)
                || (spec.name == "opencode" && is_same_name("opencodezen", name))
        })
    }
}

/// Returns `true` if two names differ only in their spelling.
fn is_same_name(one: &str, other: &str) -> bool {
    folded(one).eq(folded(other))
}

/// Returns the letters of a name in which its spellings are equal.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
}
