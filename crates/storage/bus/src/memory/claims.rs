//! Claims and leases within one process.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::{LONGEST_DELAY, Lease};

#[derive(Debug, Default)]
pub(super) struct ClaimTable {
    slots: HashSet<String>,
    leases: HashMap<String, HeldLease>,
}

#[derive(Debug)]
struct HeldLease {
    owner: String,
    epoch: u64,
    until: Instant,
}

impl ClaimTable {
    pub(super) fn claim_once(&mut self, slot: &str) -> bool {
        self.slots.insert(slot.to_owned())
    }

    pub(super) fn lease(&mut self, name: &str, owner: &str, ttl: Duration) -> Option<Lease> {
        let now = Instant::now();
        let epoch = match self.leases.get(name) {
            Some(holding) if holding.until > now && holding.owner == owner => holding.epoch,
            Some(holding) if holding.until > now => return None,
            Some(holding) => holding.epoch.saturating_add(1),
            None => 1,
        };
        let holding = HeldLease {
            owner: owner.to_owned(),
            epoch,
            until: now + ttl.min(LONGEST_DELAY),
        };
        self.leases.insert(name.to_owned(), holding);
        Some(Lease {
            name: name.to_owned(),
            epoch,
        })
    }

    pub(super) fn release(&mut self, name: &str, owner: &str) {
        if let Some(holding) = self
            .leases
            .get_mut(name)
            .filter(|holding| holding.owner == owner)
        {
            holding.until = Instant::now();
        }
    }
}
