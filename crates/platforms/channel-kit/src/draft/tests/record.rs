//! The record of drafts, and the deletion of orphans.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_channel::{ChannelError, TaskTracker, Value};
use serde_json::json;
use tokio::time::Instant;

use super::support::Paper;
use crate::draft::orphans::delete_orphans;
use crate::draft::record::{DraftRecord, MAX_DRAFTS, MAX_TAKEN, OPEN_TIMEOUT};
use crate::draft::{BegunDraft, OrphanedDraft};

fn known(name: impl Into<Value>) -> OrphanedDraft {
    OrphanedDraft::Known(name.into())
}

async fn open(paper: &Arc<Paper>, account: &str) -> (DraftRecord, VecDeque<OrphanedDraft>) {
    let orphans = DraftRecord::default();
    let left = orphans
        .open(Arc::<Paper>::clone(paper), TaskTracker::new(), account)
        .await;
    (orphans, left)
}

/// Returns the deletions tried while the platform answers with `answers`, and then accepts all.
async fn deletions(
    orphans: &DraftRecord,
    left: VecDeque<OrphanedDraft>,
    answers: Vec<ChannelError>,
) -> Vec<u64> {
    let (calls, answers) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(VecDeque::from(answers))),
    );
    let delete = |draft: OrphanedDraft| {
        let name = match draft {
            OrphanedDraft::Known(locator) => locator,
            OrphanedDraft::Begun(begun) => begun.intent,
        };
        // A name of a later version is unknown.
        let answer = name.as_u64().and_then(|name| {
            calls.lock().unwrap().push(name);
            answers.lock().unwrap().pop_front()
        });
        async move { answer.map_or(Ok(()), Err) }
    };
    delete_orphans(orphans, left, delete).await;
    calls.lock().unwrap().clone()
}

#[tokio::test]
async fn draft_records_are_left_to_the_next_start() {
    let paper = Arc::new(Paper::default());
    let (orphans, left) = open(&paper, "bot").await;
    assert!(left.is_empty());
    for draft in 1..=3 {
        orphans.add(known(draft)).await;
    }
    assert!(orphans.remove(known(2)).await);
    assert_eq!(paper.drafts(), json!([1, 3]));
    assert!(
        open(&paper, "another bot").await.1.is_empty(),
        "messages of others are not ours to delete"
    );
    let (next, left) = open(&paper, "bot").await;
    next.add(known(4)).await;
    assert_eq!(
        (&left, paper.drafts()),
        (&VecDeque::from([known(1), known(3)]), json!([1, 3, 4]))
    );
    assert_eq!(deletions(&next, left, Vec::new()).await, [1, 3]);
    assert_eq!(paper.drafts(), json!([4]));
    assert!(next.remove(known(4)).await);
    assert_eq!(paper.drafts(), Value::Null);
}

#[tokio::test]
async fn intent_is_recorded_until_the_message_is_known() {
    let begun = |name: u64| BegunDraft::new(name.into());
    let paper = Arc::new(Paper::default());
    let (orphans, _) = open(&paper, "bot").await;
    let sent: [BegunDraft; 3] = [1, 2, 3].map(begun);
    for begun in sent.clone() {
        orphans.add(OrphanedDraft::Begun(begun)).await;
    }
    assert_eq!(paper.drafts(), Value::Null);
    assert_eq!(paper.begun(), json!(sent));
    let [first, second, third] = sent;
    orphans.resolve(first, Some(json!(10))).await;
    orphans.resolve(second, None).await;
    assert_eq!(
        (paper.drafts(), paper.begun()),
        (json!([10]), json!([third]))
    );
    let (next, left) = open(&paper, "bot").await;
    assert_eq!(left, [OrphanedDraft::Begun(third), known(10)]);
    assert_eq!(deletions(&next, left, Vec::new()).await, [3, 10]);
    assert_eq!((paper.drafts(), paper.begun()), (Value::Null, Value::Null));
}

#[tokio::test]
async fn remove_fails_while_the_note_cannot_be_written() {
    let paper = Arc::new(Paper::default());
    let (orphans, _) = open(&paper, "bot").await;
    orphans.add(known(1)).await;
    paper.is_full.store(true, Ordering::Relaxed);
    assert!(!orphans.remove(known(1)).await);
    assert_eq!(paper.drafts(), json!([1]));
    paper.is_full.store(false, Ordering::Relaxed);
    assert!(orphans.remove(known(1)).await);
    assert_eq!(paper.drafts(), Value::Null);
}

