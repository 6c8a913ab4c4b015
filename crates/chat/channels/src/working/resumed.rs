//! Turns that go on after the program, or the channel, began anew.
//!
//! Decision: the ledger tells which messages are not answered, so nothing is kept for this. The end
//! of a turn is told to those who listen then, and one may end before anybody does: as long as these
//! turns are shown, the ledger is asked now and then whether they still go on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{BusError, Ledger, LedgerFilter, Queue};
use nanobot_channel::{InboundMessage, Origin, TraceId};

use super::{Place, TURNS, WorkKeeper, place, turn_of};

/// How many open messages are looked at.
const OPEN: usize = TURNS * 8;
/// How often it is looked whether they are still open.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl WorkKeeper {
    /// Takes up the turns of messages that this channel brought before it was started. Only what is
    /// shown depends on it, so an error stops nothing.
    pub(crate) async fn resume(&self, ledger: Arc<dyn Ledger>) {
        let open = match self.open(&*ledger).await {
            Ok(open) if open.is_empty() => return,
            Ok(open) => open,
            Err(error) => {
                return tracing::warn!(channel = %self.channel.name(), %error, "cannot see which turns go on");
            }
        };
        for message in &open {
            self.begin(message);
        }
        let turns = open
            .iter()
            .map(|message| (place(&message.chat_id, &message.delivery), turn_of(message)));
        let (keeper, turns) = (self.clone(), turns.collect());
        self.tasks.spawn(async move {
            keeper
                .cancel
                .run_until_cancelled(keeper.follow(&*ledger, turns))
                .await;
        });
    }

    /// What people said here and was not answered yet, the oldest first.
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

    /// Ends what is shown for turns whose end nobody told here.
    async fn follow(&self, ledger: &dyn Ledger, mut turns: Vec<(Place, TraceId)>) {
        while !turns.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
            let Ok(open) = self.open(ledger).await else {
                continue;
            };
            let open: BTreeSet<TraceId> = open.iter().map(turn_of).collect();
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
