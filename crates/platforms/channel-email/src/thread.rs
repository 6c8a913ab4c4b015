//! Threads of mails, by the headers `In-Reply-To` and `References`.

use nanobot_channel::{DeliveryContext, Map, MessageId, OutboundPart, Value};

/// Maximum number of ids in `References`: the first and the last ones of a thread.
const CHAIN_LIMIT: usize = 20;
/// Maximum length of an id that is repeated, in bytes.
const ID_LIMIT: usize = 250;
/// Prefix of the ids of the assistant's own mails.
const OWN_PREFIX: &str = "<nanobot.";

/// The ids that a mail names, with their brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageIds {
    /// Its own.
    pub(crate) own: Option<String>,
    /// The one of the mail that it answers.
    pub(crate) parent: Option<String>,
    /// Those of the thread, oldest first.
    pub(crate) references: Vec<String>,
}

impl MessageIds {
    /// Returns the id of the first mail of the thread.
    pub(crate) fn root(&self) -> Option<&String> {
        self.references
            .first()
            .or(self.parent.as_ref())
            .or(self.own.as_ref())
    }

    /// `true` if it answers a mail of the assistant.
    pub(crate) fn answers_us(&self) -> bool {
        self.parent
            .iter()
            .chain(self.references.last())
            .any(|id| id.starts_with(OWN_PREFIX))
    }

    /// Returns the ids of the thread as an answer names them, oldest first.
    fn chain(&self) -> Vec<String> {
        let mut chain: Vec<String> = Vec::new();
        let parent = self.parent.iter().filter(|_| self.references.is_empty());
        for id in self.references.iter().chain(parent).chain(&self.own) {
            chain.retain(|known| known != id);
            chain.push(id.clone());
        }
        if chain.len() > CHAIN_LIMIT {
            // The root keeps the thread together, the last ones give the place in it.
            chain.drain(1..=chain.len() - CHAIN_LIMIT);
        }
        chain
    }

    /// Returns the delivery context of an answer.
    pub(crate) fn delivery(&self, subject: &str) -> DeliveryContext {
        let mut extra = Map::new();
        extra.insert("subject".to_owned(), subject.into());
        extra.insert("references".to_owned(), self.chain().into());
        DeliveryContext {
            thread: self.root().cloned(),
            reply_to: self.own.as_deref().map(MessageId::from),
            extra,
        }
    }
}

/// `true` if a text is an id that a header can contain.
pub(crate) fn is_message_id(text: &str) -> bool {
    let inner = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'));
    let is_plain = |inner: &str| {
        inner
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'<' && byte != b'>')
    };
    text.len() <= ID_LIMIT && inner.is_some_and(|inner| !inner.is_empty() && is_plain(inner))
}

/// The thread headers of an outgoing mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadHeaders {
    /// Decoded, in one line.
    pub(crate) subject: String,
    /// Oldest first; empty for a new thread.
    pub(crate) references: Vec<String>,
}

impl ThreadHeaders {
    /// Returns the headers of a part: those of the thread it answers, else of a new one.
    pub(crate) fn of(part: &OutboundPart, prefix: &str) -> Self {
        let extra = &part.message.delivery.extra;
        let text = |map: &Map, key: &str| map.get(key).and_then(Value::as_str).map(in_one_line);
        let thread = text(extra, "subject");
        // The metadata of an answered mail has its subject, which is no wish.
        let wish = text(&part.message.metadata, "subject")
            .filter(|wish| !wish.is_empty() && Some(wish) != thread.as_ref());
        let subject = match (wish, thread) {
            (Some(wish), _) => wish,
            (None, Some(thread)) if thread.to_lowercase().starts_with("re:") => thread,
            (None, Some(thread)) => in_one_line(&format!("{prefix}{thread}")),
            (None, None) => "nanobot reply".to_owned(),
        };
        let references = extra
            .get("references")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let references = references
            .iter()
            .filter_map(Value::as_str)
            .filter(|id| is_message_id(id));
        Self {
            subject,
            references: references.map(str::to_owned).collect(),
        }
    }
}

fn in_one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the id of an outgoing part: the same for every attempt, so that readers can drop
/// duplicates.
pub(crate) fn own_id(part: &OutboundPart, host: &str) -> String {
    format!(
        "{OWN_PREFIX}{:032x}@{host}>",
        fingerprint(&part.idempotency_key())
    )
}

