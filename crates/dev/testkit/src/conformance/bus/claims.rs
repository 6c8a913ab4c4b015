//! Claims: a slot or a lease has one owner at a time.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::future::join_all;
use nanobot_bus::{Claims, Lease};
use tokio::time::Instant;

use crate::WAIT_LIMIT;
use crate::conformance::same;

const LONG: Duration = Duration::from_secs(3600);

pub(super) async fn slots(bus: &impl Claims) -> anyhow::Result<()> {
    let claims = join_all((0..20).map(|_| bus.claim_once("job@noon"))).await;
    let claims = claims.into_iter().collect::<Result<Vec<_>, _>>()?;
    same(
        "one of many has the slot",
        &claims.into_iter().filter(|taken| *taken).count(),
        &1,
    )?;
    same(
        "nobody gets it later",
        &bus.claim_once("job@noon").await?,
        &false,
    )?;
    same(
        "another slot is free",
        &bus.claim_once("job@one").await?,
        &true,
    )
}

pub(super) async fn leases(bus: &impl Claims) -> anyhow::Result<()> {
    let lease = |epoch| {
        Some(Lease {
            name: "poller".to_owned(),
            epoch,
        })
    };
    same(
        "a free name is taken",
        &bus.lease("poller", "a", LONG).await?,
        &lease(1),
    )?;
    same(
        "nobody else gets it",
        &bus.lease("poller", "b", LONG).await?,
        &None,
    )?;
    same(
        "its owner keeps it",
        &bus.lease("poller", "a", LONG).await?,
        &lease(1),
    )?;
    bus.release("poller", "b").await?;
    same(
        "nobody else gives it back",
        &bus.lease("poller", "b", LONG).await?,
        &None,
    )?;
    bus.release("poller", "a").await?;
    same(
        "its owner does",
        &bus.lease("poller", "b", LONG).await?,
        &lease(2),
    )?;

    const SHORT: Duration = Duration::from_millis(100);
    let taken_at = Instant::now();
    bus.lease("short", "a", SHORT)
        .await?
        .context("a free name is taken")?;
    while bus.lease("short", "b", LONG).await?.is_none() {
        ensure!(taken_at.elapsed() < WAIT_LIMIT, "a lease does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(
        taken_at.elapsed() >= SHORT,
        "a lease ended too soon: after {:?}",
        taken_at.elapsed()
    );
    same(
        "an owner that was late has lost it",
        &bus.lease("short", "a", LONG).await?,
        &None,
    )
}
