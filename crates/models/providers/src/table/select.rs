//! Selects the provider that serves a model, given what is configured.
//!
//! Decision: a name wins over a keyword, and a keyword over any configured provider. Keywords match
//! whole words (`ark` does not match `spark`; digits may follow, as in `qwen3`), and longer ones
//! win. A local server matches a keyword only if its address is configured.

use nanobot_types::ProviderName;

use super::{
    CUSTOM, ProviderKind, ProviderSpec, Route, SelectRule, TABLE, WireProtocol, folded,
    is_same_name, wire_model,
};
use crate::{ApiKey, ProviderSettings};

/// Providers that are preferred if several have a key and no model is named.
const FIRST: [&str; 3] = ["anthropic", "openai", "openrouter"];

/// Likeness from which a name is suggested for a mistyped one.
const SIMILAR: f64 = 0.85;

/// The parts of a provider's configuration that matter for the selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section<'a> {
    /// Name of the section, in any spelling. A name that is not in the table is a custom provider.
    pub name: &'a str,
    /// `true` if it has a key.
    pub has_key: bool,
    /// The leading characters by which vendors mark their keys; empty if unknown.
    pub key_prefix: &'a str,
    /// The configured address.
    pub api_base: Option<&'a str>,
}

impl<'a> Section<'a> {
    /// Creates the section `name` from its settings.
    #[must_use]
    pub fn of(name: &'a str, settings: &'a ProviderSettings) -> Self {
        let base = settings
            .api_base
            .as_deref()
            .map(str::trim)
            .filter(|base| !base.is_empty());
        let key = settings.api_key.as_ref();
        Self {
            name,
            has_key: key.is_some(),
            key_prefix: key.map_or("", ApiKey::prefix),
            api_base: base,
        }
    }
}

/// The provider selected for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The name of its section: its key is found, and its reasoning tagged, under this name.
    pub name: ProviderName,
    /// The row that describes its API.
    pub spec: &'static ProviderSpec,
}

impl Selection {
    /// Returns the model's name as its API spells it. The name of a section of one's own before it
    /// selects the section, and is not sent.
    #[must_use]
    pub fn wire_model<'a>(&self, model: &'a str) -> &'a str {
        let has_own_name = self.spec.name == CUSTOM.name && self.name.as_str() != CUSTOM.name;
        match model.split_once('/') {
            Some((prefix, rest)) if has_own_name && is_same_name(prefix, self.name.as_str()) => {
                rest
            }
            _ => wire_model(self.spec, model),
        }
    }
}

/// Reason why no provider was selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// `agents.defaults.provider` is not a known name.
    #[error("there is no provider {name:?}{}", alternatives(name))]
    UnknownProvider {
        /// The configured name.
        name: String,
    },
    /// A section has a key, but there is no vendor of its name, and it has no address.
    #[error(
        "providers.{section} has a key, but there is no provider {section:?}{}",
        section_hint(section)
    )]
    NoVendor {
        /// The section.
        section: String,
    },
    /// No model is named, and nothing is configured that could choose one.
    #[error("no model is configured, and no key is set")]
    Nothing,
    /// No model is named, and the provider has no usual one.
    #[error("no model is named, and {label} has no usual one")]
    NoModel {
        /// The vendor's display name.
        label: String,
    },
    /// No usable provider is configured.
    #[error("no provider is configured for the model {model:?}: set providers.{example}.apiKey")]
    NotConfigured {
        /// The model.
        model: String,
        /// A section that would serve the model.
        example: &'static str,
    },
}

fn alternatives(name: &str) -> String {
    match suggestion(name) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; known are {}", usable_names().join(", ")),
    }
}

fn section_hint(section: &str) -> String {
    match suggestion(section) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!(": name its server in providers.{section}.apiBase"),
    }
}

/// Returns the names of the providers that this program can use for chats.
#[must_use]
pub fn usable_names() -> Vec<&'static str> {
    let is_usable = |spec: &&ProviderSpec| {
        spec.kind != ProviderKind::Speech && !matches!(spec.wire, WireProtocol::Unsupported(_))
    };
    TABLE
        .iter()
        .filter(is_usable)
        .map(|spec| spec.name)
        .collect()
}

/// Returns the usable provider whose name resembles a mistyped one.
#[must_use]
pub fn suggestion(name: &str) -> Option<&'static str> {
    let written: String = folded(name).collect();
    let likeness = |known: &str| strsim::jaro_winkler(&written, &folded(known).collect::<String>());
    usable_names()
        .into_iter()
        .map(|known| (likeness(known), known))
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, known)| known)
}

