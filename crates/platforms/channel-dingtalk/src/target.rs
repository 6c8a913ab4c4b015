//! The destination of a message: a group by its conversation, or a person of the organisation.

use nanobot_channel::{ChannelError, ChatId};

/// The beginning of the id of a group.
pub(crate) const GROUP_PREFIX: &str = "group:";
/// The beginning of DingTalk's own id of a conversation. Older sessions name groups by it alone.
const CONVERSATION_PREFIX: &str = "cid";
/// The beginning of the id of a sender without an id in the organisation.
const OUTSIDE_PREFIX: &str = "$:";

/// A group or a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendTarget {
    /// A group, by its conversation.
    Group(String),
    /// A person, by the id in the organisation.
    User(String),
}

impl SendTarget {
    /// Returns the target of a chat. A group may be named as the session of one of its people is:
    /// `group:cid…:ann`.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat has none of DingTalk's ids.
    pub(crate) fn new(chat: &ChatId) -> Result<Self, ChannelError> {
        let id = chat.as_str().trim();
        let unusable = |why: &str| Err(ChannelError::NotFound(format!("`{chat}` {why}")));
        let is_id = |id: &str| {
            !id.is_empty() && !id.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        let named = id.strip_prefix(GROUP_PREFIX);
        match named.map(|named| named.split_once(':').map_or(named, |(id, _)| id)) {
            Some(conversation) if is_id(conversation) => {
                return Ok(Self::Group(conversation.to_owned()));
            }
            Some(_) => return unusable("names no group (group:cid…)"),
            None if !is_id(id) => {
                return unusable("is no group (group:cid…) or person of DingTalk");
            }
            None => {}
        }
        if id.starts_with(OUTSIDE_PREFIX) {
            return unusable(
                "is no member of the organisation; DingTalk delivers no private messages there",
            );
        }
        let is_conversation = id.starts_with(CONVERSATION_PREFIX) && id.ends_with('=');
        Ok(if is_conversation {
            Self::Group(id.to_owned())
        } else {
            Self::User(id.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_target_follows_the_id() {
        let group = |id: &str| Some(SendTarget::Group(id.to_owned()));
        let user = |id: &str| Some(SendTarget::User(id.to_owned()));
        let table = [
            ("group:cidAb+/1==", group("cidAb+/1==")),
            ("group:cidAb+/1==:ann", group("cidAb+/1==")),
            ("cidAb+/1==", group("cidAb+/1==")),
            ("cider", user("cider")),
            ("030950616458756705", user("030950616458756705")),
            (" ann ", user("ann")),
            ("group:", None),
            ("group::ann", None),
            ("$:LWCP_v1:$x", None),
            ("ann b", None),
            ("", None),
        ];
        for (id, expected) in table {
            assert_eq!(SendTarget::new(&id.into()).ok(), expected, "{id}");
        }
    }
}
