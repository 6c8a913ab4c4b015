//! The destination of a message: a chat or a person by id, and the message it answers.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};

/// The beginning of the id of a chat. Chats with one person have one, too, but are addressed by the
/// person.
pub(crate) const GROUP_PREFIX: &str = "oc_";

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
    /// Returns the target of a message, in the topic of its delivery.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat has none of Feishu's ids.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Result<Self, ChannelError> {
        let id = chat.as_str().trim();
        let Some(kind) = kind_of(id) else {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no chat (oc_…), person (ou_…, on_…) or mail address of Feishu"
            )));
        };
        let answered = delivery.thread.as_ref().map(|topic| Answered {
            message: topic.clone(),
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
    let is_id = id.len() > 3
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match id.get(..3) {
        Some(GROUP_PREFIX) if is_id => Some("chat_id"),
        Some("ou_") if is_id => Some("open_id"),
        Some("on_") if is_id => Some("union_id"),
        _ => {
            let (name, host) = id.split_once('@')?;
            let is_address =
                !name.is_empty() && host.contains('.') && !id.contains(char::is_whitespace);
            is_address.then_some("email")
        }
    }
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
