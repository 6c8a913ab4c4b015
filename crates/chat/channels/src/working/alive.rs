//! What was seen of a turn, and what is said when that was long ago.

use std::time::Duration;

use nanobot_channel::{OutboundKind, OutboundMessage, StreamId};
use tokio::time::Instant;

use crate::aftermath::is_chinese;

/// How often the distance between two notices doubles.
const DOUBLINGS: u32 = 5;

/// One turn as somebody sees it who waits for it.
#[derive(Debug)]
pub(super) struct Life {
    began: Instant,
    /// The last sign of it, shown or not.
    heard: Instant,
    /// The last thing that was shown.
    seen: Instant,
    /// How many notices there were.
    said: u32,
    /// What it does, in the words of a tool hint.
    doing: Option<String>,
    /// The text that is being written.
    draft: Option<StreamId>,
    chinese: bool,
}

impl Life {
    /// A turn that begins with these words.
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

    /// The next turn of the same chat begins.
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

    /// When there was the last sign of it.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Something of it came by.
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

    /// When something has to be said, if nothing is seen until then: `after` the turn was seen
    /// last, and twice as long after every notice.
    pub(super) fn due(&self, after: Duration) -> Instant {
        self.seen + after * (1 << self.said.min(DOUBLINGS))
    }

    /// Says that it is alive: in the draft, where its text is being written.
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
