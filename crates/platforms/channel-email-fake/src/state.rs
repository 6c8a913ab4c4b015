//! State shared by both servers.

use std::collections::BTreeSet;

use chrono::{Days, NaiveDate, Utc};
use nanobot_testkit::Calls;

use crate::tokens::TokenProvider;

/// A mail in the mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMail {
    /// Its UID.
    pub uid: u32,
    /// The raw mail as it arrived.
    pub raw: Vec<u8>,
    /// Day of arrival.
    pub arrived: NaiveDate,
    /// Flags such as `\Seen`.
    pub flags: BTreeSet<String>,
    /// Mailboxes that it was copied to.
    pub copies: Vec<String>,
}

/// A mail that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMail {
    /// The envelope sender.
    pub from: String,
    /// The envelope recipients.
    pub to: Vec<String>,
    /// Header and body.
    pub raw: String,
}

impl SentMail {
    /// Returns the value of a header, unfolded; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> String {
        let head = self
            .raw
            .split("\r\n\r\n")
            .next()
            .unwrap_or_default()
            .replace("\r\n ", " ")
            .replace("\r\n\t", " ");
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .collect()
    }
}

/// A fault of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailFault {
    /// The command is never answered.
    Stall,
    /// The connection ends instead of an answer.
    Cut,
    /// The command is carried out, then the connection ends.
    CutAfterEffect,
    /// This text is sent instead of the answer; `{tag}` is the tag of an IMAP command.
    Answer(String),
}

/// The state of both servers.
#[derive(Debug)]
pub(crate) struct MailState {
    pub(crate) password: String,
    pub(crate) provider: TokenProvider,
    pub(crate) has_idle: bool,
    pub(crate) keeps_keywords: bool,
    pub(crate) uid_validity: u32,
    next_uid: u32,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    /// Number of servers that accept connections.
    pub(crate) listening: usize,
    /// Number of times that connections were cut.
    pub(crate) cuts: u64,
    /// Number of redundant `EXISTS` responses ordered for idle clients.
    pub(crate) nudges: u64,
    pub(crate) mails: Vec<StoredMail>,
    pub(crate) sent: Vec<SentMail>,
    pub(crate) commands: Calls<String, MailFault>,
    pub(crate) violations: Vec<String>,
}

impl Default for MailState {
    fn default() -> Self {
        Self {
            password: crate::account::PASSWORD.to_owned(),
            provider: TokenProvider::default(),
            has_idle: true,
            keeps_keywords: true,
            uid_validity: 1,
            next_uid: 1,
            is_down: false,
            is_stalled: false,
            listening: 0,
            cuts: 0,
            nudges: 0,
            mails: Vec::new(),
            sent: Vec::new(),
            commands: Calls::default(),
            violations: Vec::new(),
        }
    }
}

impl MailState {
    pub(crate) fn push(&mut self, raw: Vec<u8>) -> u32 {
        self.push_earlier(0, raw)
    }

    pub(crate) fn push_earlier(&mut self, days: u64, raw: Vec<u8>) -> u32 {
        let arrived = Utc::now().date_naive() - Days::new(days);
        let uid = self.next_uid;
        self.next_uid += 1;
        self.mails.push(StoredMail {
            uid,
            raw,
            arrived,
            flags: BTreeSet::new(),
            copies: Vec::new(),
        });
        uid
    }

    pub(crate) fn renumber(&mut self) {
        self.uid_validity += 1;
        for mail in &mut self.mails {
            mail.uid += 1000;
        }
        self.next_uid += 1000;
    }

    pub(crate) fn has_flag(&self, uid: u32, flag: &str) -> bool {
        self.mails
            .iter()
            .any(|mail| mail.uid == uid && mail.flags.contains(flag))
    }

    /// Records a command and returns the fault scripted for it.
    pub(crate) fn begin(&mut self, command: &str) -> Option<MailFault> {
        self.commands.note(command.to_owned())
    }
}
