//! A mailbox on an IMAP server: the commands that the channel needs, each with a time limit.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_imap::Session;
use async_imap::error::Error as ImapError;
use async_imap::types::{Fetch, Flag, UnsolicitedResponse};
use chrono::NaiveDate;
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use crate::error::{MailError, imap, shortened, within};
use crate::imap_stream::{LimitedStream, SMALL_TALK};
use crate::login::log_in;
use crate::servers::Servers;
use crate::{EmailConfig, utf7};

/// The keyword of a mail that was handled, where it is to stay unread.
const KEYWORD: &str = "NanobotHandled";
/// The longest header that is read, in bytes.
const HEADER_LIMIT: u32 = 262_144;
/// Multiple of the time limit of a command that a mail may take while bytes arrive.
const FETCH_TIMEOUT_FACTOR: u32 = 20;
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

/// A flag that a mail gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailFlag {
    /// It was handled.
    Handled,
    /// A person should look at it.
    Flagged,
    /// It is to be removed.
    Deleted,
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

    /// Fetches the header of a mail, and its size. `None` if the mail is gone. `on_progress` is
    /// called while bytes arrive.
    pub(crate) async fn fetch_header(
        &mut self,
        mail: MailUid,
        on_progress: impl Fn(),
    ) -> Result<Option<(Vec<u8>, u32)>, MailError> {
        let what = format!("(UID RFC822.SIZE BODY.PEEK[HEADER]<0.{HEADER_LIMIT}>)");
        let read = |fetch: &Fetch| Some((fetch.header()?.to_vec(), fetch.size.unwrap_or(u32::MAX)));
        self.fetch(mail, &what, HEADER_LIMIT, read, on_progress)
            .await
    }

    /// Fetches the first `limit` bytes of a mail. `None` if the mail is gone. `on_progress` is
    /// called while bytes arrive.
    pub(crate) async fn fetch_beginning(
        &mut self,
        mail: MailUid,
        limit: u32,
        on_progress: impl Fn(),
    ) -> Result<Option<Vec<u8>>, MailError> {
        let what = format!("(UID BODY.PEEK[]<0.{limit}>)");
        self.fetch(
            mail,
            &what,
            limit,
            |fetch| Some(fetch.body()?.to_vec()),
            on_progress,
        )
        .await
    }

    async fn fetch<T>(
        &mut self,
        mail: MailUid,
        what: &str,
        limit: u32,
        read: impl Fn(&Fetch) -> Option<T>,
        on_progress: impl Fn(),
    ) -> Result<Option<T>, MailError> {
        let wire = self.session.as_mut();
        wire.grant(u64::from(limit) + SMALL_TALK);
        let received = wire.received();
        let fetching = async {
            let mut found = None;
            let mut answers = self.session.uid_fetch(mail.uid.to_string(), what).await?;
            while let Some(fetch) = answers.try_next().await? {
                // Answers may be about other mails.
                if fetch.uid == Some(mail.uid) {
                    found = read(&fetch).or(found);
                }
            }
            Ok(found)
        };
        let mut fetching = pin!(fetching);
        let (doing, step) = ("fetching a mail", self.config.request_timeout());
        let mut before = received.load(Ordering::Relaxed);
        for _ in 0..FETCH_TIMEOUT_FACTOR {
            if let Ok(fetched) = timeout(step, fetching.as_mut()).await {
                return fetched.map_err(imap(doing));
            }
            let now = received.load(Ordering::Relaxed);
            if now == before {
                return Err(MailError::Slow {
                    doing,
                    seconds: step.as_secs(),
                });
            }
            before = now;
            on_progress();
        }
        Err(MailError::Slow {
            doing,
            seconds: step.saturating_mul(FETCH_TIMEOUT_FACTOR).as_secs(),
        })
    }

    /// Sets a flag, which may be set already.
    pub(crate) async fn flag(&mut self, mail: MailUid, flag: MailFlag) -> Result<(), MailError> {
        let flag = match flag {
            MailFlag::Handled if self.config.mark_seen => r"\Seen",
            MailFlag::Handled if self.keeps_keywords => KEYWORD,
            MailFlag::Handled => return Ok(()),
            MailFlag::Flagged => r"\Flagged",
            MailFlag::Deleted => r"\Deleted",
        };
        self.session.as_mut().grant(SMALL_TALK);
        let storing = async {
            let answers = self
                .session
                .uid_store(mail.uid.to_string(), format!("+FLAGS.SILENT ({flag})"))
                .await?;
            answers.try_for_each(|_| async { Ok(()) }).await
        };
        within(self.config.request_timeout(), "marking a mail", storing)
            .await?
            .map_err(imap("marking a mail"))
    }

    /// Moves a mail to another mailbox: copies and removes it where the server has no MOVE.
    pub(crate) async fn relocate(&mut self, mail: MailUid, target: &str) -> Result<(), MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let (limit, uid, target) = (
            self.config.request_timeout(),
            mail.uid.to_string(),
            utf7::encoded(target),
        );
        if self.has_move {
            return within(limit, "moving a mail", self.session.uid_mv(uid, target))
                .await?
                .map_err(imap("moving a mail"));
        }
        within(limit, "copying a mail", self.session.uid_copy(uid, target))
            .await?
            .map_err(imap("copying a mail"))?;
        self.flag(mail, MailFlag::Deleted).await?;
        self.expunge(mail).await
    }

    /// Removes a mail with the flag [`MailFlag::Deleted`]. A server without UIDPLUS removes all
    /// such mails, which needs `postActionExpunge`.
    pub(crate) async fn expunge(&mut self, mail: MailUid) -> Result<(), MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let expunging = async {
            if self.has_uidplus {
                let answers = self.session.uid_expunge(mail.uid.to_string()).await?;
                answers.try_for_each(|_| async { Ok(()) }).await
            } else if self.config.post_action_expunge {
                let answers = self.session.expunge().await?;
                answers.try_for_each(|_| async { Ok(()) }).await
            } else {
                Ok(())
            }
        };
        within(self.config.request_timeout(), "removing a mail", expunging)
            .await?
            .map_err(imap("removing a mail"))
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
    use std::sync::atomic::AtomicUsize;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::*;

    /// A mailbox whose server is the other end of a pipe.
    async fn mailbox() -> (ImapMailbox, BufReader<DuplexStream>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let mut far = BufReader::new(far);
        let client = async_imap::Client::new(LimitedStream::new(near));
        let (session, ()) = tokio::join!(client.login("a", "b"), async {
            let tag = tag(&mut far).await;
            far.write_all(format!("{tag} OK in\r\n").as_bytes())
                .await
                .unwrap();
        });
        let session = session.map_err(|(error, _)| error).unwrap();
        let config = Arc::default();
        let (validity, has_idle, has_move, has_uidplus, keeps_keywords) =
            (1, true, true, true, true);
        (
            ImapMailbox {
                session,
                config,
                validity,
                has_idle,
                has_move,
                has_uidplus,
                keeps_keywords,
            },
            far,
        )
    }

    /// The tag of the next command.
    async fn tag(far: &mut BufReader<DuplexStream>) -> String {
        let mut command = String::new();
        far.read_line(&mut command).await.unwrap();
        command.split(' ').next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn fetch_timeout_extends_while_bytes_arrive() {
        for (pauses, comes_whole) in [
            (vec![20; 25], true),
            (vec![20, 61, 20], false),
            (vec![29; 60], false),
        ] {
            let (mut mailbox, mut far) = mailbox().await;
            let steps = AtomicUsize::new(0);
            let mail = MailUid {
                validity: 1,
                uid: 7,
            };
            let fetching = mailbox.fetch_beginning(mail, 1000, || {
                steps.fetch_add(1, Ordering::Relaxed);
            });
            let server = async {
                let tag = tag(&mut far).await;
                let head = format!("* 1 FETCH (UID 7 BODY[]<0> {{{}}}\r\n", pauses.len());
                far.write_all(head.as_bytes()).await.unwrap();
                for pause in &pauses {
                    tokio::time::sleep(Duration::from_secs(*pause)).await;
                    far.write_all(b"x").await.unwrap();
                }
                far.write_all(format!(")\r\n{tag} OK done\r\n").as_bytes())
                    .await
                    .unwrap();
                std::future::pending::<()>().await;
            };
            let fetched = tokio::select! {
                fetched = fetching => fetched,
                () = server => unreachable!("it waits for the client"),
            };
            match fetched {
                Ok(mail) => assert_eq!((mail, comes_whole), (Some(vec![b'x'; pauses.len()]), true)),
                Err(error) => assert!(
                    !comes_whole && matches!(error, MailError::Slow { .. }),
                    "{error}"
                ),
            }
            assert!(
                steps.load(Ordering::Relaxed) > 0,
                "the mail was a sign of life on its way"
            );
        }
    }

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