/// Returns all providers that could answer with these sections if no model is named, the preferred
/// first: Anthropic, OpenAI and OpenRouter, then other vendors and gateways with a key in the order
/// of the table, then servers whose address is configured.
#[must_use]
pub fn preferred(sections: &[Section<'_>]) -> Vec<Selection> {
    let choice = Selector { sections };
    let rows = || FIRST.iter().filter_map(|name| ProviderSpec::find(name));
    let others = || TABLE.iter().filter(|spec| !FIRST.contains(&spec.name));
    let has_vendor_key = |spec: &&ProviderSpec| {
        matches!(spec.kind, ProviderKind::Vendor | ProviderKind::Gateway)
            && !matches!(spec.wire, WireProtocol::Unsupported(_))
            && choice.has_key(spec)
    };
    let is_server = |spec: &&ProviderSpec| match spec.kind {
        ProviderKind::Local => choice.has_address(spec),
        ProviderKind::Direct => choice.has_address(spec) || choice.has_key(spec),
        _ => false,
    };
    let keyed = rows().chain(others()).filter(has_vendor_key);
    let servers = others().filter(is_server);
    keyed
        .chain(servers)
        .map(|spec| choice.selection(spec))
        .chain(choice.own_sections().map(own))
        .collect()
}

/// Selects the provider for a model; `provider` is a name, or `auto`.
///
/// # Errors
/// Returns [`SelectError`] if the name is unknown or no configured provider fits.
pub fn select(
    model: &str,
    provider: &str,
    sections: &[Section<'_>],
) -> Result<Selection, SelectError> {
    route(model, provider, sections).map(|route| route.selection)
}

/// Selects like [`select`], and returns the rule that did.
///
/// # Errors
/// Returns the errors of [`select`].
pub fn route(model: &str, provider: &str, sections: &[Section<'_>]) -> Result<Route, SelectError> {
    let choice = Selector { sections };
    let by = |rule| move |selection| Route { selection, rule };
    if !provider.is_empty() && provider != "auto" {
        let named = choice.named(provider).map(by(SelectRule::Named));
        return named.ok_or_else(|| SelectError::UnknownProvider {
            name: provider.to_owned(),
        });
    }
    let model = model.to_lowercase();
    let prefixed = choice.by_prefix(&model).map(by(SelectRule::Prefix));
    prefixed
        .or_else(|| choice.by_keyword(&model))
        .or_else(|| choice.by_local_address().map(by(SelectRule::LocalAddress)))
        .or_else(|| choice.by_any_key().map(by(SelectRule::AnyKey)))
        .ok_or_else(|| SelectError::NotConfigured {
            example: example(&model),
            model,
        })
}

/// Returns a section that a new user would fill in for this model.
fn example(model: &str) -> &'static str {
    let fits = |spec: &&ProviderSpec| {
        spec.kind == ProviderKind::Vendor && spec.keywords.iter().any(|word| has_word(model, word))
    };
    TABLE
        .iter()
        .find(fits)
        .map_or("openrouter", |spec| spec.name)
}

struct Selector<'a> {
    sections: &'a [Section<'a>],
}

impl<'a> Selector<'a> {
    fn section(&self, spec: &ProviderSpec) -> Option<&'a Section<'a>> {
        self.sections
            .iter()
            .find(|section| is_same_name(section.name, spec.name))
    }

    fn has_key(&self, spec: &ProviderSpec) -> bool {
        self.section(spec).is_some_and(|section| section.has_key)
    }

    fn has_address(&self, spec: &ProviderSpec) -> bool {
        self.section(spec)
            .is_some_and(|section| section.api_base.is_some())
    }

    /// Returns the custom providers: sections with an address and a name that is not in the table.
    /// Unknown sections without an address belong to something else.
    fn own_sections(&self) -> impl Iterator<Item = &'a Section<'a>> {
        self.sections.iter().filter(|section| {
            section.api_base.is_some() && ProviderSpec::find(section.name).is_none()
        })
    }

    fn named(&self, name: &str) -> Option<Selection> {
        if let Some(spec) = ProviderSpec::find(name) {
            return Some(self.selection(spec));
        }
        self.own_sections()
            .find(|section| is_same_name(section.name, name))
            .map(own)
    }

