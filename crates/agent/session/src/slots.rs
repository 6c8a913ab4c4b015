//! A bounded map of per-session slots, each with its own lock.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_types::SessionKey;
use tokio::sync::OwnedMutexGuard;

/// Maximum number of sessions kept. Evicting one costs one bounded read of its file.
const LIMIT: usize = 256;

type SharedSlot<T> = Arc<tokio::sync::Mutex<T>>;

/// Slots by key. If there are too many, the least recently used one is evicted.
pub(crate) struct Slots<T> {
    inner: Mutex<SlotMap<T>>,
}

struct SlotMap<T> {
    slots: HashMap<SessionKey, (SharedSlot<T>, u64)>,
    clock: u64,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            inner: Mutex::new(SlotMap {
                slots: HashMap::new(),
                clock: 0,
            }),
        }
    }
}

impl<T> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

impl<T: Default> Slots<T> {
    /// Waits for the slot of `key`. Waiters for the same key are served in order.
    pub(crate) async fn lock(&self, key: &SessionKey) -> OwnedMutexGuard<T> {
        self.slot(key).lock_owned().await
    }

    fn slot(&self, key: &SessionKey) -> SharedSlot<T> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let now = inner.clock;
        if let Some((slot, used)) = inner.slots.get_mut(key) {
            *used = now;
            return slot.clone();
        }
        if inner.slots.len() >= LIMIT {
            inner.evict_one();
        }
        let slot = SharedSlot::<T>::default();
        inner.slots.insert(key.clone(), (slot.clone(), now));
        slot
    }
}

impl<T> SlotMap<T> {
    /// Evicts the least recently used idle slot. A slot that is held or waited for is never
    /// evicted, because its lock would be lost.
    fn evict_one(&mut self) {
        let idle = self
            .slots
            .iter()
            .filter(|(_, (slot, _))| Arc::strong_count(slot) == 1);
        if let Some(oldest) = idle
            .min_by_key(|(_, (_, used))| *used)
            .map(|(key, _)| key.clone())
        {
            self.slots.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn evicts_the_oldest_idle_slot_but_no_held_one() {
        let slots = Slots::<u32>::default();
        let key = |number: usize| SessionKey::from(format!("t:{number}"));
        let mut held = slots.lock(&key(0)).await;
        *held = 7;
        *slots.lock(&key(1)).await = 8;
        for number in 2..=LIMIT {
            *slots.lock(&key(number)).await = 9;
        }
        drop(held);
        assert_eq!(*slots.lock(&key(0)).await, 7);
        assert_eq!(*slots.lock(&key(1)).await, 0);
    }
}
