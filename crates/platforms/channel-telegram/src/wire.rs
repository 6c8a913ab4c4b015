//! An update of Telegram, read as far as possible.

use serde::Deserialize;
use teloxide::types::{MediaGroupId, Message, UpdateKind};

use crate::migration::migration_of;
use crate::salvage;

/// An update of which only the id was read.
#[derive(Debug)]
pub(crate) struct RawUpdate {
    pub(crate) id: u32,
    pub(crate) text: Box<str>,
}

impl RawUpdate {
    /// Finds the id of an update; `None` if it has none. Does not parse the rest and does not
    /// recurse into it.
    pub(crate) fn peek(text: impl Into<Box<str>>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Numbered {
            update_id: u32,
        }
        let text = text.into();
        let content = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let Numbered { update_id } = serde_json::from_str(content).ok()?;
        Some(Self {
            id: update_id,
            text,
        })
    }

    /// Returns its key in the quarantine.
    pub(crate) fn key(&self) -> String {
        self.id.to_string()
    }
}

/// An update as far as it could be read.
#[derive(Debug)]
pub(crate) struct ParsedUpdate {
    pub(crate) id: u32,
    pub(crate) kind: UpdateKind,
    /// `true` for an unread update with nothing to do.
    pub(crate) is_quarantined: bool,
}

impl ParsedUpdate {
    /// Reads an update as far as possible.
    pub(crate) fn parse(raw: &RawUpdate) -> Self {
        let kind = salvage::parse(&raw.text)
            .map_or_else(|| UpdateKind::Error(().into()), |update| update.kind);
        Self {
            id: raw.id,
            kind,
            is_quarantined: false,
        }
    }

    /// Returns an update that is not read, and has nothing to do.
    pub(crate) fn quarantined(raw: &RawUpdate) -> Self {
        Self {
            id: raw.id,
            kind: UpdateKind::Error(().into()),
            is_quarantined: true,
        }
    }

    /// Returns its message.
    pub(crate) fn message(&self) -> Option<&Message> {
        match &self.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => Some(message),
            _ => None,
        }
    }

    /// Returns the album that it is part of.
    pub(crate) fn album(&self) -> Option<(i64, &MediaGroupId)> {
        let message = self.message()?;
        message
            .media_group_id()
            .map(|group| (message.chat.id.0, group))
    }

    /// Returns its lane, which orders the updates of a chat. The move of a group is in the lane of
    /// the new id.
    pub(crate) fn lane(&self) -> i64 {
        let message = match &self.kind {
            UpdateKind::Message(message)
            | UpdateKind::ChannelPost(message)
            | UpdateKind::EditedMessage(message) => Some(message),
            UpdateKind::CallbackQuery(query) => query
                .message
                .as_ref()
                .and_then(|message| message.regular_message()),
            _ => None,
        };
        message.map_or(0, |message| {
            migration_of(message).map_or(message.chat.id.0, |(_, new)| new)
        })
    }
}
