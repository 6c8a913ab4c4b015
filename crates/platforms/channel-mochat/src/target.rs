//! The destination of a message: a session or a panel.

use nanobot_channel::{ChannelError, ChatId};

/// The beginning of the id of a session.
const SESSION_PREFIX: &str = "session_";
/// Prefixes that people write before an id, and `true` for those of panels alone.
const PREFIXES: &[(&str, bool)] = &[
    ("mochat:", false),
    ("group:", true),
    ("channel:", true),
    ("panel:", true),
];

/// A session or a panel, by its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Target {
    /// A conversation of the agent.
    Session(String),
    /// A channel of a group.
    Panel(String),
}

impl Target {
    /// Returns the target of a chat. `is_session` and `is_panel` tell ids that are known.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat has no usable id.
    pub(crate) fn new(
        chat: &ChatId,
        is_known_session: impl FnOnce(&str) -> bool,
    ) -> Result<Self, ChannelError> {
        let chat = chat.as_str().trim();
        let prefix = PREFIXES.iter().find_map(|(prefix, is_panel)| {
            let head = chat.get(..prefix.len())?;
            let id = chat.get(prefix.len()..)?;
            head.eq_ignore_ascii_case(prefix)
                .then_some((id.trim(), *is_panel))
        });
        let (id, is_panel) = prefix.unwrap_or((chat, false));
        if id.is_empty() || id.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no session (session_…) or panel of Mochat"
            )));
        }
        let is_session = id.starts_with(SESSION_PREFIX) || (!is_panel && is_known_session(id));
        Ok(if is_session {
            Self::Session(id.to_owned())
        } else {
            Self::Panel(id.to_owned())
        })
    }

    /// Returns the id.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Session(id) | Self::Panel(id) => id,
        }
    }

    /// Returns the kind, as messages name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Panel(_) => "panel",
        }
    }

    /// Returns the key of the target among all others.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.kind(), self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_target_follows_prefix_and_id() {
        let session = |id: &str| Some(Target::Session(id.to_owned()));
        let panel = |id: &str| Some(Target::Panel(id.to_owned()));
        let table = [
            ("session_1", session("session_1")),
            (" mochat:session_1 ", session("session_1")),
            ("group:session_1", session("session_1")),
            ("known", session("known")),
            ("panel:known", panel("known")),
            ("68a1", panel("68a1")),
            ("mochat: 68a1", panel("68a1")),
            ("Panel:68a1", panel("68a1")),
            ("channel:68a1", panel("68a1")),
            ("語語語語語", panel("語語語語語")),
            ("panel:", None),
            ("a b", None),
            ("", None),
        ];
        for (chat, expected) in table {
            let target = Target::new(&chat.into(), |id| id == "known");
            assert_eq!(target.ok(), expected, "{chat}");
        }
    }
}
