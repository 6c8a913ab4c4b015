//! Drafts that are previews.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelError, Measure, StreamId, TaskTracker, Value};
use serde_json::json;
use tokio::time::Instant;

use super::support::{Paper, PreviewChat, recording_board};
use crate::draft::DraftBoard;
use crate::draft::slot::IDLE_TIMEOUT;

/// A draft in a chat with previews, and the board that records it.
struct PreviewRun {
    paper: Arc<Paper>,
    board: DraftBoard<u8>,
    tasks: TaskTracker,
    chat: PreviewChat,
    stream: StreamId,
}

impl PreviewRun {
    /// Begins a draft, a second ago.
    async fn begin(chat: PreviewChat) -> Self {
        let (paper, stream) = (Arc::new(Paper::default()), StreamId::new("s"));
        let (board, tasks) = recording_board(&paper).await;
        let slot = board.append(&stream, "ab").unwrap();
        tasks.spawn(slot.run(chat.clone(), Duration::from_secs(1)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        Self {
            paper,
            board,
            tasks,
            chat,
            stream,
        }
    }

    /// Waits until the task of the draft has ended.
    async fn end(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn preview_grows_and_is_not_claimed() {
    let run = PreviewRun::begin(PreviewChat::default()).await;
    assert!(run.board.append(&run.stream, "cde").is_none());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(run.paper.drafts(), Value::Null, "a preview is not recorded");
    run.board.close(&run.stream, false).await;
    assert_eq!(run.board.claim(&run.stream, "reply").await, None);
    run.end().await;
    assert_eq!(run.chat.calls(), ["preview ab", "preview abcd"]);
}

#[tokio::test(start_paused = true)]
async fn unchanged_preview_is_refreshed_while_text_may_follow() {
    let run = PreviewRun::begin(PreviewChat::default()).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(run.chat.calls(), ["preview ab"; 4]);
    run.board.append(&run.stream, "c");
    run.end().await;
    let calls = run.chat.calls();
    let refreshed = calls.iter().filter(|call| *call == "preview abc").count();
    // Text is waited for a limited time, and nothing is sent when it is over.
    let pauses = IDLE_TIMEOUT.as_secs() / 21;
    assert_eq!(refreshed as u64, 1 + pauses);
    assert_eq!(calls.len(), 4 + refreshed);
    assert_eq!(run.board.claim(&run.stream, "reply").await, None);
}

#[tokio::test(start_paused = true)]
async fn refused_preview_becomes_a_message() {
    let refusal = ChannelError::Refused("no previews".to_owned());
    let run = PreviewRun::begin(PreviewChat::failing([refusal])).await;
    assert_eq!(run.paper.drafts(), json!([7]));
    run.board.append(&run.stream, "c");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(run.board.claim(&run.stream, "reply").await, Some(7));
    assert_eq!(
        run.chat.calls(),
        ["preview ab", "begin ab", "edit 7 abc"],
        "a message needs no refresh"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_preview_is_shown_again_after_the_pause() {
    let table = [
        (Duration::from_secs(30), {
            let retry_after = Duration::from_secs(30);
            ChannelError::RateLimited { retry_after }
        }),
        (
            Duration::from_secs(1),
            ChannelError::Unavailable("down".to_owned()),
        ),
    ];
    for (pause, error) in table {
        let run = PreviewRun::begin(PreviewChat::failing([error])).await;
        let begun = Instant::now() - Duration::from_secs(1);
        run.board.append(&run.stream, "c");
        tokio::time::sleep_until(begun + pause - Duration::from_millis(1)).await;
        assert_eq!(run.chat.calls(), ["preview ab"], "{pause:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(run.chat.calls(), ["preview ab", "preview abc"]);
        assert_eq!(run.board.claim(&run.stream, "reply").await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn pause_of_previews_delays_neither_reply_nor_thought() {
    let limited = || ChannelError::RateLimited {
        retry_after: Duration::from_hours(1),
    };
    let begun = Instant::now();
    let run = PreviewRun::begin(PreviewChat::failing([limited()])).await;
    assert_eq!(run.board.claim(&run.stream, "reply").await, None);
    assert_eq!(run.chat.calls(), ["preview ab"]);
    let run = PreviewRun::begin(PreviewChat::failing([limited()])).await;
    run.board.close(&run.stream, true).await;
    assert_eq!(run.chat.calls(), ["preview ab", "begin ab"]);
    assert!(begun.elapsed() < Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn preview_before_tool_calls_is_sent_as_a_message() {
    let run = PreviewRun::begin(PreviewChat::default()).await;
    run.board.append(&run.stream, "c");
    run.board.close(&run.stream, true).await;
    let calls = ["preview ab", "begin abc"];
    assert_eq!(run.chat.calls(), calls, "sent before the call returns");
    run.end().await;
    assert_eq!(run.paper.drafts(), Value::Null, "it is no draft");
    assert_eq!(run.chat.calls(), calls);
    // Nor is text that was never shown.
    let (board, stream, chat) = (
        DraftBoard::new(Measure::CodePoints, 4),
        StreamId::new("s"),
        PreviewChat::default(),
    );
    let slot = board.append(&stream, "ab").unwrap();
    let show = slot.run(chat.clone(), Duration::from_secs(1));
    tokio::join!(board.close(&stream, true), show);
    assert_eq!(chat.calls(), ["begin ab"]);
}

#[tokio::test(start_paused = true)]
async fn withdrawn_preview_makes_no_call() {
    for is_closed in [false, true] {
        let run = PreviewRun::begin(PreviewChat::default()).await;
        if is_closed {
            run.board.close(&run.stream, false).await;
        }
        run.board.withdraw(&run.stream);
        run.end().await;
        assert_eq!(run.chat.calls(), ["preview ab"]);
        assert_eq!(run.board.claim(&run.stream, "reply").await, None);
    }
}
