//! A mailbox on an IMAP server: the commands that the channel needs, each with a time limit.
//!
//! Decision: mails are fetched and changed in sets, because each command costs a round trip.

mod command;
mod fetch;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_imap::Session;
use async_imap::error::Error as ImapError;
use async_imap::types::{Flag, UnsolicitedResponse};
use chrono::NaiveDate;
use tokio::time::timeout;

use crate::error::{MailError, imap, shortened, within};
use crate::imap_stream::{LimitedStream, SMALL_TALK};
use crate::login::log_in;
use crate::servers::Servers;
use crate::{EmailConfig, utf7};

pub(crate) use command::{MailCommand, MailFlag};
pub(crate) use fetch::FetchedHeader;

/// The keyword of a mail that was handled, where it is to stay unread.
const KEYWORD: &str = "NanobotHandled";
/// Longest pause between commands to a server without IDLE, so that a dead connection is noticed.
const POLL_INTERVAL_LIMIT: Duration = Duration::from_secs(60);

/// The id of a mail within its mailbox (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MailUid {
    /// The mailbox's UIDVALIDITY.
    pub(crate) validity: u32,
    pub(crate) uid: u32,
}

impl MailUid {
    /// Parses the form of [`fmt::Display`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (validity, uid) = text.split_once(' ')?;
        Some(Self {
            validity: validity.parse().ok()?,
            uid: uid.parse().ok()?,
        })
    }
}

impl fmt::Display for MailUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.validity, self.uid)
    }
}

/// Returns the UIDs of mails in the form of a command (RFC 3501, `sequence-set`).
fn uid_set(mails: &[MailUid]) -> String {
    let uids: Vec<_> = mails.iter().map(|mail| mail.uid.to_string()).collect();
    uids.join(",")
}

/// A selected mailbox.
#[derive(Debug)]
pub(crate) struct ImapMailbox {
    session: Session<LimitedStream>,
    config: Arc<EmailConfig>,
    validity: u32,
    has_idle: bool,
    has_move: bool,
    has_uidplus: bool,
    /// `true` if mails can get a keyword, and stay unread.
    keeps_keywords: bool,
}

impl ImapMailbox {
    /// Connects, logs in and selects the mailbox; only looks at it when `read_only`.
    pub(crate) async fn open(servers: &Servers, read_only: bool) -> Result<Self, MailError> {
        let config = &servers.config;
        let limit = config.request_timeout();
        let mut session = log_in(servers).await?;
        let capabilities = within(
            limit,
            "asking for the server's abilities",
            session.capabilities(),
        )
        .await?;
        let capabilities = capabilities.map_err(imap("asking for the server's abilities"))?;
        if capabilities.has_str("ID") {
            // Some providers open no mailbox for programs that do not say what they are.
            let introduced = within(
                limit,
                "saying who we are",
                session.id([("name", Some("nanobot"))]),
            )
            .await?;
            introduced
                .map(drop)
                .or_else(|error| match imap("saying who we are")(error) {
                    refusal if refusal.is_refusal() => Ok(()),
                    error => Err(error),
                })?;
        }
        let name = &config.imap_mailbox;
        let folder = utf7::encoded(name);
        let selecting = async {
            if read_only {
                session.examine(&folder).await
            } else {
                session.select(&folder).await
            }
        };
        let selected = within(limit, "opening the mailbox", selecting)
            .await?
            .map_err(|error| match error {
                ImapError::No(text) => MailError::NoMailbox {
                    mailbox: name.clone(),
                    text: shortened(&text),
                },
                source => MailError::Imap {
                    doing: "opening the mailbox",
                    source,
                },
            })?;
        Ok(Self {
            session,
            config: Arc::clone(config),
            validity: selected.uid_validity.unwrap_or_default(),
            has_idle: capabilities.has_str("IDLE"),
            has_move: capabilities.has_str("MOVE"),
            has_uidplus: capabilities.has_str("UIDPLUS"),
            keeps_keywords: selected.permanent_flags.contains(&Flag::MayCreate),
        })
    }

