//! Messages that Telegram sends one by one although a person sent them together.

use std::collections::BTreeSet;

use teloxide::types::Message;

/// The update ids of messages that went with an earlier one of their album.
#[derive(Debug, Default)]
pub(crate) struct Joined(BTreeSet<u32>);

impl Joined {
    /// `first` and those of the later messages that belong to its album, in order. They are noted, so
    /// that [`Joined::take`] knows them when their own turn comes.
    pub(crate) fn album<'a>(
        &mut self,
        first: &Message,
        later: impl Iterator<Item = (u32, &'a Message)>,
    ) -> Vec<Message> {
        let mut messages = vec![first.clone()];
        let Some(group) = first.media_group_id() else { return messages };
        for (update, message) in later {
            if message.chat.id == first.chat.id && message.media_group_id() == Some(group) {
                messages.push(message.clone());
                self.0.insert(update);
            }
        }
        messages
    }

    /// Whether no message waits for its turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an update was dealt with already; it is forgotten with that.
    pub(crate) fn take(&mut self, update: u32) -> bool {
        self.0.remove(&update)
    }
}
