//! Signs of life of a turn, and the notices sent when the last one is long ago.

use std::time::Duration;

use nanobot_channel::{OutboundKind, OutboundMessage, StreamId};
use tokio::time::Instant;

use crate::delivery_notice::is_chinese;

/// Maximum number of times that the interval between notices doubles.
const MAX_DOUBLINGS: u32 = 5;

/// Activity of one turn as the waiting user sees it.
#[derive(Debug)]
pub(super) struct TurnActivity {
    began: Instant,
    /// Time of the last sign of life, shown or not.
    last_activity: Instant,
    /// Time something was last shown.
    last_shown: Instant,
    /// Number of notices sent.
    notices: u32,
    /// Current activity, in the words of the last tool hint.
    doing: Option<String>,
    /// Stream of the text that is being written.
    draft: Option<StreamId>,
    chinese: bool,
}

impl TurnActivity {
    /// Starts the record of a turn; `notice_text` decide its language.
    pub(super) fn begin(notice_text: &str) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last_activity: now,
            last_shown: now,
            notices: 0,
            doing: None,
            draft: None,
            chinese: is_chinese(notice_text),
        }
    }

    /// Starts over for the next turn of the same chat.
    pub(super) fn restart(&mut self) {
        let now = Instant::now();
        *self = Self {
            began: now,
            last_activity: now,
            last_shown: now,
            notices: 0,
            doing: None,
            draft: None,
            chinese: self.chinese,
        };
    }

    /// Returns the time of the last sign of life.
    pub(super) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// Records a message of the turn; `is_shown` is `true` if the message is shown.
    pub(super) fn record(&mut self, message: &OutboundMessage, is_shown: bool) {
        self.last_activity = Instant::now();
        if is_shown {
            self.last_shown = self.last_activity;
        }
        match &message.kind {
            OutboundKind::ToolHint => self.doing = Some(message.content.clone()),
            OutboundKind::Delta { stream } => {
                self.doing = None;
                self.draft = is_shown.then(|| stream.clone());
            }
            OutboundKind::StreamEnd { .. } | OutboundKind::Withdrawn { .. } => self.draft = None,
            OutboundKind::Activity { .. }
            | OutboundKind::Final
            | OutboundKind::Progress
            | OutboundKind::TurnEnd { .. }
            | OutboundKind::Notice
            | OutboundKind::Question => {}
        }
    }

    /// Returns when the next notice is due if nothing is shown until then: `after` the turn was
    /// last seen, doubled after every notice.
    pub(super) fn next_due(&self, after: Duration) -> Instant {
        self.last_shown + after * (1 << self.notices.min(MAX_DOUBLINGS))
    }

    /// Returns a notice that the turn is alive, as a delta of the draft if text is being written.
    pub(super) fn next_notice(&mut self) -> (OutboundKind, String) {
        self.notices = self.notices.saturating_add(1);
        self.last_shown = Instant::now();
        let text = self.notice_text();
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

    fn notice_text(&self) -> String {
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
