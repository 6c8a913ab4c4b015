//! Who may talk to the assistant: deny by default, read anew for every message.
//!
//! Group rules (mentions, allowed groups) are the channels' own, because only they know what a
//! mention is. Pairing will answer here, for direct chats.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nanobot_channel::{Access, AccessDecision, Arrival, ChannelName, ChatId, SenderId, async_trait};
use tokio::sync::watch;

use crate::{AllowFrom, ChannelSettings};

/// How many strangers are told of in the log, each once.
const STRANGERS: usize = 256;

/// The allow list of one channel.
#[derive(Debug)]
pub(crate) struct AllowList {
    channel: ChannelName,
    settings: watch::Receiver<ChannelSettings>,
    strangers: Mutex<BTreeSet<SenderId>>,
}

impl AllowList {
    pub(crate) fn new(channel: ChannelName, settings: watch::Receiver<ChannelSettings>) -> Self {
        Self { channel, settings, strangers: Mutex::default() }
    }

    /// Tells the operator when the list lets nobody in.
    pub(crate) fn announce(&self) {
        let channel = &self.channel;
        match &self.settings.borrow().allow_from {
            AllowFrom::Unset => {
                tracing::warn!(%channel, "nobody may talk on this channel yet: put ids into its allowFrom");
            }
            AllowFrom::Listed(ids) if ids.is_empty() => {
                tracing::warn!(
                    %channel,
                    "allowFrom is empty, which means nobody (it once meant everyone, which is [\"*\"] now)"
                );
            }
            AllowFrom::Listed(_) => {}
        }
    }

    /// Names a stranger in the log once, with the id that the list would need.
    fn tell(&self, sender: &SenderId) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.len() < STRANGERS && strangers.insert(sender.clone()) {
            tracing::info!(channel = %self.channel, %sender, "ignored a stranger: their id is not in allowFrom");
        }
    }
}

#[async_trait]
impl Access for AllowList {
    async fn check(&self, sender: &SenderId, _chat: &ChatId, _arrival: &Arrival) -> AccessDecision {
        if self.settings.borrow().allow_from.allows(sender.as_str()) {
            return AccessDecision::Allowed;
        }
        self.tell(sender);
        AccessDecision::Denied
    }
}
