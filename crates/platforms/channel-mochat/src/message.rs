//! New messages: for the assistant at once, collected, or passed over.

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::intake::{self, Next};

use crate::candidate::{CandidateMessage, candidate, own_text};
use crate::channel::Mochat;
use crate::mention::mentions_agent;
use crate::target::Target;
use crate::wire::ChatMessage;

impl Mochat {
    /// Handles a new message. `payload` is what it was read from.
    pub(crate) async fn handle_message(
        &self,
        target: &Target,
        message: ChatMessage,
        payload: &str,
        context: &ChannelContext,
    ) -> Next {
        let agent = self.config.agent_user_id.as_str();
        if message.id.is_empty() || self.targets.knows(target, &message.id) {
            return Next::Confirm;
        }
        // An agent that answered itself would do so for ever.
        if message.author.is_empty() || message.author == agent {
            self.targets.handled(target, &[&message.id]);
            return Next::Confirm;
        }
        let key = format!("{}:{}", target.key(), message.id);
        let progress = context.progress.as_ref();
        let admitted = self
            .base
            .quarantine
            .admit(&key, payload.as_bytes(), progress);
        let Some(handling) = admitted.await else {
            self.targets.handled(target, &[&message.id]);
            return Next::Confirm;
        };
        let is_mentioned = mentions_agent(&message, agent);
        let panel = match target {
            Target::Panel(panel) => panel,
            Target::Session(_) => {
                let candidate = candidate(agent, target, &[], &message, is_mentioned);
                return self.offer(target, candidate, handling, context).await;
            }
        };
        let needs_mention =
            self.config
                .groups
                .requires_mention(&message.group, panel, &self.config.mention);
        if needs_mention && !is_mentioned {
            handling.end().await;
            self.targets.handled(target, &[&message.id]);
            return Next::Confirm;
        }
        // A command is alone, so that it is found.
        let is_command = own_text(&message, agent).starts_with('/');
        if self.config.delays_replies() && !is_command {
            return self
                .collect(panel, message, is_mentioned, handling, context)
                .await;
        }
        let candidate = candidate(agent, target, &[], &message, is_mentioned);
        self.offer(target, candidate, handling, context).await
    }

    /// Offers one message to the assistant.
    async fn offer(
        &self,
        target: &Target,
        candidate: CandidateMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let next = intake::accept(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            self.targets.handled(target, &[candidate.id.as_str()]);
        }
        next
    }

    /// Collects a message of a panel, and delivers all collected ones with a mention.
    async fn collect(
        &self,
        panel: &str,
        message: ChatMessage,
        is_mentioned: bool,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let target = Target::Panel(panel.to_owned());
        let alone = candidate(
            &self.config.agent_user_id,
            &target,
            &[],
            &message,
            is_mentioned,
        );
        let silent = |_notice| async {};
        let (sender, chat) = (&alone.sender, &alone.chat);
        let has_access = intake::has_access(context, sender, chat, &alone.arrival, silent).await;
        handling.end().await;
        if !has_access {
            self.targets.handled(&target, &[&message.id]);
            return Next::Confirm;
        }
        let silence = self.config.reply_delay();
        let is_full = self.targets.collect(panel, message, silence);
        if is_mentioned || is_full {
            return self.deliver_collected(panel, is_mentioned, context).await;
        }
        Next::Confirm
    }

    /// Delivers collected messages after a silence, unless another one came since.
    pub(crate) async fn silence(&self, panel: &str, context: &ChannelContext) -> Next {
        let is_silent = self
            .targets
            .collection(panel, |collection| collection.is_silent());
        if is_silent == Some(true) {
            return self.deliver_collected(panel, false, context).await;
        }
        Next::Confirm
    }

    /// Delivers the collected messages of a panel as one, from the author of the last one.
    async fn deliver_collected(
        &self,
        panel: &str,
        is_mentioned: bool,
        context: &ChannelContext,
    ) -> Next {
        let target = Target::Panel(panel.to_owned());
        let messages = self
            .targets
            .collection(panel, |collection| collection.messages().to_vec())
            .unwrap_or_default();
        let Some((last, earlier)) = messages.split_last() else {
            return Next::Confirm;
        };
        let agent = &self.config.agent_user_id;
        let candidate = candidate(agent, &target, earlier, last, is_mentioned);
        let next = intake::accept(self, &candidate, None, context).await;
        if next == Next::Confirm {
            let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
            self.targets.delivered(panel, &ids);
        }
        next
    }
}
