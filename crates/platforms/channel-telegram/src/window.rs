//! Handled updates, and the offset up to which they may be confirmed.
//!
//! The offset of a poll confirms every update below it. Chats are served concurrently, so an update
//! may be handled before an earlier one; the offset stays at the first that is not. A confirmed
//! update is never repeated, so the messages of an album are confirmed together: otherwise a part
//! of it would be repeated as a message of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::album::UpdateJob;
use crate::lanes::Settle;
use crate::wire::RawUpdate;

/// Updates from the first unconfirmed one.
#[derive(Debug)]
pub(crate) struct OffsetWindow<'a> {
    offset: &'a AtomicI32,
    /// All updates below it are handled.
    floor: u32,
    updates: BTreeMap<u32, Update>,
}

#[derive(Clone, Copy, Debug)]
struct Update {
    /// The first update of its album.
    head: u32,
    is_done: bool,
}

impl<'a> OffsetWindow<'a> {
    /// An empty window; `offset` is that of the next poll.
    pub(crate) fn new(offset: &'a AtomicI32) -> Self {
        Self {
            offset,
            floor: 0,
            updates: BTreeMap::new(),
        }
    }

    /// Empties the window after all updates were handled, because Telegram may restart its
    /// numbering.
    pub(crate) fn clear(&mut self) {
        self.floor = 0;
        self.updates.clear();
    }

    /// Returns the updates that are new.
    pub(crate) fn filter_new(&self, updates: Vec<RawUpdate>) -> Vec<RawUpdate> {
        let is_new =
            |update: &RawUpdate| update.id >= self.floor && !self.updates.contains_key(&update.id);
        updates.into_iter().filter(is_new).collect()
    }

    /// Adds updates that are being handled.
    pub(crate) fn add(&mut self, job: &UpdateJob) {
        let head = job.first.id;
        self.updates.extend(job.updates().map(|update| {
            (
                update.id,
                Update {
                    head,
                    is_done: false,
                },
            )
        }));
    }

    /// Returns the offset below which all updates are handled and no album is split.
    fn confirmed_offset(&self) -> Option<u32> {
        let (last, _) = self.updates.last_key_value()?;
        let open = self.updates.iter().find(|(_, update)| !update.is_done);
        let mut reached = open.map_or(last.saturating_add(1), |(id, _)| *id);
        // An album that ends above begins below: it has to stay whole.
        while let Some(head) = self
            .updates
            .range(reached..)
            .map(|(_, update)| update.head)
            .min()
            && head < reached
        {
            reached = head;
        }
        Some(reached)
    }
}

impl Settle for OffsetWindow<'_> {
    fn settle(&mut self, updates: &[u32]) {
        for id in updates {
            if let Some(update) = self.updates.get_mut(id) {
                update.is_done = true;
            }
        }
        let Some(reached) = self.confirmed_offset() else {
            return;
        };
        self.floor = reached;
        self.updates = self.updates.split_off(&reached);
        self.offset.store(
            i32::try_from(reached).unwrap_or(i32::MAX),
            Ordering::Relaxed,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::album::jobs;
    use crate::wire::ParsedUpdate;

    /// Updates by id, chat and album.
    fn received(updates: &[(u32, i64, Option<&str>)]) -> Vec<RawUpdate> {
        let read = |(id, chat, album): &(u32, i64, Option<&str>)| {
            let mut message = json!({
                "message_id": id, "date": 1, "text": "x", "from": {"id": chat, "is_bot": false, "first_name": "Ann"},
                "chat": {"id": chat, "type": "private", "first_name": "Ann"},
            });
            if let Some(album) = album {
                message.as_object_mut().unwrap().remove("text");
                let size = json!({"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1});
                let more = json!({"photo": [size], "media_group_id": album});
                message
                    .as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
            }
            RawUpdate::peek(json!({"update_id": id, "message": message}).to_string()).unwrap()
        };
        updates.iter().map(read).collect()
    }

    #[test]
    fn offset_stays_before_unhandled_updates_and_partial_albums() {
        let updates = [
            (5, 7, Some("a")),
            (6, 8, None),
            (7, 7, Some("a")),
            (8, 9, None),
        ];
        // The handled updates of each job, and the offset after it.
        let table: [&[(&[u32], i32)]; 4] = [
            &[(&[5, 7], 5), (&[6], 8), (&[8], 9)],
            &[(&[8], 5), (&[6], 5), (&[5, 7], 9)],
            &[(&[6], 5), (&[5, 7], 8), (&[8], 9)],
            &[(&[5, 7], 5), (&[8], 5), (&[6], 9)],
        ];
        for steps in table {
            let offset = AtomicI32::new(3);
            let mut window = OffsetWindow::new(&offset);
            let news = window
                .filter_new(received(&updates))
                .iter()
                .map(ParsedUpdate::parse)
                .collect();
            jobs(news).iter().for_each(|job| window.add(job));
            for (done, expected) in steps {
                window.settle(done);
                assert_eq!(
                    offset.load(Ordering::Relaxed),
                    *expected,
                    "{done:?} of {steps:?}"
                );
                assert!(
                    window.filter_new(received(&updates)).is_empty(),
                    "none of them is new again"
                );
            }
            let next = [(8, 9, None), (9, 9, None)];
            let ids = |window: &OffsetWindow<'_>| -> Vec<u32> {
                window
                    .filter_new(received(&next))
                    .iter()
                    .map(|new| new.id)
                    .collect()
            };
            assert_eq!(ids(&window), [9]);
            window.clear();
            assert_eq!(ids(&window), [8, 9], "whatever its number is");
        }
    }
}
