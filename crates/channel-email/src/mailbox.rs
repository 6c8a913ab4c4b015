//! A mailbox on an IMAP server: the few commands that are needed, each with a time limit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_imap::Session;
use async_imap::error::Error as ImapError;
use async_imap::types::{Flag, UnsolicitedResponse};
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use crate::connect::connect;
use crate::error::{MailError, shortened};
use crate::tls::Trust;
use crate::wire::{SMALL_TALK, Wire};
use crate::{EmailConfig, folder};

/// What marks a mail that was dealt with where it is to stay unread.
const KEYWORD: &str = "NanobotHandled";
/// The longest header that is read, in bytes.
const HEADER_LIMIT: u32 = 262_144;
/// A mail takes longer than a command.
const FETCH_TIMES: u32 = 4;
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
    pub(crate) async fn open(config: &Arc<EmailConfig>, trust: &Trust, read_only: bool) -> Result<Self, MailError> {
        let limit = config.request_timeout();
        let client = within(limit, "connecting", connect(config, trust)).await??;
        let login = client.login(&config.imap_username, config.imap_password.expose_exact());
        let mut session = within(limit, "logging in", login).await?.map_err(|(error, _)| refused(config, error))?;
        let capabilities = within(limit, "asking for the server's abilities", session.capabilities()).await?;
        let capabilities = capabilities.map_err(imap("asking for the server's abilities"))?;
        if capabilities.has_str("ID") {
            // Some providers open no mailbox for programs that do not say what they are.
            let introduced = within(limit, "saying who we are", session.id([("name", Some("nanobot"))])).await?;
            introduced.map(drop).or_else(|error| match imap("saying who we are")(error) {
                refusal if refusal.is_refusal() => Ok(()),
                error => Err(error),
            })?;
        }
        let name = &config.imap_mailbox;
        let folder = folder::encoded(name);
        let selecting =
            async { if read_only { session.examine(&folder).await } else { session.select(&folder).await } };
        let selected = within(limit, "opening the mailbox", selecting).await?.map_err(|error| match error {
            ImapError::No(text) => MailError::NoMailbox { mailbox: name.clone(), text: shortened(&text) },
            source => MailError::Imap { doing: "opening the mailbox", source },
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

    /// The mails that wait, oldest first.
    pub(crate) async fn waiting(&mut self) -> Result<BTreeSet<MailUid>, MailError> {
        // What is announced from here on may be missing in the answer.
        while self.session.unsolicited_responses.try_recv().is_ok() {}
        self.session.as_mut().grant(SMALL_TALK);
        let unmarked = if self.uses_keyword() { format!(" UNKEYWORD {KEYWORD}") } else { String::new() };
        let query = format!("UNSEEN UNDELETED{unmarked}");
        let search = self.session.uid_search(&query);
        let uids = within(self.config.request_timeout(), "searching for mail", search).await?;
        let uids = uids.map_err(imap("searching for mail"))?;
        Ok(uids.into_iter().map(|uid| MailUid { validity: self.validity, uid }).collect())
    }

    /// Whether mail was announced since the last look.
    pub(crate) fn has_news(&mut self) -> bool {
        let mut news = false;
        while let Ok(response) = self.session.unsolicited_responses.try_recv() {
            news |= matches!(response, UnsolicitedResponse::Exists(_) | UnsolicitedResponse::Recent(_));
        }
        news
    }

    /// The header of a mail and the size of the whole. `None` when it is gone.
    pub(crate) async fn header(&mut self, mail: MailUid) -> Result<Option<(Vec<u8>, u32)>, MailError> {
        let what = format!("(UID RFC822.SIZE BODY.PEEK[HEADER]<0.{HEADER_LIMIT}>)");
        let found = self
            .fetch(mail, &what, HEADER_LIMIT, |fetch| Some((fetch.header()?.to_vec(), fetch.size.unwrap_or(u32::MAX))));
        found.await
    }

    /// The first `limit` bytes of a mail. `None` when it is gone.
    pub(crate) async fn beginning(&mut self, mail: MailUid, limit: u32) -> Result<Option<Vec<u8>>, MailError> {
        let what = format!("(UID BODY.PEEK[]<0.{limit}>)");
        self.fetch(mail, &what, limit, |fetch| Some(fetch.body()?.to_vec())).await
    }

    async fn fetch<T>(
        &mut self,
        mail: MailUid,
        what: &str,
        limit: u32,
        read: impl Fn(&async_imap::types::Fetch) -> Option<T>,
    ) -> Result<Option<T>, MailError> {
        self.session.as_mut().grant(u64::from(limit) + SMALL_TALK);
        let limit = self.config.request_timeout().saturating_mul(FETCH_TIMES);
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
        within(limit, "fetching a mail", fetching).await?.map_err(imap("fetching a mail"))
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
            let answers = self.session.uid_store(mail.uid.to_string(), format!("+FLAGS.SILENT ({flag})")).await?;
            answers.try_for_each(|_| async { Ok(()) }).await
        };
        within(self.config.request_timeout(), "marking a mail", storing).await?.map_err(imap("marking a mail"))
    }

    /// Moves a mail elsewhere, with more steps where the server cannot move.
    pub(crate) async fn relocate(&mut self, mail: MailUid, target: &str) -> Result<(), MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let (limit, uid, target) = (self.config.request_timeout(), mail.uid.to_string(), folder::encoded(target));
        if self.has_move {
            return within(limit, "moving a mail", self.session.uid_mv(uid, target))
                .await?
                .map_err(imap("moving a mail"));
        }
        within(limit, "copying a mail", self.session.uid_copy(uid, target)).await?.map_err(imap("copying a mail"))?;
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
        within(self.config.request_timeout(), "removing a mail", expunging).await?.map_err(imap("removing a mail"))
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
                within(limit, "asking for news", self.session.noop()).await?.map_err(imap("asking for news"))?;
                answered();
            }
            return Ok(self);
        }
        let (doing, duration) = ("waiting for mail", self.config.idle());
        let mut idle = self.session.idle();
        within(limit, doing, idle.init()).await?.map_err(imap(doing))?;
        {
            let (news, _interrupt) = idle.wait_with_timeout(duration);
            // A server that says again and again that it is there would prolong the wait.
            if let Ok(outcome) = timeout(duration, news).await {
                outcome.map_err(imap(doing))?;
            }
        }
        let session = within(limit, doing, idle.done()).await?.map_err(imap(doing))?;
        Ok(Self { session, ..self })
    }

    /// Says good-bye.
    pub(crate) async fn close(mut self) -> Result<(), MailError> {
        let doing = "logging out";
        within(self.config.request_timeout(), doing, self.session.logout()).await?.map_err(imap(doing))
    }

    fn uses_keyword(&self) -> bool {
        !self.config.mark_seen && self.keeps_keywords
    }
}

/// What a failed login means. Servers also refuse it when they are busy; only some say why
/// (RFC 5530).
fn refused(config: &EmailConfig, error: ImapError) -> MailError {
    let (ImapError::No(text) | ImapError::Bad(text)) = error else {
        return MailError::Imap { doing: "logging in", source: error };
    };
    let text = shortened(&config.scrub(&text));
    let known = ["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"].iter().any(|code| text.contains(code));
    MailError::Login { user: config.imap_username.clone(), text, known }
}

async fn within<T>(limit: Duration, doing: &'static str, work: impl Future<Output = T>) -> Result<T, MailError> {
    timeout(limit, work).await.map_err(|_elapsed| MailError::Slow { doing, seconds: limit.as_secs() })
}

pub(crate) fn imap(doing: &'static str) -> impl Fn(ImapError) -> MailError {
    move |source| MailError::Imap { doing, source }
}
