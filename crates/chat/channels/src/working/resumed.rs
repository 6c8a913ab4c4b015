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

use super::{ChatThread, TURNS, WorkKeeper, place};

/// Maximum number of open messages read.
const OPEN: usize = TURNS * 8;
/// Interval between checks whether the turns are still open.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl WorkKeeper {
    /// Resumes the indicators for turns of messages that this channel delivered before the start.
    /// Only what is shown depends on it, so an error is logged and ignored.
    pub(crate) async fn resume(&self, ledger: Arc<dyn Ledger>) {
        let open = match self.open(&*ledger).await {
            Ok(open) if open.is_empty() => return,
            Ok(open) => open,
            Err(error) => {
                return tracing::warn!(channel = %self.channel.name(), %error, "cannot list resumed turns");
            }
        };
        for message in &open {
            self.begin(message);
        }
        let turns = open.iter().map(|message| {
            (
                place(&message.chat_id, &message.delivery),
                message.turn_id(),
            )
        });
        let (keeper, turns) = (self.clone(), turns.collect());
        self.tasks.spawn(async move {
            keeper
                .cancel
                .run_until_cancelled(keeper.follow(&*ledger, turns))
                .await;
        });
    }

    /// Returns the users' unanswered messages of this channel, oldest first.
    async fn open(&self, ledger: &dyn Ledger) -> Result<Vec<InboundMessage>, BusError> {
        let open = ledger
            .list(Queue::Inbound, LedgerFilter::Open, OPEN)
            .await?;
        let inbound = open.into_iter().rev().filter_map(|entry| entry.inbound);
        let is_theirs = |message: &InboundMessage| {
            message.channel == *self.channel.name()
                && message.origin == Origin::User
                && message.id.is_some()
        };
        Ok(inbound.filter(is_theirs).collect())
    }

    /// Ends the indicators of turns whose end was not reported here.
    async fn follow(&self, ledger: &dyn Ledger, mut turns: Vec<(ChatThread, TraceId)>) {
        while !turns.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
            let Ok(open) = self.open(ledger).await else {
                continue;
            };
            let open: BTreeSet<TraceId> = open.iter().map(InboundMessage::turn_id).collect();
            turns.retain(|(place, turn)| {
                if !open.contains(turn) {
                    self.end_turn(place, turn);
                }
                self.shown()
                    .get(place)
                    .is_some_and(|work| work.turns.contains(turn))
            });
        }
    }
}