#[tokio::test]
async fn draft_of_a_reply_is_known_after_a_restart() {
    let paper = Arc::new(Paper::default());
    let (drafts, _) = open(&paper, "bot").await;
    drafts.add(known(1)).await;
    assert!(drafts.take(&json!(1), "turn/0").await);
    assert!(drafts.take(&json!(1), "turn/0").await, "a repetition");
    assert_eq!(paper.drafts(), Value::Null);
    assert_eq!(paper.taken(), json!([{"reply": "turn/0", "draft": 1}]));
    let (next, left) = open(&paper, "bot").await;
    assert!(left.is_empty(), "a reply is not deleted");
    assert_eq!(next.taken_by("turn/0").await, Some(json!(1)));
    assert_eq!(next.taken_by("turn/1").await, None);
    assert_eq!(open(&paper, "other").await.0.taken_by("turn/0").await, None);
    assert!(next.give_up("turn/0").await);
    assert_eq!(next.taken_by("turn/0").await, None);
    assert_eq!(paper.taken(), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn record_is_waited_for_within_bounds() {
    let drafts = DraftRecord::default();
    let began = Instant::now();
    drafts.wait_until_open().await;
    assert_eq!(began.elapsed(), OPEN_TIMEOUT);
    drafts.wait_until_open().await;
    assert_eq!(began.elapsed(), OPEN_TIMEOUT, "for all sends together");
    let drafts = DraftRecord::default();
    let paper: Arc<Paper> = Arc::default();
    let open = async {
        tokio::time::sleep(OPEN_TIMEOUT / 2).await;
        drafts.open(paper, TaskTracker::new(), "bot").await
    };
    tokio::join!(open, drafts.wait_until_open());
    assert_eq!(began.elapsed(), OPEN_TIMEOUT + OPEN_TIMEOUT / 2);
}

#[tokio::test]
async fn draft_becomes_no_reply_while_the_note_cannot_be_written() {
    let paper = Arc::new(Paper::default());
    let (drafts, _) = open(&paper, "bot").await;
    drafts.add(known(1)).await;
    paper.is_full.store(true, Ordering::Relaxed);
    assert!(!drafts.take(&json!(1), "a").await);
    assert_eq!(drafts.taken_by("a").await, None);
    paper.is_full.store(false, Ordering::Relaxed);
    assert!(drafts.take(&json!(1), "a").await);
    paper.is_full.store(true, Ordering::Relaxed);
    assert!(!drafts.give_up("a").await);
    assert_eq!(drafts.taken_by("a").await, Some(json!(1)));
}

#[tokio::test]
async fn records_of_replies_are_bounded() {
    let paper = Arc::new(Paper::default());
    let (drafts, _) = open(&paper, "bot").await;
    for number in 0..100 {
        assert!(drafts.take(&json!(number), &number.to_string()).await);
    }
    assert_eq!(paper.taken().as_array().unwrap().len(), MAX_TAKEN);
    assert_eq!(drafts.taken_by("67").await, None);
    assert_eq!(drafts.taken_by("68").await, Some(json!(68)));
}

#[tokio::test]
async fn draft_records_are_bounded() {
    let paper = Arc::new(Paper::default());
    for draft in 0..100 {
        open(&paper, "bot").await.0.add(known(draft)).await;
    }
    assert_eq!(paper.drafts(), Value::from((36..100).collect::<Vec<_>>()));
    let paper = Arc::new(Paper::default());
    let (orphans, _) = open(&paper, "bot").await;
    for draft in 0..100 {
        orphans.add(known(draft)).await;
    }
    assert_eq!(paper.drafts().as_array().unwrap().len(), MAX_DRAFTS);
}

#[tokio::test(start_paused = true)]
async fn deletion_is_retried_while_the_error_is_transient() {
    let unavailable = || ChannelError::Unavailable("down".to_owned());
    let limited = |seconds| ChannelError::RateLimited {
        retry_after: Duration::from_secs(seconds),
    };
    let table = [
        (
            vec![
                unavailable(),
                ChannelError::Ambiguous("cut".to_owned()),
                limited(30),
            ],
            vec![1, 1, 1, 1, 2],
            json!(null),
        ),
        (
            vec![ChannelError::NotFound("gone".to_owned())],
            vec![1, 2],
            json!(null),
        ),
        (
            vec![ChannelError::Refused("too old".to_owned())],
            vec![1, 2],
            json!(null),
        ),
        (vec![limited(3600)], vec![1, 2], json!([1])),
        (
            (0..5).map(|_| unavailable()).collect(),
            vec![1, 1, 1, 1, 1, 2],
            json!([1]),
        ),
        (
            vec![ChannelError::Auth("revoked".to_owned())],
            vec![1, 2],
            json!([1]),
        ),
    ];
    for (answers, expected, stays) in table {
        let paper = Arc::new(Paper::default());
        let (orphans, _) = open(&paper, "bot").await;
        orphans.add(known(1)).await;
        orphans.add(known(2)).await;
        let (next, left) = open(&paper, "bot").await;
        let shown = format!("{answers:?}");
        assert_eq!(
            (deletions(&next, left, answers).await, paper.drafts()),
            (expected, stays),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn malformed_note_is_ignored() {
    for text in [
        "",
        "{",
        "[]",
        "{\"account\": 1}",
        "{\"account\": \"bot\", \"drafts\": [], \"taken\": 1}",
    ] {
        let paper = Arc::new(Paper {
            text: Mutex::new(Some(text.to_owned())),
            ..Paper::default()
        });
        assert!(open(&paper, "bot").await.1.is_empty(), "{text}");
    }
    let paper = Arc::new(Paper::default());
    let (orphans, _) = open(&paper, "bot").await;
    orphans.add(known("of a later version")).await;
    let (next, left) = open(&paper, "bot").await;
    assert!(deletions(&next, left, Vec::new()).await.is_empty());
    assert_eq!(paper.drafts(), Value::Null);
}
