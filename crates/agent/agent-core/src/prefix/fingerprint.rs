//! Fingerprints of requests: the lengths and digests of their parts.

use std::io::{self, Write};
use std::sync::Arc;

use nanobot_context::{Digest, SystemPrompt};
use nanobot_provider::ChatRequest;
use nanobot_types::{ChatMessage, ToolSpec};
use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};

/// Length of the separator between two sections of the system prompt, as JSON encodes it.
const SEPARATOR_BYTES: u64 = "\\n\\n---\\n\\n".len() as u64;

/// The length in bytes and the digest of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartDigest(u64, u64);

/// The fingerprint of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    /// Tools by name, in order.
    pub(super) tools: Vec<(String, PartDigest)>,
    /// Sections of the system prompt, in order.
    sections: Vec<(String, PartDigest)>,
    /// The conversation.
    messages: Vec<PartDigest>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FingerprintPart {
    Tool(String),
    Section(String),
    /// A message by its index.
    Message(usize),
}

/// The place where a request diverges from the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixBreak {
    pub(super) part: FingerprintPart,
    /// Number of bytes before that part.
    pub(super) byte: u64,
}

/// Computes the fingerprints of a turn's requests. Parts that a request has in common with the
/// previous one are digested once.
#[derive(Debug)]
pub(super) struct Fingerprinter {
    prompt: Arc<SystemPrompt>,
    /// The tools and messages of the previous request, whose digests are in `previous`.
    tools: Option<Arc<[ToolSpec]>>,
    messages: Vec<Arc<ChatMessage>>,
    previous: Fingerprint,
}

impl Fingerprinter {
    /// Creates one for requests that carry this prompt.
    pub(super) fn new(prompt: Arc<SystemPrompt>) -> Self {
        Self {
            prompt,
            tools: None,
            messages: Vec::new(),
            previous: Fingerprint::default(),
        }
    }

    /// Computes the fingerprint of a request.
    pub(super) fn fingerprint(&mut self, request: &ChatRequest) -> Fingerprint {
        if self.previous.sections.is_empty() {
            self.previous.sections = sections(&self.prompt);
        }
        let is_known = |known: &Arc<[ToolSpec]>| Arc::ptr_eq(known, &request.tools);
        if !self.tools.as_ref().is_some_and(is_known) {
            self.previous.tools = tools(&request.tools);
            self.tools = Some(Arc::clone(&request.tools));
        }
        let messages = request.transcript.messages();
        let common = self
            .messages
            .iter()
            .zip(messages)
            .take_while(|(known, message)| Arc::ptr_eq(known, message))
            .count();
        self.messages.truncate(common);
        self.previous.messages.truncate(common);
        for message in messages.iter().skip(common) {
            self.previous.push(message);
            self.messages.push(Arc::clone(message));
        }
        self.previous.clone()
    }
}

fn tools(specs: &[ToolSpec]) -> Vec<(String, PartDigest)> {
    let tool = |spec: &ToolSpec| (spec.name.to_string(), mark(&AsSent(spec)));
    specs.iter().map(tool).collect()
}

fn sections(prompt: &SystemPrompt) -> Vec<(String, PartDigest)> {
    let section = |(name, text): (&str, &str)| (name.to_owned(), within_quotes(mark(text)));
    prompt.texts().map(section).collect()
}

impl Fingerprint {
    /// Returns a fingerprint with the first `messages` messages only. A request that begins with
    /// the whole fingerprint also begins with this one.
    pub(super) fn shortened(&self, messages: usize) -> Self {
        let messages = self.messages.iter().take(messages).copied().collect();
        Self {
            tools: self.tools.clone(),
            sections: self.sections.clone(),
            messages,
        }
    }

    /// Returns the place where `newer` diverges from this request; `None` if it begins with it.
    pub(super) fn divergence(&self, newer: &Self) -> Option<PrefixBreak> {
        let mut byte = 0;
        if let Some((_, name)) = walk(&self.tools, &newer.tools, &mut byte, 1) {
            return Some(PrefixBreak {
                part: FingerprintPart::Tool(name),
                byte,
            });
        }
        byte += 1;
        if let Some((place, name)) =
            walk(&self.sections, &newer.sections, &mut byte, SEPARATOR_BYTES)
        {
            // If one list has ended, the requests diverge before the separator.
            if place > 0 && place >= self.sections.len().min(newer.sections.len()) {
                byte -= SEPARATOR_BYTES;
            }
            return Some(PrefixBreak {
                part: FingerprintPart::Section(name),
                byte,
            });
        }
        // The last section is followed by a quotation mark and a newline instead of a separator.
        byte = if self.sections.is_empty() {
            byte + 2
        } else {
            byte + 2 - SEPARATOR_BYTES
        };
        for (place, mark) in self.messages.iter().enumerate() {
            if newer.messages.get(place) != Some(mark) {
                return Some(PrefixBreak {
                    part: FingerprintPart::Message(place),
                    byte,
                });
            }
            byte += mark.0 + 1;
        }
        None
    }

