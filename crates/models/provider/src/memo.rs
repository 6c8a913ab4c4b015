//! What a provider keeps between the requests of a turn.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that a provider keeps from one request of a turn to the next, such as the serialised
/// beginning of the conversation. Clones share it. It is a saving and never a source of facts: a
/// provider checks that the value fits the request, and does without it if there is none.
#[derive(Clone, Default)]
pub struct TurnMemo(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl TurnMemo {
    /// Takes the value out. Returns `None` if there is none of this type; one of another type, which
    /// another provider left, is dropped.
    #[must_use]
    pub fn take<T: Any>(&self) -> Option<T> {
        let value = self.lock().take()?.downcast().ok()?;
        Some(*value)
    }

    /// Keeps a value, in place of the one before.
    pub fn put<T: Any + Send>(&self, value: T) {
        *self.lock() = Some(Box::new(value));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TurnMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnMemo").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_kept_for_its_own_type_only() {
        let memo = TurnMemo::default();
        let shared = memo.clone();
        assert_eq!(memo.take::<u32>(), None);
        shared.put(7_u32);
        assert_eq!(memo.take::<u32>(), Some(7));
        assert_eq!(memo.take::<u32>(), None);
        memo.put("other");
        assert_eq!(memo.take::<u32>(), None);
        assert_eq!(memo.take::<&str>(), None, "dropped");
    }
}
