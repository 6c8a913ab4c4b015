//! Metadata of a session that several crates read or write.
//!
//! Decision: the keys are defined here, next to the contract that stores them. They are in session
//! files, so they never change.

use nanobot_types::{Map, SessionKey};
use serde_json::Value;

use crate::Seq;

/// Metadata key of a session under which its audience is stored.
pub const AUDIENCE: &str = "_audience";
/// Metadata key of a session under which a consolidation in progress is stored.
pub const CONSOLIDATION: &str = "_consolidation";

/// Origin of a session that is a copy of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOrigin {
    /// The session that was copied.
    pub from: SessionKey,
    /// The position up to which it was copied.
    pub at: Seq,
}

impl ForkOrigin {
    const FROM: &str = "forked_from";
    const AT: &str = "forked_at";

    /// Returns `true` if the metadata is that of a copy.
    #[must_use]
    pub fn is_in(metadata: &Map) -> bool {
        metadata.contains_key(Self::FROM)
    }

    /// Writes the origin into the metadata of a copy.
    pub(crate) fn write(&self, metadata: &mut Map) {
        metadata.insert(Self::FROM.to_owned(), Value::from(self.from.as_str()));
        metadata.insert(Self::AT.to_owned(), Value::from(self.at.0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_keys_are_stable() {
        assert_eq!([AUDIENCE, CONSOLIDATION], ["_audience", "_consolidation"]);
        let mut metadata = Map::new();
        assert!(!ForkOrigin::is_in(&metadata));
        let origin = ForkOrigin {
            from: "t:1".into(),
            at: Seq(7),
        };
        origin.write(&mut metadata);
        assert!(ForkOrigin::is_in(&metadata));
        assert_eq!(
            json!(metadata),
            json!({"forked_from": "t:1", "forked_at": 7})
        );
    }
}