    fn by_prefix(&self, model: &str) -> Option<Selection> {
        let prefix = model.split_once('/').map_or(model, |(prefix, _)| prefix);
        if let Some(section) = self
            .own_sections()
            .find(|section| is_same_name(section.name, prefix))
        {
            return Some(own(section));
        }
        let spec = ProviderSpec::find(prefix).filter(|spec| spec.kind != ProviderKind::Speech)?;
        let usable =
            spec.is_keyless() || self.has_key(spec) || (*spec == CUSTOM && self.has_address(spec));
        usable.then(|| self.selection(spec))
    }

    fn by_keyword(&self, model: &str) -> Option<Route> {
        let mut best: Option<(&'static str, &'static ProviderSpec)> = None;
        for spec in TABLE {
            let usable = match spec.kind {
                ProviderKind::SignIn => true,
                ProviderKind::Speech => false,
                ProviderKind::Local => self.has_address(spec),
                ProviderKind::Vendor | ProviderKind::Gateway | ProviderKind::Direct => {
                    self.has_key(spec)
                }
            };
            let words = spec
                .keywords
                .iter()
                .filter(|word| usable && has_word(model, word));
            let Some(longest) = words.max_by_key(|word| word.len()) else {
                continue;
            };
            if best.is_none_or(|(word, _)| longest.len() > word.len()) {
                best = Some((longest, spec));
            }
        }
        best.map(|(word, spec)| Route {
            selection: self.selection(spec),
            rule: SelectRule::Keyword(word),
        })
    }

    fn by_local_address(&self) -> Option<Selection> {
        let locals = || {
            TABLE
                .iter()
                .filter(|spec| spec.kind == ProviderKind::Local && self.has_address(spec))
        };
        let marked = |spec: &&ProviderSpec| {
            let base = self
                .section(spec)
                .and_then(|section| section.api_base)
                .unwrap_or_default();
            !spec.base_marker.is_empty() && base.contains(spec.base_marker)
        };
        locals()
            .find(marked)
            .or_else(|| locals().next())
            .map(|spec| self.selection(spec))
    }

    fn by_any_key(&self) -> Option<Selection> {
        let configured = |spec: &&ProviderSpec| {
            !matches!(spec.kind, ProviderKind::SignIn | ProviderKind::Speech)
                && (self.has_key(spec) || (**spec == CUSTOM && self.has_address(spec)))
        };
        TABLE
            .iter()
            .find(configured)
            .map(|spec| self.selection(spec))
            .or_else(|| self.own_sections().next().map(own))
    }

    fn selection(&self, spec: &'static ProviderSpec) -> Selection {
        let spoken = self
            .section(spec)
            .map_or(spec, |section| gateway_behind(spec, section));
        Selection {
            name: spec.name.into(),
            spec: spoken,
        }
    }
}

fn own(section: &Section<'_>) -> Selection {
    Selection {
        name: section.name.into(),
        spec: gateway_behind(&CUSTOM, section),
    }
}

/// Returns the gateway that a section's key or address belongs to, whatever the section's name is.
fn gateway_behind(spec: &'static ProviderSpec, section: &Section<'_>) -> &'static ProviderSpec {
    if matches!(spec.kind, ProviderKind::Gateway | ProviderKind::Local)
        || spec.wire != WireProtocol::OpenAi
    {
        return spec;
    }
    let gateways = || {
        TABLE
            .iter()
            .filter(|other| other.kind == ProviderKind::Gateway)
    };
    let by_key = |other: &&ProviderSpec| {
        !other.key_prefix.is_empty() && section.key_prefix.starts_with(other.key_prefix)
    };
    let base = section.api_base.unwrap_or_default();
    let by_base =
        |other: &&ProviderSpec| !other.base_marker.is_empty() && base.contains(other.base_marker);
    gateways()
        .find(by_key)
        .or_else(|| gateways().find(by_base))
        .unwrap_or(spec)
}