    /// Appends a message.
    pub(super) fn push(&mut self, message: &ChatMessage) {
        self.messages.push(mark(message));
    }

    /// Returns the offset in the rendering that corresponds to an offset in the text of the system
    /// prompt.
    pub(super) fn byte_in_prompt(&self, prompt: &SystemPrompt, byte: usize) -> u64 {
        let tools: u64 = self.tools.iter().map(|(_, mark)| mark.0 + 1).sum();
        let text = prompt.text();
        let before = text
            .get(..text.floor_char_boundary(byte))
            .unwrap_or_default();
        tools + 1 + within_quotes(mark(before)).0
    }
}

/// Compares named parts in the order of the older list, and adds the bytes of the common ones to
/// `byte`. Returns the index and name of the first part that differs; in a list that only grew,
/// that is the new part.
fn walk(
    older: &[(String, PartDigest)],
    newer: &[(String, PartDigest)],
    byte: &mut u64,
    between: u64,
) -> Option<(usize, String)> {
    let places = older.len().max(newer.len());
    for place in 0..places {
        match (older.get(place), newer.get(place)) {
            (Some(older), Some(newer)) if older == newer => *byte += older.1.0 + between,
            (_, Some((name, _))) | (Some((name, _)), None) => return Some((place, name.clone())),
            (None, None) => {}
        }
    }
    None
}

fn within_quotes(PartDigest(bytes, digest): PartDigest) -> PartDigest {
    PartDigest(bytes.saturating_sub(2), digest)
}

fn mark<T: Serialize + ?Sized>(part: &T) -> PartDigest {
    let mut counted = HashingWriter::default();
    // Neither the writer nor any of our types can fail.
    if let Err(error) = serde_json::to_writer(&mut counted, part) {
        tracing::debug!(%error, "could not render a part of a request");
    }
    PartDigest(counted.bytes, counted.digest.value())
}

/// A tool as it appears in a request.
struct AsSent<'a>(&'a ToolSpec);

impl Serialize for AsSent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolSpec {
            name,
            description,
            parameters,
            effect: _,
            source: _,
        } = self.0;
        let mut tool = serializer.serialize_struct("tool", 3)?;
        tool.serialize_field("name", name)?;
        tool.serialize_field("description", description)?;
        tool.serialize_field("parameters", parameters)?;
        tool.end()
    }
}

