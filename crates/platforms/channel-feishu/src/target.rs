//! The destination of a message: a chat or a person by id, and the message it answers.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};

/// The beginning of the id of a chat. Chats with one person have one, too, but are addressed by the
/// person.
pub(crate) const GROUP_PREFIX: &str = "oc_";

/// The beginning of the id of a message.
const MESSAGE_PREFIX: &str = "om_";

/// A chat or a person, and the place in the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    pub(crate) id: String,
    /// The kind of the id, in Feishu's word.
    pub(crate) kind: &'static str,
    pub(crate) answered: Option<Answered>,
}

/// The message that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) message: String,
    /// `true` if the answer belongs into the topic of the message.
    pub(crate) in_topic: bool,
}

impl SendTarget {
    /// Returns the target of a message, in the topic of its delivery. Without one, the chat may name
    /// a topic as sessions do: `oc_1:om_1`.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat has none of Feishu's ids.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Result<Self, ChannelError> {
        let id = chat.as_str().trim();
        let (id, named) = match id.split_once(':') {
            Some((id, topic)) if topic.starts_with(MESSAGE_PREFIX) && is_id(topic) => {
                (id, Some(topic))
            }
            _ => (id, None),
        };
        let topic = delivery.thread.as_deref().or(named);
        let Some(kind) = kind_of(id) else {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no chat (oc_…), person (ou_…, on_…) or mail address of Feishu"
            )));
        };
        let answered = topic.map(|topic| Answered {
            message: topic.to_owned(),
            in_topic: true,
        });
        Ok(Self {
            id: id.to_owned(),
            kind,
            answered,
        })
    }

    /// Returns the target that an earlier process noted; `None` if there is no such one.
    pub(crate) fn of_earlier_process(id: String, answered: Option<(String, bool)>) -> Option<Self> {
        let kind = kind_of(&id)?;
        let answered = answered.map(|(message, in_topic)| Answered { message, in_topic });
        Some(Self { id, kind, answered })
    }

    /// Quotes the message that is answered.
    pub(crate) fn quoting(mut self, delivery: &DeliveryContext) -> Self {
        if let Some(message) = &delivery.reply_to {
            self.answered = Some(Answered {
                message: message.to_string(),
                in_topic: self.answered.is_some(),
            });
        }
        self
    }
}

fn kind_of(id: &str) -> Option<&'static str> {
    match id.get(..3) {
        Some(GROUP_PREFIX) if is_id(id) => Some("chat_id"),
        Some("ou_") if is_id(id) => Some("open_id"),
        Some("on_") if is_id(id) => Some("union_id"),
        _ => {
            let (name, host) = id.split_once('@')?;
            let is_address =
                !name.is_empty() && host.contains('.') && !id.contains(char::is_whitespace);
            is_address.then_some("email")
        }
    }
}

/// `true` if there is an id after a prefix of three letters.
fn is_id(id: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    id.len() > 3 && id.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_target_follows_its_prefix() {
        let table = [
            ("oc_1", Some("chat_id")),
            ("ou_1", Some("open_id")),
            ("on_1", Some("union_id")),
            ("ann@x.test", Some("email")),
            ("oc_", None),
            ("oc_1/../x", None),
            ("#general", None),
            ("@ann", None),
            ("", None),
            ("語語", None),
        ];
        for (id, kind) in table {
            let target = SendTarget::new(&id.into(), &DeliveryContext::default());
            assert_eq!(target.ok().map(|target| target.kind), kind, "{id}");
        }
    }

    #[test]
    fn chat_may_name_a_topic_as_sessions_do() {
        let target = |chat: &str, thread: Option<&str>| {
            let delivery = DeliveryContext {
                thread: thread.map(str::to_owned),
                ..DeliveryContext::default()
            };
            let target = SendTarget::new(&chat.into(), &delivery).ok()?;
            Some((target.id, target.answered.map(|answered| answered.message)))
        };
        let found = |id: &str, topic: &str| Some((id.to_owned(), Some(topic.to_owned())));
        assert_eq!(target("oc_1:om_1", None), found("oc_1", "om_1"));
        assert_eq!(target("oc_1:om_1", Some("om_2")), found("oc_1", "om_2"));
        for chat in ["oc_1:", "oc_1:om_", "oc_1:1", "oc_1:om_/x", "x:om_1"] {
            assert_eq!(target(chat, None), None, "{chat}");
        }
    }

    #[test]
    fn topic_and_quotation_are_combined() {
        let delivery = DeliveryContext {
            thread: Some("om_root".to_owned()),
            reply_to: Some("om_1".into()),
            ..DeliveryContext::default()
        };
        let answered = |message: &str, in_topic| {
            Some(Answered {
                message: message.to_owned(),
                in_topic,
            })
        };
        let target = SendTarget::new(&"oc_1".into(), &delivery).unwrap();
        assert_eq!(target.answered, answered("om_root", true));
        assert_eq!(
            target.clone().quoting(&delivery).answered,
            answered("om_1", true)
        );
        assert_eq!(
            SendTarget {
                answered: None,
                ..target
            }
            .quoting(&delivery)
            .answered,
            answered("om_1", false)
        );
    }
}