/// Returns `true` if a keyword occurs in a model's name as a word. `-` and `_` are equal, and
/// digits may follow a keyword.
fn has_word(model: &str, keyword: &str) -> bool {
    let model = model.replace('-', "_");
    let keyword = keyword.replace('-', "_");
    model.match_indices(&keyword).any(|(start, _)| {
        let before = model.get(..start).and_then(|text| text.chars().next_back());
        let after = model
            .get(start + keyword.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(name: &str) -> Section<'_> {
        Section {
            name,
            has_key: true,
            ..Section::default()
        }
    }

    fn at<'a>(name: &'a str, base: &'a str) -> Section<'a> {
        Section {
            name,
            api_base: Some(base),
            ..Section::default()
        }
    }

    #[test]
    fn route_has_the_rule_that_selected_it() {
        let (openai, vllm) = (keyed("openai"), at("vllm", "http://box:8000"));
        let own = at("lab", "https://lab.example/v1");
        let table: &[(&str, &str, &[Section<'_>], SelectRule)] = &[
            ("m", "openai", &[openai], SelectRule::Named),
            ("openai/gpt-4.1", "auto", &[openai], SelectRule::Prefix),
            ("lab/m", "auto", &[openai, own], SelectRule::Prefix),
            ("gpt-4.1", "auto", &[openai], SelectRule::Keyword("gpt")),
            ("m", "auto", &[openai, vllm], SelectRule::LocalAddress),
            ("m", "auto", &[openai], SelectRule::AnyKey),
        ];
        for (model, provider, sections, rule) in table {
            assert_eq!(
                &route(model, provider, sections).unwrap().rule,
                rule,
                "{model}"
            );
        }
    }

    #[test]
    fn models_find_their_provider() {
        let openrouter = keyed("openrouter");
        let (anthropic, xai) = (keyed("anthropic"), keyed("xai"));
        let vllm = at("vllm", "http://localhost:8000/v1");
        let ollama = at("ollama", "http://localhost:11434");
        let table: &[(&str, &[Section<'_>], &str)] = &[
            ("anthropic/claude-opus-4-5", &[], "none"),
            (
                "anthropic/claude-opus-4-5",
                &[openrouter, anthropic],
                "anthropic",
            ),
            ("anthropic/claude-opus-4-5", &[openrouter], "openrouter"),
            (
                "openrouter/anthropic/claude",
                &[openrouter, anthropic],
                "openrouter",
            ),
            ("meta-llama/Llama-3.1-8B", &[vllm], "vllm"),
            ("plain", &[vllm, ollama], "ollama"),
            ("copilot-x", &[], "github_copilot"),
            (
                "github-copilot/gpt-5.3-codex",
                &[keyed("openai")],
                "github_copilot",
            ),
            ("openai-codex/gpt-5", &[keyed("openai")], "openai_codex"),
            ("xai-grok/grok-4.5", &[xai], "xai_grok"),
            ("xai_grok/grok-4.5", &[openrouter], "xai_grok"),
            // Words, not parts of words.
            (
                "grok-4-spark",
                &[keyed("volcengine"), openrouter],
                "openrouter",
            ),
            ("ark-1", &[keyed("volcengine"), openrouter], "volcengine"),
            ("qwen3-max", &[keyed("dashscope"), openrouter], "dashscope"),
            ("GLM-4.6", &[keyed("zhipu"), openrouter], "zhipu"),
            (
                "chatgpt-4o-latest",
                &[keyed("openai"), openrouter],
                "openai",
            ),
            // Models of Grok stay at a gateway unless xAI itself is configured.
            ("grok-4.5", &[openrouter], "openrouter"),
            ("x-ai/grok-4", &[openrouter], "openrouter"),
            ("xai/grok-4", &[openrouter], "openrouter"),
            ("grok-code-fast-1", &[keyed("opencode")], "opencode"),
            ("grok-4.5", &[openrouter, xai], "xai"),
            ("x-ai/grok-4", &[openrouter, xai], "xai"),
            ("openrouter/x-ai/grok-4", &[openrouter, xai], "openrouter"),
            ("grokking-1", &[openrouter, xai], "openrouter"),
            ("groq/llama-3", &[keyed("groq"), xai], "groq"),
            // A local server needs an address.
            ("nvidia/nemotron-3", &[openrouter], "openrouter"),
            ("nvidia/nemotron-3", &[openrouter, ollama], "ollama"),
            ("ollama/llama3", &[openrouter], "ollama"),
            // The longest word wins.
            (
                "volcengine-plan/x",
                &[keyed("volcengine"), keyed("volcengineCodingPlan")],
                "volcengine_coding_plan",
            ),
            (
                "kimi-coding/k2",
                &[keyed("moonshot"), keyed("kimi_coding")],
                "kimi_coding",
            ),
            // Custom providers.
            (
                "my-box/llama",
                &[openrouter, at("myBox", "http://box/v1")],
                "myBox",
            ),
            ("llama", &[at("my-box", "http://box/v1")], "my-box"),
            ("llama", &[at("custom", "http://box/v1")], "custom"),
            // A speech vendor has no chat model.
            ("llama", &[keyed("assemblyai")], "none"),
            (
                "assemblyai/x",
                &[keyed("assemblyai"), openrouter],
                "openrouter",
            ),
            (
                "llama",
                &[at("assemblyai", "https://api.eu.assemblyai.com/v2")],
                "none",
            ),
            ("demo", &[openrouter], "demo"),
            ("whatever", &[keyed("groq"), keyed("custom")], "custom"),
        ];
        for (model, sections, expected) in table {
            let name = select(model, "auto", sections)
                .map_or("none".to_owned(), |selection| selection.name.to_string());
            assert_eq!(name, *expected, "{model} with {sections:?}");
        }
    }

    #[test]
    fn named_provider_is_found_in_any_spelling() {
        for spelling in [
            "volcengineCodingPlan",
            "volcengine-coding-plan",
            "volcengine_coding_plan",
        ] {
            assert_eq!(
                select("x", spelling, &[]).unwrap().spec.name,
                "volcengine_coding_plan"
            );
        }
        assert_eq!(
            select("x", "my_box", &[at("my-box", "http://box/v1")])
                .unwrap()
                .name
                .as_str(),
            "my-box"
        );
        assert!(matches!(
            select("x", "nobody", &[]),
            Err(SelectError::UnknownProvider { .. })
        ));
        let error = select("claude-x", "auto", &[]).unwrap_err();
        assert!(
            error.to_string().contains("providers.anthropic.apiKey"),
            "{error}"
        );
    }

    #[test]
    fn mistyped_provider_gets_a_usable_suggestion() {
        for (name, expected) in [
            ("opnai", Some("openai")),
            ("antropic", Some("anthropic")),
            ("Open-Router", Some("openrouter")),
            ("zzz", None),
        ] {
            assert_eq!(suggestion(name), expected, "{name}");
        }
        let error = select("x", "opnai", &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no provider \"opnai\"; did you mean \"openai\"?"
        );
        let error = select("x", "zzz", &[]).unwrap_err().to_string();
        assert!(
            error.contains("anthropic, openai, openai_codex, github_copilot, deepseek"),
            "{error}"
        );
        for unusable in ["bedrock", "assemblyai"] {
            assert!(!error.contains(unusable), "{error}");
        }
    }

    #[test]
    fn providers_without_a_model_have_a_stated_order() {
        let sections = [
            at("my-box", "http://box/v1"),
            at("ollama", "http://localhost:11434"),
            keyed("groq"),
            keyed("openrouter"),
            keyed("assemblyai"),
            keyed("bedrock"),
            keyed("openai"),
            keyed("anthropic"),
        ];
        let names: Vec<String> = preferred(&sections)
            .iter()
            .map(|selection| selection.name.to_string())
            .collect();
        assert_eq!(
            names,
            [
                "anthropic",
                "openai",
                "openrouter",
                "groq",
                "ollama",
                "my-box"
            ]
        );
        assert!(preferred(&[]).is_empty());
    }

    #[test]
    fn default_model_belongs_to_its_own_vendor() {
        for spec in TABLE {
            let Some(model) = spec.default_model else {
                continue;
            };
            let wired = wire_model(spec, model);
            assert_eq!(wired, model, "{} sends its default unchanged", spec.name);
            if spec.kind == ProviderKind::Vendor {
                let others = select(model, "auto", &[keyed(spec.name)]).unwrap();
                assert_eq!(others.name.as_str(), spec.name);
            }
        }
    }

    #[test]
    fn name_of_an_own_section_is_not_sent() {
        let wired = |name: &str, spec: &str, model: &'static str| {
            let selection = Selection {
                name: name.into(),
                spec: ProviderSpec::find(spec).unwrap(),
            };
            selection.wire_model(model)
        };
        assert_eq!(wired("my_lab", "custom", "my-lab/org/m"), "org/m");
        assert_eq!(wired("my_lab", "custom", "other/m"), "other/m");
        assert_eq!(wired("my_lab", "custom", "m"), "m");
        assert_eq!(wired("custom", "custom", "custom/m"), "custom/m");
        // A gateway in the section of a vendor gets the vendor's name.
        assert_eq!(wired("openai", "openrouter", "openai/m"), "openai/m");
    }

    #[test]
    fn detects_a_gateway_configured_under_another_name() {
        let by_key = Section {
            name: "openai",
            has_key: true,
            key_prefix: "sk-or-",
            api_base: None,
        };
        let by_base = Section {
            api_base: Some("https://aihubmix.com/v1"),
            ..keyed("openai")
        };
        for (section, expected) in [
            (by_key, "openrouter"),
            (by_base, "aihubmix"),
            (keyed("openai"), "openai"),
        ] {
            let selection = select("gpt-4o", "auto", &[section]).unwrap();
            assert_eq!(
                (selection.name.as_str(), selection.spec.name),
                ("openai", expected)
            );
        }
    }
}
