//! Drafts that are messages.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_channel::{ChannelError, Measure, StreamId, Value};
use serde_json::json;

use super::support::{Chat, Paper, recording_board};
use crate::draft::slot::IDLE_TIMEOUT;
use crate::draft::{DraftBoard, DraftPlace};

#[tokio::test(start_paused = true)]
async fn draft_grows_up_to_the_limit_and_is_claimed_by_the_reply() {
    let (board, chat, stream) = (
        DraftBoard::new(Measure::CodePoints, 4),
        Chat::default(),
        StreamId::new("s"),
    );
    let slot = board.append(&stream, "ab").unwrap();
    let show = slot.run(chat.clone(), Duration::from_secs(1));
    let write = async {
        for delta in ["c", "de", "beyond"] {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(board.append(&stream, delta).is_none(), "it is begun");
        }
        board.claim(&stream, "reply").await
    };
    let ((), claimed) = tokio::join!(show, write);
    assert_eq!(claimed, Some(7));
    assert_eq!(
        *chat.0.lock().unwrap(),
        ["begin ab", "edit 7 abc", "edit 7 abcd"]
    );
    assert!(
        board.append(&stream, "late").is_none(),
        "what comes late begins nothing"
    );
    assert_eq!(
        board.claim(&stream, "reply").await,
        Some(7),
        "asked again it is the same"
    );
}

#[tokio::test]
async fn claim_before_the_first_delta_prevents_a_draft() {
    let (board, stream) = (
        DraftBoard::<u8>::new(Measure::CodePoints, 4),
        StreamId::new("s"),
    );
    assert_eq!(board.claim(&stream, "reply").await, None);
    assert!(board.append(&stream, "late").is_none());
}

