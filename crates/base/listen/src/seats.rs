//! Limits on concurrent connections, in total and per address.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Maximum numbers of concurrent connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatLimits {
    /// Limit for the listener.
    pub total: usize,
    /// Limit for one address, or for one /64 network in IPv6. Set it to `total` if a reverse proxy
    /// is expected, because all connections then come from its address.
    pub per_address: usize,
}

/// The seats of a listener. Clones share them.
#[derive(Clone, Debug)]
pub struct Seats {
    limits: SeatLimits,
    taken: Arc<Mutex<TakenSeat>>,
}

#[derive(Debug, Default)]
struct TakenSeat {
    /// Holders by seat number, oldest first.
    seats: BTreeMap<u64, Holder>,
    next: u64,
}

#[derive(Debug)]
struct Holder {
    address: IpAddr,
    is_busy: bool,
    evicted: CancellationToken,
}

/// The seat of one connection. Dropping it frees the seat.
#[derive(Debug)]
pub struct Seat {
    taken: Arc<Mutex<TakenSeat>>,
    number: u64,
    address: IpAddr,
    evicted: CancellationToken,
}

impl Seats {
    /// Creates seats that are all free.
    #[must_use]
    pub fn new(limits: SeatLimits) -> Self {
        Self {
            limits,
            taken: Arc::default(),
        }
    }

    /// Takes a seat. If none is free, evicts the oldest idle connection: one of the same address if
    /// that address has used up its limit, otherwise one of the address with the most idle
    /// connections. Returns `None` if every candidate is busy.
    #[must_use]
    pub fn take(&self, address: IpAddr) -> Option<Seat> {
        let address = network(address);
        let mut taken = lock(&self.taken);
        if taken.of(address) >= self.limits.per_address {
            taken.evict(address)?;
        } else if taken.seats.len() >= self.limits.total {
            let crowded = taken.most_crowded()?;
            taken.evict(crowded)?;
        }
        let number = taken.next;
        taken.next = number.wrapping_add(1);
        let evicted = CancellationToken::new();
        taken.seats.insert(
            number,
            Holder {
                address,
                is_busy: false,
                evicted: evicted.clone(),
            },
        );
        drop(taken);
        Some(Seat {
            taken: Arc::clone(&self.taken),
            number,
            address,
            evicted,
        })
    }
}

impl TakenSeat {
    fn of(&self, address: IpAddr) -> usize {
        self.seats
            .values()
            .filter(|holder| holder.address == address)
            .count()
    }

    /// Returns the address with the most idle connections.
    fn most_crowded(&self) -> Option<IpAddr> {
        let mut idle: HashMap<IpAddr, usize> = HashMap::new();
        for holder in self.seats.values().filter(|holder| !holder.is_busy) {
            let count = idle.entry(holder.address).or_default();
            *count = count.saturating_add(1);
        }
        idle.into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(address, _)| address)
    }

    /// Evicts the oldest idle connection of an address.
    fn evict(&mut self, address: IpAddr) -> Option<()> {
        let is_meant = |holder: &Holder| holder.address == address && !holder.is_busy;
        let oldest = self
            .seats
            .iter()
            .find(|(_, holder)| is_meant(holder))
            .map(|(number, _)| *number)?;
        let holder = self.seats.remove(&oldest)?;
        holder.evicted.cancel();
        Some(())
    }
}

impl Seat {
    /// Waits until the seat is given to another connection. The holder then has to close its
    /// connection.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Protects the connection from eviction while `is_busy`.
    pub fn set_busy(&self, is_busy: bool) {
        if let Some(holder) = lock(&self.taken).seats.get_mut(&self.number) {
            holder.is_busy = is_busy;
        }
    }

    /// Returns the address that the seat is counted for.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.taken).seats.remove(&self.number);
    }
}

fn lock(taken: &Mutex<TakenSeat>) -> MutexGuard<'_, TakenSeat> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the address used for counting: a user is assumed to have one IPv4 address, or one /64
/// network in IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(total: usize, per_address: usize) -> Seats {
        Seats::new(SeatLimits { total, per_address })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn evicts_only_connections_of_the_address_at_its_limit() {
        let seats = seats(8, 2);
        let other = seats.take(address(1)).unwrap();
        let held: Vec<_> = (0..4).map(|_| seats.take(address(2)).unwrap()).collect();
        let evicted: Vec<bool> = held
            .iter()
            .map(|seat| seat.evicted.is_cancelled())
            .collect();
        assert_eq!(evicted, [true, true, false, false]);
        assert!(!other.evicted.is_cancelled());
    }

    #[test]
    fn full_listener_evicts_from_the_address_with_most_seats() {
        let seats = seats(3, 2);
        let single = seats.take(address(1)).unwrap();
        let (first, second) = (
            seats.take(address(2)).unwrap(),
            seats.take(address(2)).unwrap(),
        );
        let newest = seats.take(address(3)).unwrap();
        let evicted = [&single, &first, &second, &newest].map(|seat| seat.evicted.is_cancelled());
        assert_eq!(evicted, [false, true, false, false]);
    }

    #[test]
    fn busy_connections_are_never_evicted() {
        let seats = seats(2, 2);
        let (one, two) = (
            seats.take(address(1)).unwrap(),
            seats.take(address(2)).unwrap(),
        );
        one.set_busy(true);
        two.set_busy(true);
        assert!(seats.take(address(3)).is_none());
        drop(one);
        assert!(seats.take(address(3)).is_some());
        two.set_busy(false);
    }

    #[test]
    fn ipv6_counts_by_network_and_mapped_ipv4_as_ipv4() {
        let same = ["2001:db8::1", "2001:db8::ffff:2"].map(|text| network(text.parse().unwrap()));
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
