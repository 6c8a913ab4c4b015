//! Turns that continue after a restart of the program or the channel.
//!
//! Decision: the ledger knows which messages are unanswered, so nothing else is stored for this.
//! The end of a turn is reported only to current listeners, and a turn may end before there are
//! any. While these turns are shown, the ledger is therefore polled for whether they still run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{BusError, Ledger, LedgerFilter, Queue};
use nanobot_channel::{InboundMessage, Origin, TraceId};

use super::{ChatThread, MAX_TURNS, WorkKeeper, chat_thread};

/// Maximum number of open messages read.
const MAX_OPEN: usize = MAX_TURNS * 8;
/// Interval between checks whether the turns are still open.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

impl WorkKeeper {
    /// Resumes the indicators for turns of messages that this channel delivered before the start.
    /// Only what is shown depends on it, so an error is logged and ignored.
    pub(crate) async fn resume(&self, ledger: Arc<dyn Ledger>) {
        let unanswered = match self.unanswered(&*ledger).await {
            Ok(unanswered) if unanswered.is_empty() => return,
            Ok(unanswered) => unanswered,
            Err(error) => {
                return tracing::warn!(channel = %self.channel.name(), %error, "cannot list resumed turns");
            }
        };
        for message in &unanswered {
            self.begin(message);
        }
        let turns = unanswered.iter().map(|message| {
            (
                chat_thread(&message.chat_id, &message.delivery),
                message.turn_id(),
            )
        });
        let (keeper, turns) = (self.clone(), turns.collect());
        self.tasks.spawn(async move {
            keeper
                .cancel
                .run_until_cancelled(keeper.poll_until_ended(&*ledger, turns))
                .await;
        });
    }

    /// Returns the users' unanswered messages of this channel, oldest first.
    async fn unanswered(&self, ledger: &dyn Ledger) -> Result<Vec<InboundMessage>, BusError> {
        let unanswered = ledger
            .list(Queue::Inbound, LedgerFilter::Open, MAX_OPEN)
            .await?;
        let inbound = unanswered
            .into_iter()
            .rev()
            .filter_map(|entry| entry.inbound);
        let is_user_message = |message: &InboundMessage| {
            message.channel == *self.channel.name()
                && message.origin == Origin::User
                && message.id.is_some()
        };
        Ok(inbound.filter(is_user_message).collect())
    }

    /// Ends the indicators of turns whose end was not reported here.
    async fn poll_until_ended(&self, ledger: &dyn Ledger, mut turns: Vec<(ChatThread, TraceId)>) {
        while !turns.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
            let Ok(unanswered) = self.unanswered(ledger).await else {
                continue;
            };
            let unanswered: BTreeSet<TraceId> =
                unanswered.iter().map(InboundMessage::turn_id).collect();
            turns.retain(|(chat_thread, turn)| {
                if !unanswered.contains(turn) {
                    self.end_turn(chat_thread, turn);
                }
                self.shown()
                    .get(chat_thread)
                    .is_some_and(|work| work.turns.contains(turn))
            });
        }
    }
}