#[tokio::test(start_paused = true)]
async fn draft_record_is_removed_when_claimed_or_expired() {
    let second = || tokio::time::sleep(Duration::from_secs(1));
    let table: [(&str, Option<bool>, Duration, Value); 5] = [
        ("it grows", None, Duration::ZERO, json!([7])),
        ("nothing comes for long", None, IDLE_TIMEOUT, Value::Null),
        (
            "the reply is to come",
            Some(false),
            Duration::ZERO,
            json!([7]),
        ),
        (
            "no reply comes for long",
            Some(false),
            IDLE_TIMEOUT,
            Value::Null,
        ),
        ("tools follow", Some(true), Duration::ZERO, Value::Null),
    ];
    for (what, end, later, noted) in table {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = recording_board(&paper).await;
        tasks.spawn(
            board
                .append(&stream, "ab")
                .unwrap()
                .run(Chat::default(), Duration::from_secs(1)),
        );
        second().await;
        assert_eq!(paper.drafts(), json!([7]), "{what}");
        if let Some(resuming) = end {
            board.close(&stream, resuming).await;
            let stays_at_once = paper.drafts() == Value::Null;
            assert_eq!(stays_at_once, resuming, "{what}");
        }
        tokio::time::sleep(later).await;
        second().await;
        assert_eq!(paper.drafts(), noted, "{what}");
        assert_eq!(board.claim(&stream, "reply").await, Some(7), "{what}");
        assert_eq!(
            paper.drafts(),
            Value::Null,
            "{what}: what a reply may take is not to be deleted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn draft_without_reply_is_left_once() {
    let table: [(Option<bool>, &[&str]); 3] = [
        (Some(true), &["begin ab", "leave 7"]),
        (None, &["begin ab", "leave 7"]),
        (Some(false), &["begin ab", "leave 7"]),
    ];
    for (end, calls) in table {
        let (paper, stream, chat) = (
            Arc::new(Paper::default()),
            StreamId::new("s"),
            Chat::default(),
        );
        let (board, _tasks) = recording_board(&paper).await;
        let slot = board.append(&stream, "ab").unwrap();
        let show = slot.run(chat.clone(), Duration::from_secs(1));
        let close = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(resuming) = end {
                board.close(&stream, resuming).await;
            }
        };
        tokio::join!(show, close);
        assert_eq!(*chat.0.lock().unwrap(), calls, "{end:?}");
        assert_eq!(paper.drafts(), Value::Null, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn withdrawn_draft_is_deleted() {
    for is_closed in [false, true] {
        let (paper, stream, chat) = (
            Arc::new(Paper::default()),
            StreamId::new("s"),
            Chat::default(),
        );
        let (board, tasks) = recording_board(&paper).await;
        tasks.spawn(
            board
                .append(&stream, "ab")
                .unwrap()
                .run(chat.clone(), Duration::from_secs(1)),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        if is_closed {
            board.close(&stream, false).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        board.withdraw(&stream);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(
            *chat.0.lock().unwrap(),
            ["begin ab", "remove 7"],
            "closed: {is_closed}"
        );
        assert_eq!(paper.drafts(), Value::Null);
        assert_eq!(board.claim(&stream, "reply").await, None, "it is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn claim_fails_if_the_draft_record_stays() {
    let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
    let (board, tasks) = recording_board(&paper).await;
    tasks.spawn(
        board
            .append(&stream, "ab")
            .unwrap()
            .run(Chat::default(), Duration::from_secs(1)),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    paper.is_full.store(true, Ordering::Relaxed);
    assert_eq!(board.claim(&stream, "reply").await, None);
    assert_eq!(paper.drafts(), json!([7]));
}

#[tokio::test(start_paused = true)]
async fn dropped_board_keeps_the_draft_records() {
    let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
    let (board, tasks) = recording_board(&paper).await;
    tasks.spawn(
        board
            .append(&stream, "ab")
            .unwrap()
            .run(Chat::default(), Duration::from_secs(1)),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(board);
    tasks.close();
    tasks.wait().await;
    assert_eq!(paper.drafts(), json!([7]));
}

/// The outcome of a first text.
type Outcome = Result<Option<u8>, ChannelError>;

/// A chat in which a message can be found by its intent.
#[derive(Clone, Debug, Default)]
struct FindableChat {
    paper: Arc<Paper>,
    /// The intents that were recorded when messages were sent.
    recorded: Arc<Mutex<Vec<Value>>>,
    /// The outcome of the next message that is sent; none is an answer that never comes.
    outcome: Arc<Mutex<Option<Outcome>>>,
}

impl DraftPlace for FindableChat {
    type Message = u8;

    fn visible(&self, text: &str) -> String {
        text.to_owned()
    }

    fn intent(&self, key: &str) -> Option<Value> {
        Some(json!({ "key": key }))
    }

    async fn begin(&self, _text: &str, key: &str) -> Result<Option<u8>, ChannelError> {
        let begun = self.paper.begun();
        assert_eq!(begun[0]["intent"], json!({ "key": key }));
        self.recorded.lock().unwrap().push(begun);
        let outcome = self.outcome.lock().unwrap().take();
        match outcome {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    async fn edit(&self, _message: &u8, _text: &str) -> Result<(), ChannelError> {
        Ok(())
    }

    async fn remove(&self, _message: &u8) -> Result<(), ChannelError> {
        Ok(())
    }

    fn locator(&self, message: &u8) -> Option<Value> {
        Some(Value::from(*message))
    }
}

#[tokio::test(start_paused = true)]
async fn intent_stays_only_while_the_message_may_be_there() {
    let lost = ChannelError::Ambiguous("cut".to_owned());
    let down = ChannelError::Unavailable("down".to_owned());
    let refused = ChannelError::Refused("no".to_owned());
    let table = [
        (Some(Ok(Some(7))), json!([7]), false),
        (Some(Ok(None)), Value::Null, false),
        (Some(Err(down)), Value::Null, false),
        (Some(Err(refused)), Value::Null, false),
        (Some(Err(lost)), Value::Null, true),
        (None, Value::Null, true),
    ];
    for (outcome, drafts, is_open) in table {
        let (chat, stream) = (FindableChat::default(), StreamId::new("s"));
        let shown = format!("{outcome:?}");
        *chat.outcome.lock().unwrap() = outcome;
        let (board, tasks) = recording_board(&chat.paper).await;
        let slot = board.append(&stream, "ab").unwrap();
        tasks.spawn(slot.run(chat.clone(), Duration::from_secs(1)));
        tokio::time::sleep(Duration::from_secs(30)).await;
        let begun = chat.recorded.lock().unwrap().remove(0);
        let expected = if is_open { begun } else { Value::Null };
        assert_eq!(
            (chat.paper.drafts(), chat.paper.begun()),
            (drafts, expected),
            "{shown}"
        );
    }
}
