//! The durable bus keeps the contract, across restarts too.

use std::cell::RefCell;

use nanobot_state::{SqliteBus, StateDb};
use nanobot_testkit::conformance;

/// Homes that exist as long as the suite runs.
#[derive(Default)]
struct Homes(RefCell<Vec<tempfile::TempDir>>);

impl Homes {
    async fn make(&self) -> anyhow::Result<SqliteBus> {
        let home = tempfile::tempdir()?;
        let path = home.path().join("state.db");
        self.0.borrow_mut().push(home);
        Ok(SqliteBus::open(StateDb::open(path).await?).await?)
    }

    /// Drops the bus without closing it, and opens the same home again.
    async fn reopen(&self, bus: SqliteBus) -> anyhow::Result<SqliteBus> {
        drop(bus);
        let path = self
            .0
            .borrow()
            .last()
            .map(|home| home.path().join("state.db"))
            .unwrap();
        Ok(SqliteBus::open(StateDb::open(path).await?).await?)
    }
}

#[tokio::test]
async fn conforms_to_the_bus_contract() -> anyhow::Result<()> {
    let homes = Homes::default();
    conformance::bus(async || homes.make().await).await
}

#[tokio::test]
async fn conforms_to_the_durability_contract() -> anyhow::Result<()> {
    let homes = Homes::default();
    conformance::bus_durability(
        async || homes.make().await,
        async |bus| homes.reopen(bus).await,
    )
    .await
}