/// Returns the FNV-1a hash, which is the same on every machine and in every version.
pub(crate) fn fingerprint(text: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nanobot_channel::{InboundMessage, OutboundKey, OutboundKind, OutboundMessage};
    use serde_json::json;

    use super::*;

    fn ids(own: &str, parent: Option<&str>, references: &[&str]) -> MessageIds {
        MessageIds {
            own: Some(own.to_owned()),
            parent: parent.map(str::to_owned),
            references: references.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    fn part(delivery: DeliveryContext, metadata: Value) -> OutboundPart {
        let mut inbound = InboundMessage::text("email", "a@x.test", "a@x.test", "hi");
        (inbound.delivery, inbound.metadata) =
            (delivery, serde_json::from_value(metadata).unwrap());
        let key = OutboundKey {
            turn: "turn".into(),
            position: 0,
        };
        let message =
            OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, "hi".to_owned());
        let (message, text, plain) = (Arc::new(message), String::new(), String::new());
        OutboundPart {
            message,
            index: 0,
            count: 1,
            text,
            plain,
            blocks: Vec::new(),
            in_doubt: false,
        }
    }

    #[test]
    fn reply_headers_continue_the_thread() {
        let table = [
            (
                ids("<1@x>", None, &[]),
                "Lunch",
                "Re: Lunch",
                vec!["<1@x>"],
                "<1@x>",
            ),
            (
                ids("<2@x>", Some("<1@x>"), &[]),
                "RE: Lunch",
                "RE: Lunch",
                vec!["<1@x>", "<2@x>"],
                "<1@x>",
            ),
            (
                ids("<3@x>", Some("<2@x>"), &["<1@x>", "<2@x>"]),
                "",
                "Re:",
                vec!["<1@x>", "<2@x>", "<3@x>"],
                "<1@x>",
            ),
        ];
        for (ids, subject, answer, references, root) in table {
            let delivery = ids.delivery(subject);
            assert_eq!(delivery.thread.as_deref(), Some(root));
            assert_eq!(delivery.reply_to, ids.own.as_deref().map(MessageId::from));
            let headers = ThreadHeaders::of(&part(delivery, json!({"subject": subject})), "Re: ");
            let references = references.into_iter().map(str::to_owned).collect();
            assert_eq!(
                headers,
                ThreadHeaders {
                    subject: answer.to_owned(),
                    references
                }
            );
        }
    }

    #[test]
    fn new_thread_uses_the_requested_subject() {
        let table = [
            (json!({}), "nanobot reply"),
            (
                json!({"subject": " The\r\nBcc: x@y.test report "}),
                "The Bcc: x@y.test report",
            ),
        ];
        for (metadata, subject) in table {
            let headers = ThreadHeaders::of(&part(DeliveryContext::default(), metadata), "Re: ");
            assert_eq!(
                headers,
                ThreadHeaders {
                    subject: subject.to_owned(),
                    references: Vec::new()
                }
            );
        }
        let delivery = ids("<1@x>", None, &[]).delivery("Lunch");
        let headers = ThreadHeaders::of(&part(delivery, json!({"subject": "Dinner"})), "Re: ");
        assert_eq!(headers.subject, "Dinner");
    }

    #[test]
    fn long_reference_chain_keeps_its_root_and_its_end() {
        let long: Vec<String> = (0..100).map(|number| format!("<{number}@x>")).collect();
        let ids = MessageIds {
            own: Some("<new@x>".to_owned()),
            parent: None,
            references: long,
        };
        let chain = ids.chain();
        assert_eq!(
            (chain.len(), chain[0].as_str(), chain[1].as_str()),
            (20, "<0@x>", "<82@x>")
        );
        assert_eq!(chain.last().map(String::as_str), Some("<new@x>"));
    }

    #[test]
    fn malformed_message_ids_are_rejected() {
        for (text, fits) in [
            ("<a@b>", true),
            ("<a b>", false),
            ("<>", false),
            ("a@b", false),
            ("<a\r\nX: y>", false),
            ("<ä@b>", false),
        ] {
            assert_eq!(is_message_id(text), fits, "{text}");
        }
        let id = own_id(&part(DeliveryContext::default(), json!({})), "x.test");
        assert!(is_message_id(&id) && id.starts_with("<nanobot."), "{id}");
        assert_eq!(fingerprint("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
