//! A mailbox on an IMAP server: the few commands that are needed, each with a time limit.

use std::collections::BTreeSet;
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

use crate::error::{MailError, shortened};
use crate::login::log_in;
use crate::servers::Servers;
use crate::start::imap_date;
use crate::wire::{SMALL_TALK, Wire};
use crate::{EmailConfig, folder};

/// What marks a mail that was dealt with where it is to stay unread.
const KEYWORD: &str = "NanobotHandled";
/// The longest header that is read, in bytes.
const HEADER_LIMIT: u32 = 262_144;
/// How much longer than a command a mail may take, as long as it comes.
const FETCH_TIMES: u32 = 20;
/// How long a server without IDLE is left alone, so that a dead connection is noticed.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The name of a mail for as long as its mailbox lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MailUid {
    /// The mailbox's UIDVALIDITY.
    pub(crate) validity: u32,
    pub(crate) uid: u32,
}

/// A flag that a mail gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It was dealt with.
    Handled,
    /// Something about it is wrong; a person should look.
    Flagged,
    /// It can go.
    Deleted,
}

/// A selected mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    session: Session<Wire>,
    config: Arc<EmailConfig>,
    validity: u32,
    has_idle: bool,
    has_move: bool,
    has_uidplus: bool,
    /// Whether unread mails can be marked as dealt with by a keyword.
    keeps_keywords: bool,
}

impl Mailbox {
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
        let folder = folder::encoded(name);
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

    /// The mails that wait and arrived on that day or later, oldest first.
    pub(crate) async fn waiting(
        &mut self,
        since: NaiveDate,
    ) -> Result<BTreeSet<MailUid>, MailError> {
        // What is announced from here on may be missing in the answer.
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

    /// Whether the mailbox itself remembers what was dealt with.
    pub(crate) fn keeps_marks(&self) -> bool {
        self.config.mark_seen || self.keeps_keywords
    }

    /// Whether mail was announced since the last look.
    pub(crate) fn has_news(&mut self) -> bool {
        let mut news = false;
        while let Ok(response) = self.session.unsolicited_responses.try_recv() {
            news |= matches!(
                response,
                UnsolicitedResponse::Exists(_) | UnsolicitedResponse::Recent(_)
            );
        }
        news
    }

    /// The header of a mail and the size of the whole. `None` when it is gone. `comes` is called now
    /// and then while it comes.
    pub(crate) async fn header(
        &mut self,
        mail: MailUid,
        comes: impl Fn(),
    ) -> Result<Option<(Vec<u8>, u32)>, MailError> {
        let what = format!("(UID RFC822.SIZE BODY.PEEK[HEADER]<0.{HEADER_LIMIT}>)");
        let read = |fetch: &Fetch| Some((fetch.header()?.to_vec(), fetch.size.unwrap_or(u32::MAX)));
        self.fetch(mail, &what, HEADER_LIMIT, read, comes).await
    }

    /// The first `limit` bytes of a mail. `None` when it is gone. `comes` is called now and then while
    /// it comes.
    pub(crate) async fn beginning(
        &mut self,
        mail: MailUid,
        limit: u32,
        comes: impl Fn(),
    ) -> Result<Option<Vec<u8>>, MailError> {
        let what = format!("(UID BODY.PEEK[]<0.{limit}>)");
        self.fetch(
            mail,
            &what,
            limit,
            |fetch| Some(fetch.body()?.to_vec()),
            comes,
        )
        .await
    }

    async fn fetch<T>(
        &mut self,
        mail: MailUid,
        what: &str,
        limit: u32,
        read: impl Fn(&Fetch) -> Option<T>,
        comes: impl Fn(),
    ) -> Result<Option<T>, MailError> {
        let wire = self.session.as_mut();
        wire.grant(u64::from(limit) + SMALL_TALK);
        let received = wire.received();
        let fetching = async {
            let mut found = None;
            let mut answers = self.session.uid_fetch(mail.uid.to_string(), what).await?;
            while let Some(fetch) = answers.try_next().await? {
                // Servers also tell of other mails meanwhile.
                if fetch.uid == Some(mail.uid) {
                    found = read(&fetch).or(found);
                }
            }
            Ok(found)
        };
        let mut fetching = pin!(fetching);
        let (doing, step) = ("fetching a mail", self.config.request_timeout());
        let mut before = received.load(Ordering::Relaxed);
        for _ in 0..FETCH_TIMES {
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
            comes();
        }
        Err(MailError::Slow {
            doing,
            seconds: step.saturating_mul(FETCH_TIMES).as_secs(),
        })
    }

    /// Marks a mail. Marking twice is harmless.
    pub(crate) async fn mark(&mut self, mail: MailUid, mark: Mark) -> Result<(), MailError> {
        let flag = match mark {
            Mark::Handled if self.config.mark_seen => r"\Seen",
            Mark::Handled if self.keeps_keywords => KEYWORD,
            Mark::Handled => return Ok(()),
            Mark::Flagged => r"\Flagged",
            Mark::Deleted => r"\Deleted",
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

    /// Moves a mail elsewhere, with more steps where the server cannot move.
    pub(crate) async fn relocate(&mut self, mail: MailUid, target: &str) -> Result<(), MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let (limit, uid, target) = (
            self.config.request_timeout(),
            mail.uid.to_string(),
            folder::encoded(target),
        );
        if self.has_move {
            return within(limit, "moving a mail", self.session.uid_mv(uid, target))
                .await?
                .map_err(imap("moving a mail"));
        }
        within(limit, "copying a mail", self.session.uid_copy(uid, target))
            .await?
            .map_err(imap("copying a mail"))?;
        self.mark(mail, Mark::Deleted).await?;
        self.expunge(mail).await
    }

    /// Removes a mail that is marked as deleted. Where the server can only remove all of them, it
    /// does that only when the configuration wants it.
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

    /// Waits for news, and returns after a while without any. The server answered when it returns;
    /// `answered` is called when it does so in between.
    pub(crate) async fn wait(mut self, answered: impl Fn() + Send) -> Result<Self, MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let limit = self.config.request_timeout();
        if !self.has_idle {
            let mut left = self.config.poll_interval();
            while !left.is_zero() {
                let pause = left.min(LONGEST_SILENCE);
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

    /// Says good-bye.
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

pub(crate) async fn within<T>(
    limit: Duration,
    doing: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, MailError> {
    timeout(limit, work)
        .await
        .map_err(|_elapsed| MailError::Slow {
            doing,
            seconds: limit.as_secs(),
        })
}

pub(crate) fn imap(doing: &'static str) -> impl Fn(ImapError) -> MailError {
    move |source| MailError::Imap { doing, source }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::*;

    /// A mailbox at a server that is played at the other end.
    async fn mailbox() -> (Mailbox, BufReader<DuplexStream>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let mut far = BufReader::new(far);
        let client = async_imap::Client::new(Wire::new(near));
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
            Mailbox {
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
    async fn a_mail_may_take_its_time_as_long_as_it_comes() {
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
            let fetching = mailbox.beginning(mail, 1000, || {
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
}
