//! Simulated faults of a server: unreachable, silent, or dropping its connections.

use std::future::Future;

use crate::TestkitError;
use crate::sync::Watched;

/// Availability of a server. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage(Watched<Condition>);

#[derive(Debug, Default)]
struct Condition {
    is_down: bool,
    is_stalled: bool,
    listens: bool,
    cuts: u64,
}

impl Outage {
    /// Cuts all open connections.
    pub(super) fn cut(&self) {
        self.0.change(|condition| condition.cuts += 1);
    }

    /// Begins an outage and waits until the server no longer listens.
    pub(super) async fn begin(&self) -> Result<(), TestkitError> {
        self.0.change(|condition| {
            condition.is_down = true;
            condition.cuts += 1;
        });
        self.0
            .wait_for("the server to go down", |condition| {
                (!condition.listens).then_some(())
            })
            .await
    }

    /// Ends the outage and waits until the server listens.
    pub(super) async fn end(&self) -> Result<(), TestkitError> {
        self.0.change(|condition| condition.is_down = false);
        self.0
            .wait_for("the server to come back", |condition| {
                condition.listens.then_some(())
            })
            .await
    }

    pub(super) fn stall(&self, is_stalled: bool) {
        self.0.change(|condition| condition.is_stalled = is_stalled);
    }

    /// Records if the server listens.
    pub(super) fn listening(&self, listens: bool) {
        self.0.change(|condition| condition.listens = listens);
    }

    pub(super) async fn begun(&self) {
        self.0.reached(|condition| condition.is_down).await;
    }

    pub(super) async fn over(&self) {
        self.0.reached(|condition| !condition.is_down).await;
    }

    pub(super) async fn not_stalled(&self) {
        self.0.reached(|condition| !condition.is_stalled).await;
    }

    /// Returns a future that resolves at the next cut after this call, even if it is first polled
    /// later.
    pub(super) fn watch_cuts(&self) -> impl Future<Output = ()> + Send + use<> {
        let (outage, before) = (self.clone(), self.0.read(|condition| condition.cuts));
        async move { outage.0.reached(|condition| condition.cuts != before).await }
    }
}
