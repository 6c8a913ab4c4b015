//! Signs of life of a turn, and the notices sent when the last one is long ago.

use std::time::Duration;

use nanobot_channel::{OutboundKind, OutboundMessage, StreamId};
use tokio::time::Instant;

use crate::aftermath::is_chinese;

/// Maximum number of times that the interval between notices doubles.
const DOUBLINGS: u32 = 5;

/// Activity of one turn as the waiting user sees it.
#[derive(Debug)]
pub(super) struct Life {
    began: Instant,
    /// Time of the last sign of life, shown or not.
    heard: Instant,
    /// Time something was last shown.
    seen: Instant,
    /// Number of notices sent.
    said: u32,
    /// Current activity, in the words of the last tool hint.
    doing: Option<String>,
    /// Stream of the text that is being written.
    draft: Option<StreamId>,
    chinese: bool,
}

impl Life {
    /// Starts the record of a turn; `words` decide its language.
    pub(super) fn begin(words: &str) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            heard: now,
            seen: now,
            said: 0,
            doing: None,
            draft: None,
            chinese: is_chinese(words),
        }
    }

    /// Starts over for the next turn of the same chat.
    pub(super) fn begin_again(&mut self) {
        let now = Instant::now();
        *self = Self {
            began: now,
            heard: now,
            seen: now,
            said: 0,
            doing: None,
            draft: None,
            chinese: self.chinese,
        };
    }

    /// Returns the time of the last sign of life.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Records a message of the turn; `seen` is `true` if the message is shown.
    pub(super) fn saw(&mut self, message: &OutboundMessage, seen: bool) {
        self.heard = Instant::now();
        if seen {
            self.seen = self.heard;
        }
        match &message.kind {
            OutboundKind::ToolHint => self.doing = Some(message.content.clone()),
            OutboundKind::Delta { stream } => {
                self.doing = None;
                self.draft = seen.then(|| stream.clone());
            }
            OutboundKind::StreamEnd { .. } | OutboundKind::Withdrawn { .. } => self.draft = None,
            OutboundKind::Final
            | OutboundKind::Progress
            | OutboundKind::TurnEnd { .. }
            | OutboundKind::Notice => {}
        }
    }

    /// Returns when the next notice is due if nothing is shown until then: `after` the turn was
    /// last seen, doubled after every notice.
    pub(super) fn due(&self, after: Duration) -> Instant {
        self.seen + after * (1 << self.said.min(DOUBLINGS))
    }

    /// Returns a notice that the turn is alive, as a delta of the draft if text is being written.
    pub(super) fn say(&mut self) -> (OutboundKind, String) {
        self.said = self.said.saturating_add(1);
        self.seen = Instant::now();
        let text = self.words();
        match &self.draft {
            Some(stream) => (
                OutboundKind::Delta {
                    stream: stream.clone(),
                },
                format!("\n\n{text}\n\n"),
            ),
            None => (OutboundKind::Progress, text),
        }
    }

    fn words(&self) -> String {
        let seconds = self.began.elapsed().as_secs();
        let minutes = seconds / 60;
        let doing = self
            .doing
            .as_deref()
            .map(|doing| format!("`{}`", doing.replace('`', "'")));
        match (self.chinese, doing) {
            (false, Some(doing)) => {
                format!("Still at work, for {}: {doing}", english(seconds, minutes))
            }
            (false, None) => format!("Still at work, for {}.", english(seconds, minutes)),
            (true, Some(doing)) => format!("还在处理，已用 {}：{doing}", chinese(seconds, minutes)),
            (true, None) => format!("还在处理，已用 {}。", chinese(seconds, minutes)),
        }
    }
}

fn english(seconds: u64, minutes: u64) -> String {
    if minutes == 0 {
        format!("{seconds} s")
    } else {
        format!("{minutes} min")
    }
}

fn chinese(seconds: u64, minutes: u64) -> String {
    if minutes == 0 {
        format!("{seconds} 秒")
    } else {
        format!("{minutes} 分钟")
    }
}
