//! Settings: what the platform allows the bot.

use std::time::Duration;

use crate::fake::QqFake;
use crate::state::Rules;

impl QqFake {
    /// Sets the interval of heartbeats for new connections (41.25 seconds by default).
    pub fn beat_every(&self, interval: Duration) {
        self.rule(|rules| rules.heartbeat = interval);
    }

    /// Withholds the acknowledgements of heartbeats, or ends it: a connection that looks open, and
    /// is of no use.
    pub fn withhold_acks(&self, is_withheld: bool) {
        self.rule(|rules| rules.withholds_acks = is_withheld);
    }

    /// Sets the limit of a message's text in characters (5,000 by default).
    pub fn limit_text(&self, characters: usize) {
        self.rule(|rules| rules.text_limit = characters);
    }

    /// Sets the limit of an upload in bytes (20 MiB by default). Larger ones get the page of a
    /// proxy with status 413.
    pub fn limit_uploads(&self, bytes: usize) {
        self.rule(|rules| rules.upload_limit = bytes);
    }

    /// Sets the number of replies to one message in a private chat and in a group (4 and 5 by
    /// default).
    pub fn limit_replies(&self, private: usize, group: usize) {
        self.rule(|rules| rules.replies = (private, group));
    }

    /// Sets the number of messages in a month that are no replies, for each chat (4 by default).
    pub fn limit_active_messages(&self, count: usize) {
        self.rule(|rules| rules.active_quota = count);
    }

    /// Refuses texts with a URL, or ends it: with 40054010, in guilds with 304003.
    pub fn refuse_urls(&self, is_refused: bool) {
        self.rule(|rules| rules.refuses_urls = is_refused);
    }

    /// Refuses Markdown with 304036, or ends it.
    pub fn refuse_markdown(&self, is_refused: bool) {
        self.rule(|rules| rules.refuses_markdown = is_refused);
    }

    /// Refuses uploads of files (`file_type` 4) to groups with 40034004, or ends it.
    pub fn refuse_group_files(&self, is_refused: bool) {
        self.rule(|rules| rules.refuses_group_files = is_refused);
    }

    /// Delivers messages of groups that do not mention the bot (`GROUP_MESSAGE_CREATE`), as for
    /// bots that may read everything, or ends it.
    pub fn deliver_group_messages(&self, is_delivered: bool) {
        self.rule(|rules| rules.delivers_group_messages = is_delivered);
    }

    /// Sets the intents that the bot may not use: their use closes the connection with 4014. By
    /// default those of private bots, `1 << 9` and `1 << 28`.
    pub fn disallow_intents(&self, intents: u64) {
        self.rule(|rules| rules.disallowed_intents = intents);
    }

    /// Closes every connection that identifies or resumes with this code, for example 4914 for a
    /// bot that is off line or 4915 for one that is banned; `None` ends it.
    pub fn refuse_sessions(&self, code: Option<u16>) {
        self.rule(|rules| rules.refuse_sessions = code);
    }

    fn rule(&self, apply: impl FnOnce(&mut Rules)) {
        self.state.change(|state| apply(&mut state.rules));
    }
}
