//! The changes of a sync.

use std::collections::{BTreeMap, BTreeSet};

use matrix_sdk_common::ruma::{
    OneTimeKeyAlgorithm, OwnedUserId, UInt, api::client::sync::sync_events::DeviceLists,
    events::AnyToDeviceEvent, serde::Raw,
};
use matrix_sdk_crypto::EncryptionSyncChanges;
use nanobot_matrix_crypto::{SyncChanges, SyncOutcome, protocol::Failure};
use serde_json::Value;

use crate::{
    engine::{Engine, TRUST},
    events::raw,
    fault::failed,
};

impl Engine {
    /// Takes the changes of a sync. They are on disk afterwards: the store commits them in one
    /// transaction, which SQLite syncs.
    pub(crate) async fn receive_sync(
        &mut self,
        changes: SyncChanges,
    ) -> Result<SyncOutcome, Failure> {
        let devices = device_lists(&changes.device_lists);
        let counts = key_counts(&changes.one_time_keys_count);
        let fallback: Option<Vec<OneTimeKeyAlgorithm>> = changes
            .unused_fallback_keys
            .map(|kinds| kinds.into_iter().map(OneTimeKeyAlgorithm::from).collect());
        let events = changes.to_device.iter().filter_map(raw).collect();
        self.take_changes(EncryptionSyncChanges {
            to_device_events: events,
            changed_devices: &devices,
            one_time_keys_counts: &counts,
            unused_fallback_keys: fallback.as_deref(),
            next_batch_token: Some(changes.next_batch),
        })
        .await
    }

    /// Takes to-device events that were taken before, and were too early.
    pub(crate) async fn receive_again(
        &mut self,
        events: Vec<Raw<AnyToDeviceEvent>>,
    ) -> Result<(), Failure> {
        self.take_changes(EncryptionSyncChanges {
            to_device_events: events,
            changed_devices: &DeviceLists::new(),
            one_time_keys_counts: &BTreeMap::new(),
            unused_fallback_keys: None,
            next_batch_token: None,
        })
        .await?;
        Ok(())
    }

    async fn take_changes(
        &mut self,
        changes: EncryptionSyncChanges<'_>,
    ) -> Result<SyncOutcome, Failure> {
        let taken = Box::pin(self.machine.receive_sync_changes(changes, &TRUST)).await;
        self.is_ahead |= taken.is_err();
        let (events, keys) = taken.map_err(failed("the changes of a sync cannot be taken"))?;
        self.note_verifications(&events).await?;
        self.advance_verifications().await?;
        let rooms: BTreeSet<String> = keys.iter().map(|key| key.room_id.to_string()).collect();
        Ok(SyncOutcome {
            rooms_with_new_keys: rooms.into_iter().collect(),
        })
    }
}

/// Reads `device_lists`, without what is invalid in it.
fn device_lists(value: &Value) -> DeviceLists {
    let users = |field: &str| -> Vec<OwnedUserId> {
        let list = value.get(field).and_then(Value::as_array);
        let ids = list.into_iter().flatten().filter_map(Value::as_str);
        ids.filter_map(|id| OwnedUserId::try_from(id).ok())
            .collect()
    };
    let mut lists = DeviceLists::new();
    lists.changed = users("changed");
    lists.left = users("left");
    lists
}

/// Reads `device_one_time_keys_count`, without what is invalid in it.
fn key_counts(value: &Value) -> BTreeMap<OneTimeKeyAlgorithm, UInt> {
    let counts = value.as_object().into_iter().flatten();
    counts
        .filter_map(|(kind, count)| {
            let count = UInt::try_from(count.as_u64()?).ok()?;
            Some((OneTimeKeyAlgorithm::from(kind.as_str()), count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_parts_are_left_out() {
        let lists = device_lists(&json!({"changed": ["@a:b", 1, "c"], "left": "x"}));
        assert_eq!(lists.changed, ["@a:b"]);
        assert!(lists.left.is_empty());
        let counts = key_counts(&json!({"signed_curve25519": 7, "x": -1, "y": "z"}));
        assert_eq!(counts.len(), 1);
        assert_eq!(
            counts.get(&OneTimeKeyAlgorithm::SignedCurve25519),
            Some(&UInt::from(7_u32))
        );
        assert!(key_counts(&Value::Null).is_empty());
    }
}
