//! Receives: searches the mailbox, takes mails in batches, and waits for more.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::NaiveDate;
use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::Next;
use tokio::time::Instant;

use crate::EmailChannel;
use crate::batch::batches;
use crate::error::MailError;
use crate::imap::{ImapMailbox, MailUid};
use crate::intake::BatchEnd;
use crate::notes::MailboxNotes;
use crate::quarantine;
use crate::unproven::UnprovenMails;

/// Duration after which the end of a connection counts as normal.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Number of refused logins without a reason that count as a wrong password.
const MAX_REFUSED_LOGINS: u32 = 3;
/// Reason where no server's report is trusted.
const NO_REPORTER: &str = "authservId is not set, so no mail is believed and all of it stays unread: \
                           `nanobot channels login` learns it from a mail that you send to the assistant";
/// Reason at the start while refused mails are still there.
const STILL_REFUSED: &str = "mail was refused and stays unread, because its sender is not proven: the log says why, \
                             and docs/channels/email.md what the mail server has to report";
/// Maximum number of searches in a row after an announcement without a new mail.
const MAX_SEARCHES: u32 = 2;

impl EmailChannel {
    /// Receives until the assistant shuts down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        let progress = self.memory.trouble.wrap(&context.progress);
        let context = &ChannelContext {
            progress,
            ..context.clone()
        };
        // Before the first mail: an attempt without a parser would count as an attempt at the mail.
        self.extractor.check().map_err(MailError::Reader)?;
        if self.config().lacks_reporter() {
            self.report_trouble(NO_REPORTER);
        }
        loop {
            let began = Instant::now();
            let error = match self.serve_connection(context).await {
                Ok(()) => return Ok(()),
                Err(error) => self.count_refused_login(error),
            };
            if error.is_permanent() || began.elapsed() < STABLE_AFTER {
                return Err(error);
            }
            // Servers end connections now and then.
            tracing::debug!(channel = %self.name, %error, "the connection to the mailbox is opened again");
        }
    }

    /// Counts refused logins: one without a reason may mean a busy server.
    fn count_refused_login(&self, error: MailError) -> ChannelError {
        let refusals = self.memory.with(|memory| {
            memory.refused_logins = if matches!(error, MailError::Login { .. }) {
                memory.refused_logins + 1
            } else {
                0
            };
            memory.refused_logins
        });
        match error {
            MailError::Login { user, text, .. } if refusals >= MAX_REFUSED_LOGINS => {
                MailError::Login {
                    user,
                    text,
                    known: true,
                }
                .into()
            }
            error => error.into(),
        }
    }

    /// Serves one connection, until it breaks or the assistant shuts down.
    async fn serve_connection(&self, context: &ChannelContext) -> Result<(), MailError> {
        let (cancel, notes) = (&context.cancel, self.notes(context));
        let opening = Box::pin(self.open_mailbox(&notes, context));
        let Some(opened) = cancel.run_until_cancelled(opening).await else {
            return Ok(());
        };
        let (mut mailbox, since) = opened?;
        let mut is_first_search = true;
        loop {
            // A search may miss what was announced meanwhile, so there is another one; but only
            // one, because some servers announce the same again and again.
            let mut searches_left = MAX_SEARCHES;
            while searches_left > 0 {
                searches_left -= 1;
                let searching = mailbox.search_unhandled(since);
                let Some(waiting) = cancel.run_until_cancelled(searching).await else {
                    return Ok(());
                };
                let waiting = waiting?;
                if std::mem::take(&mut is_first_search) {
                    self.refresh_unproven(&waiting, &notes).await?;
                }
                context.progress.alive();
                let fresh: Vec<_> = waiting
                    .into_iter()
                    .filter(|mail| !self.memory.is_handled(*mail))
                    .collect();
                if !fresh.is_empty() {
                    let next = self.handle_all(&mut mailbox, &fresh, &notes, context);
                    if Box::pin(next).await? == Next::Stop {
                        return Ok(());
                    }
                    searches_left = MAX_SEARCHES;
                } else if !mailbox.has_new_mail() {
                    break;
                }
            }
            let waiting = mailbox.wait(|| context.progress.alive());
            let Some(news) = cancel.run_until_cancelled(waiting).await else {
                return Ok(());
            };
            mailbox = news?;
            context.progress.alive();
        }
    }

    /// Opens the mailbox, and reads the notes about it. Returns the first day whose mails are
    /// looked at, too.
    async fn open_mailbox(
        &self,
        notes: &MailboxNotes<'_>,
        context: &ChannelContext,
    ) -> Result<(ImapMailbox, NaiveDate), MailError> {
        let config = self.config();
        if let Some(tokens) = &self.servers.tokens {
            tokens.set_notes(&context.notes).await?;
        }
        let since = notes.first_day(config.first_look_days).await?;
        let mailbox = ImapMailbox::open(&self.servers, false).await?;
        if !mailbox.records_handled() {
            let last = notes.last_mail().await?;
            self.memory.with(|memory| memory.last = last);
        }
        let unproven = UnprovenMails::read(config, notes).await?;
        self.memory
            .with(|memory| (memory.refused_logins, memory.unproven) = (0, unproven));
        tracing::info!(channel = %self.name, mailbox = config.imap_mailbox, "receiving mail");
        context.progress.alive();
        Ok((mailbox, since))
    }

    /// Handles mails in batches, oldest first.
    async fn handle_all(
        &self,
        mailbox: &mut ImapMailbox,
        mails: &[MailUid],
        notes: &MailboxNotes<'_>,
        context: &ChannelContext,
    ) -> Result<Next, MailError> {
        let mut batches = batches(mails, &quarantine::suspects(notes).await?);
        let mut unhandled = mails;
        while let Some(batch) = batches.pop_front() {
            let end = self.handle_batch(mailbox, &batch, notes, context).await?;
            let later = self.after_handled(unhandled);
            if !mailbox.records_handled()
                && let Some(last) = unhandled.strip_suffix(later).and_then(<[_]>::last)
            {
                notes.set_last_mail(*last).await?;
            }
            context.progress.alive();
            unhandled = later;
            match end {
                BatchEnd::Done => {}
                BatchEnd::Rest(mut rest) => {
                    let others = rest.split_off(rest.len().min(1));
                    if !others.is_empty() {
                        batches.push_front(others);
                    }
                    batches.push_front(rest);
                }
                BatchEnd::Stop => return Ok(Next::Stop),
            }
        }
        Ok(Next::Confirm)
    }

    /// Returns the mails from the first one on that was not handled.
    fn after_handled<'a>(&self, mails: &'a [MailUid]) -> &'a [MailUid] {
        let first = mails.iter().position(|mail| !self.memory.is_handled(*mail));
        mails
            .get(first.unwrap_or(mails.len())..)
            .unwrap_or_default()
    }

    /// Reports that unproven mails are still unread, and forgets those that are not.
    async fn refresh_unproven(
        &self,
        unread: &BTreeSet<MailUid>,
        notes: &MailboxNotes<'_>,
    ) -> Result<(), MailError> {
        let (note, remain) = self.memory.with(|memory| {
            let note = memory.unproven.retain(unread);
            let mut unread = unread.iter();
            (note, unread.any(|mail| memory.unproven.contains(*mail)))
        });
        if let Some(note) = note {
            UnprovenMails::write(&note, notes).await?;
        }
        // The reasons were logged when they were refused.
        if remain && self.memory.trouble.set_if_none(STILL_REFUSED) {
            tracing::debug!(channel = %self.name, "mails that were refused are still unread");
        }
        Ok(())
    }

    /// Reports a problem: in the log once, and in the channel's health while it lasts.
    pub(crate) fn report_trouble(&self, why: &str) {
        if self.memory.trouble.set_if_none(why) {
            tracing::warn!(channel = %self.name, why, "the channel does not work fully");
        }
    }

    /// Returns the notes about the channel's mailbox.
    pub(crate) fn notes<'a>(&self, context: &'a ChannelContext) -> MailboxNotes<'a> {
        MailboxNotes::new(self.config(), context.notes.as_ref())
    }
}
