//! Claims and leases as rows.

use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{BusError, Claims, Lease};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::SqliteBus;
use crate::clock::Millis;
use crate::database::Durability;

#[async_trait]
impl Claims for SqliteBus {
    async fn claim_once(&self, slot: &str) -> Result<bool, BusError> {
        let (slot, now) = (slot.to_owned(), self.db.clock().now());
        self.db
            .write(Durability::Power, move |connection| {
                let taken = connection
                    .prepare_cached("INSERT INTO claim (slot, taken_at) VALUES (?1, ?2) ON CONFLICT (slot) DO NOTHING")?
                    .execute(params![slot, now])?;
                Ok(taken == 1)
            })
            .await
            .map_err(|refusal| refusal.bus("claim a slot"))
    }

    async fn lease(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, BusError> {
        let (name, owner, clock) = (name.to_owned(), owner.to_owned(), self.db.clock());
        let (now, expires_at) = (clock.now(), clock.after(ttl));
        self.db
            .write(Durability::Power, move |connection| {
                lease(connection, name, &owner, now, expires_at)
            })
            .await
            .map_err(|refusal| refusal.bus("take a lease"))
    }

    async fn release(&self, name: &str, owner: &str) -> Result<(), BusError> {
        let (name, owner) = (name.to_owned(), owner.to_owned());
        self.db
            .write(Durability::Power, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE lease SET expires_at = 0 WHERE name = ?1 AND owner = ?2",
                    )?
                    .execute([&name, &owner])
                    .map(drop)
            })
            .await
            .map_err(|refusal| refusal.bus("give a lease back"))
    }
}

/// Takes or renews a lease. The row outlives the lease, because the epoch must keep growing.
fn lease(
    connection: &Connection,
    name: String,
    owner: &str,
    now: Millis,
    expires_at: Millis,
) -> rusqlite::Result<Option<Lease>> {
    let held: Option<(String, u64, Millis)> = connection
        .prepare_cached("SELECT owner, epoch, expires_at FROM lease WHERE name = ?1")?
        .query_row([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let epoch = match held {
        Some((holder, epoch, until)) if until > now && holder == owner => epoch,
        Some((_, _, until)) if until > now => return Ok(None),
        Some((_, epoch, _)) => epoch.saturating_add(1),
        None => 1,
    };
    connection
        .prepare_cached(
            "INSERT INTO lease (name, owner, epoch, expires_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET owner = ?2, epoch = ?3, expires_at = ?4",
        )?
        .execute(params![name, owner, epoch, expires_at])?;
    Ok(Some(Lease { name, epoch }))
}