    /// Returns the unhandled mails that arrived on that day or later, oldest first.
    pub(crate) async fn search_unhandled(
        &mut self,
        since: NaiveDate,
    ) -> Result<BTreeSet<MailUid>, MailError> {
        // Later announcements may be missing in the answer.
        while self.session.unsolicited_responses.try_recv().is_ok() {}
        self.session.as_mut().grant(SMALL_TALK);
        let unmarked = if self.uses_keyword() {
            format!(" UNKEYWORD {KEYWORD}")
        } else {
            String::new()
        };
        let query = format!("UNSEEN UNDELETED SINCE {}{unmarked}", imap_date(since));
        let search = self.session.uid_search(&query);
        let uids = within(self.config.request_timeout(), "searching for mail", search).await?;
        let uids = uids.map_err(imap("searching for mail"))?;
        Ok(uids
            .into_iter()
            .map(|uid| MailUid {
                validity: self.validity,
                uid,
            })
            .collect())
    }

    /// `true` if the mailbox records which mails were handled.
    pub(crate) fn records_handled(&self) -> bool {
        self.config.mark_seen || self.keeps_keywords
    }

    /// `true` if the server moves mails; they are copied and removed otherwise.
    pub(crate) fn has_move(&self) -> bool {
        self.has_move
    }

    /// `true` if mail was announced since the last search.
    pub(crate) fn has_new_mail(&mut self) -> bool {
        let mut news = false;
        while let Ok(response) = self.session.unsolicited_responses.try_recv() {
            news |= matches!(
                response,
                UnsolicitedResponse::Exists(_) | UnsolicitedResponse::Recent(_)
            );
        }
        news
    }

    /// Waits for news, for a limited time. The server answered when it returns; `answered` is
    /// called for answers in between.
    pub(crate) async fn wait(mut self, answered: impl Fn() + Send) -> Result<Self, MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let limit = self.config.request_timeout();
        if !self.has_idle {
            let mut left = self.config.poll_interval();
            while !left.is_zero() {
                let pause = left.min(POLL_INTERVAL_LIMIT);
                tokio::time::sleep(pause).await;
                left -= pause;
                within(limit, "asking for news", self.session.noop())
                    .await?
                    .map_err(imap("asking for news"))?;
                answered();
            }
            return Ok(self);
        }
        let (doing, duration) = ("waiting for mail", self.config.idle());
        let mut idle = self.session.idle();
        within(limit, doing, idle.init())
            .await?
            .map_err(imap(doing))?;
        {
            let (news, _interrupt) = idle.wait_with_timeout(duration);
            // A server that says again and again that it is there would prolong the wait.
            if let Ok(outcome) = timeout(duration, news).await {
                outcome.map_err(imap(doing))?;
            }
        }
        let session = within(limit, doing, idle.done())
            .await?
            .map_err(imap(doing))?;
        Ok(Self { session, ..self })
    }

    /// Logs out.
    pub(crate) async fn close(mut self) -> Result<(), MailError> {
        let doing = "logging out";
        within(self.config.request_timeout(), doing, self.session.logout())
            .await?
            .map_err(imap(doing))
    }

    fn uses_keyword(&self) -> bool {
        !self.config.mark_seen && self.keeps_keywords
    }
}

/// A day in the form of IMAP (RFC 3501, `date`).
fn imap_date(day: NaiveDate) -> String {
    // IMAP has no years before the first, and mail is younger.
    day.max(NaiveDate::default())
        .format("%-d-%b-%Y")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted_for_imap() {
        let day = |year, month, day| NaiveDate::from_ymd_opt(year, month, day).unwrap();
        let table = [
            (day(2026, 11, 2), "2-Nov-2026"),
            (day(2024, 2, 29), "29-Feb-2024"),
            (NaiveDate::MIN, "1-Jan-1970"),
        ];
        for (day, text) in table {
            assert_eq!(imap_date(day), text);
        }
    }
}