/// A writer that only counts and hashes.
#[derive(Default)]
struct HashingWriter {
    bytes: u64,
    digest: Digest,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.digest.feed(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nanobot_context::FrozenPart;
    use nanobot_provider::{Generation, ToolChoice, TurnMemo};
    use nanobot_types::{Effect, ToolSource, Transcript};
    use serde_json::json;

    use super::*;

    /// A request and its rendering.
    struct RenderedRequest {
        fingerprint: Fingerprint,
        request: ChatRequest,
        prompt: SystemPrompt,
        rendering: String,
    }

    fn rendered(
        tools: &[(&str, &str)],
        sections: &[(&'static str, &str)],
        messages: &[&str],
    ) -> RenderedRequest {
        let mut frozen = FrozenPart::new();
        for (name, text) in sections {
            frozen = frozen.section(name, *text);
        }
        let prompt = frozen.epoch().finish();
        let spec = |(name, description): &(&str, &str)| ToolSpec {
            name: (*name).into(),
            description: (*description).to_owned(),
            parameters: json!({"type": "object"}),
            effect: Effect::Pure,
            source: ToolSource::BuiltIn,
        };
        let request = ChatRequest {
            model: "m".into(),
            system: prompt.text().clone(),
            transcript: Transcript::repair(
                messages
                    .iter()
                    .map(|text| Arc::new(ChatMessage::user(*text))),
            )
            .transcript,
            tools: tools.iter().map(spec).collect(),
            tool_choice: ToolChoice::Auto,
            generation: Generation::default(),
            cache_key: None,
            estimated_tokens: None,
            memo: TurnMemo::default(),
        };
        let tools = request.tools.iter().map(|spec| {
            format!(
                "{{\"name\":{:?},\"description\":{:?},\"parameters\":{{\"type\":\"object\"}}}}\n",
                spec.name.as_str(),
                spec.description
            )
        });
        let messages = request
            .transcript
            .messages()
            .iter()
            .map(|message| serde_json::to_string(message).unwrap() + "\n");
        let system = serde_json::to_string(&*request.system).unwrap() + "\n";
        let rendering = tools.chain([system]).chain(messages).collect();
        RenderedRequest {
            fingerprint: Fingerprinter::new(Arc::new(prompt.clone())).fingerprint(&request),
            request,
            prompt,
            rendering,
        }
    }

    #[test]
    fn divergence_names_its_part_and_byte() {
        let tools = [("exec", "Runs"), ("read", "Reads")];
        let sections = [("identity", "I \"am\"\n"), ("memory", "Ann 喝茶")];
        let base = rendered(&tools, &sections, &["one", "two"]);
        let message = |place| FingerprintPart::Message(place);
        let (tool, section) = (
            |name: &str| FingerprintPart::Tool(name.to_owned()),
            |name: &str| FingerprintPart::Section(name.to_owned()),
        );
        let table = [
            (
                rendered(&tools, &sections, &["one", "two", "three"]),
                None,
                "",
            ),
            (
                rendered(&tools, &sections, &["one", "2"]),
                Some(message(1)),
                "{\"role\":\"user\",\"content\":\"two",
            ),
            (
                rendered(&tools, &sections, &["one"]),
                Some(message(1)),
                "{\"role\":\"user\",\"content\":\"two",
            ),
            (
                rendered(&tools, &[sections[0], ("memory", "Ann 喝水")], &["one"]),
                Some(section("memory")),
                "Ann",
            ),
            (
                rendered(&tools, &sections[..1], &["one"]),
                Some(section("memory")),
                "\\n\\n---",
            ),
            (
                rendered(&[tools[0], ("read", "reads")], &sections, &[]),
                Some(tool("read")),
                "{\"name\":\"read\"",
            ),
            (
                rendered(&tools[..1], &sections, &["one"]),
                Some(tool("read")),
                "{\"name\":\"read\"",
            ),
            (
                rendered(&[tools[0], tools[1], ("web", "")], &sections, &[]),
                Some(tool("web")),
                "\"I \\\"am",
            ),
        ];
        for (newer, part, from) in table {
            let divergence = base.fingerprint.divergence(&newer.fingerprint);
            let expected = part.map(|part| PrefixBreak {
                part,
                byte: base.rendering.find(from).unwrap() as u64,
            });
            assert_eq!(divergence, expected, "{}", newer.rendering);
        }
        let mut beginning = base.fingerprint.shortened(1);
        assert_eq!(beginning.divergence(&base.fingerprint), None);
        beginning.push(&ChatMessage::user("two"));
        assert_eq!(beginning, base.fingerprint);
    }

    /// A turn's requests have the fingerprints that each has alone, whatever they share.
    #[test]
    fn shared_parts_have_the_same_digests() {
        let tools = [("exec", "Runs")];
        let sections = [("identity", "I am")];
        let one = rendered(&tools, &sections, &["one", "two"]);
        let of = |request: ChatRequest| {
            let prompt = Arc::new(one.prompt.clone());
            Fingerprinter::new(prompt).fingerprint(&request)
        };
        let with_messages = |messages: Vec<Arc<ChatMessage>>| ChatRequest {
            transcript: Transcript::repair(messages).transcript,
            ..one.request.clone()
        };
        let first = one.request.transcript.messages();
        let added = Arc::new(ChatMessage::user("three"));
        let longer = with_messages([first, &[Arc::clone(&added)]].concat());
        let other_middle = with_messages(vec![
            Arc::clone(&first[0]),
            Arc::new(ChatMessage::user("2")),
            added,
        ]);
        let other_tools = rendered(&[("exec", "runs")], &sections, &["one", "two"]).request;
        let mut shared = Fingerprinter::new(Arc::new(one.prompt.clone()));
        let requests = [
            one.request.clone(),
            longer,
            other_middle,
            with_messages(first[..1].to_vec()),
            other_tools,
        ];
        for request in requests {
            assert_eq!(shared.fingerprint(&request), of(request));
        }
    }

    #[test]
    fn maps_a_prompt_byte_to_the_rendering() {
        let rendered = rendered(
            &[("exec", "Runs")],
            &[("identity", "I \"am\"\n"), ("memory", "Ann 喝茶")],
            &[],
        );
        for (within, shown) in [("I ", "I "), ("Ann", "Ann"), ("茶", "茶")] {
            let byte = rendered.prompt.text().find(within).unwrap();
            let expected = rendered.rendering.rfind(shown).unwrap() as u64;
            assert_eq!(
                rendered.fingerprint.byte_in_prompt(&rendered.prompt, byte),
                expected,
                "{within}"
            );
        }
    }
}
