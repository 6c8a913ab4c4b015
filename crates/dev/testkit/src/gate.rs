//! A gate that holds replies of a scripted model back.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// A gate that holds replies back until a test opens it, so that tests can act in the middle of a
/// model call. Clones share the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<CancellationToken>);

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Gate {}

impl Gate {
    /// Creates a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases every reply held by this gate, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    pub(crate) async fn passed(&self) {
        self.0.cancelled().await;
    }
}
