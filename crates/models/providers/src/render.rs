//! Parts of a rendered request that all APIs share: ids, arguments, placeholders.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use nanobot_types::{CallId, Map, ToolCall};
use serde::Serialize;
use serde_json::Value;
use sha1::{Digest as _, Sha1};

/// Placeholder for empty content, which some vendors reject.
pub(crate) const EMPTY: &str = "(empty)";

/// Placeholder for an image that cannot be sent.
pub(crate) const IMAGE_OMITTED: &str = "[image omitted]";

/// A cache mark: the prompt up to and including its object is cached.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum CacheControl {
    Ephemeral,
}

/// A request in the order in which vendors cache it, each part as one compact JSON text without
/// cache marks. The same request renders to the same bytes. A vendor may merge several messages
/// into one; here each remains a part, so that a conversation keeps its parts as it grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedMessages {
    /// The tools.
    pub tools: Vec<String>,
    /// The system prompt.
    pub system: String,
    /// The conversation.
    pub messages: Vec<String>,
}

/// Returns a part of a request body as compact JSON.
pub(crate) fn text(part: &impl Serialize) -> String {
    // These parts have string keys and consist of data only, so that they always serialise.
    serde_json::to_string(part).unwrap_or_default()
}

pub(crate) fn texts(parts: &[impl Serialize]) -> Vec<String> {
    parts.iter().map(text).collect()
}

/// Returns a call's arguments as an object. Text that is not an object is kept inside one.
pub(crate) fn arguments(call: &ToolCall) -> Map {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_not_an_object| {
        Map::from_iter([(
            "_malformed".to_owned(),
            Value::String(call.arguments.clone()),
        )])
    })
}

/// Sanitizes a tool's name into one that vendors accept, whatever an old history contains.
pub(crate) fn tool_name(name: &str) -> String {
    let sound = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    if name.is_empty() {
        "unnamed_tool".to_owned()
    } else {
        name.chars().take(64).map(sound).collect()
    }
}

/// Converts via the decimal text of the `f32`, without the extra digits that widening adds.
pub(crate) fn number(value: f32) -> f64 {
    value
        .to_string()
        .parse()
        .unwrap_or_else(|_not_a_number| f64::from(value))
}

/// Call ids as a vendor accepts them: from its set of characters, at most 64 of them, each used
/// once, and each result under the id of its call. An id depends only on the ids before it.
#[derive(Clone, Debug)]
pub(crate) struct CallIds {
    spell: fn(&str) -> String,
    latest: HashMap<CallId, String>,
    taken: HashSet<String>,
}

impl CallIds {
    pub(crate) fn new(spell: fn(&str) -> String) -> Self {
        Self {
            spell,
            latest: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// Returns the id of the next call. If `is_own`, the id came from this vendor and keeps its
    /// characters.
    pub(crate) fn call(&mut self, id: &CallId, is_own: bool) -> String {
        // An older session may contain ids that no vendor accepts.
        let short = bounded_id(id.as_str());
        let mut spelled = if is_own {
            short.clone().into_owned()
        } else {
            (self.spell)(&short)
        };
        let mut count = 1;
        while !self.taken.insert(spelled.clone()) {
            count += 1;
            spelled = (self.spell)(&bounded_id(&format!("{short}_{count}")));
        }
        self.latest.insert(id.clone(), spelled.clone());
        spelled
    }

    /// Returns the id of a call's result.
    pub(crate) fn result(&self, id: &CallId) -> String {
        self.latest
            .get(id)
            .cloned()
            .unwrap_or_else(|| (self.spell)(&bounded_id(id.as_str())))
    }
}

/// Returns the id itself if it has only letters, digits, `_` and `-`; else one derived from it.
pub(crate) fn plain_id(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.chars().all(is_plain) {
        id.to_owned()
    } else {
        format!("call_{}", digest(id))
    }
}

/// Returns the id itself if it is nine letters and digits; else nine derived from it.
pub(crate) fn short_id(id: &str) -> String {
    let is_short = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
    if is_short {
        id.to_owned()
    } else {
        digest(id).chars().take(9).collect()
    }
}

/// Maximum length of a call id that vendors accept, in bytes.
const ID_LIMIT: usize = 64;

/// Shortens an id of more than [`ID_LIMIT`] bytes to a hash of it, the same for every provider.
/// Short ids stay as they are. If two ids have the same hash, [`CallIds`] makes them distinct.
pub(crate) fn bounded_id(id: &str) -> Cow<'_, str> {
    if id.len() <= ID_LIMIT {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("id_{}", digest(id)))
    }
}

/// Returns the SHA-1 of a text as 40 hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    Sha1::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_sanitized_for_vendors() {
        for (id, expected) in [("call_abc", "f9bad5b7a"), ("abc123XYZ", "abc123XYZ")] {
            assert_eq!(short_id(id), expected);
        }
        assert_eq!(plain_id("call_abc-1"), "call_abc-1");
        assert!(plain_id("functions.exec:0").starts_with("call_"));
    }

    #[test]
    fn shortens_long_ids_stably_without_collisions() {
        let long = |end: &str| format!("{}{end}", "读".repeat(40));
        let short = bounded_id(&long("a")).into_owned();
        assert_eq!(
            (short.len(), bounded_id(&long("a")), bounded_id(&short)),
            (43, short.as_str().into(), short.as_str().into())
        );
        assert_ne!(bounded_id(&long("b")), short);
        assert_eq!(bounded_id(&"x".repeat(64)), "x".repeat(64));
    }

    #[test]
    fn reused_call_ids_are_made_unique() {
        let (id, odd) = (CallId::from("c"), CallId::from("a|b"));
        let mut ids = CallIds::new(plain_id);
        assert_eq!(
            (ids.call(&id, false), ids.result(&id)),
            ("c".to_owned(), "c".to_owned())
        );
        assert_eq!(
            (ids.call(&id, false), ids.result(&id)),
            ("c_2".to_owned(), "c_2".to_owned())
        );
        assert_eq!(ids.call(&odd, true), "a|b");
        let long = CallId::from("x".repeat(64));
        assert_eq!(
            [true, false].map(|own| ids.call(&long, own).len() <= 64),
            [true; 2]
        );
        let longer = CallId::from("x".repeat(500));
        for own in [true, false] {
            let sent = ids.call(&longer, own);
            assert!(sent.len() <= 64 && sent == ids.result(&longer), "{sent}");
        }
    }
}
