//! Receives: searches the mailbox, takes mails in one by one, and waits for more.

use std::collections::BTreeSet;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::Next;
use tokio::time::Instant;

use crate::EmailChannel;
use crate::error::MailError;
use crate::imap::{ImapMailbox, MailUid};
use crate::notes::MailboxNotes;
use crate::unproven::UnprovenMails;

/// Duration after which the end of a connection counts as normal.
const STABLE: Duration = Duration::from_secs(60);
/// Number of refused logins without a reason that count as a wrong password.
const LOGIN_TRIES: u32 = 3;
/// Reason where no server's report is trusted.
const NO_REPORTER: &str = "authservId is not set, so no mail is believed and all of it stays unread: \
                           `nanobot channels login` learns it from a mail that you send to the assistant";
/// Reason at the start while refused mails are still there.
const STILL_REFUSED: &str = "mail was refused and stays unread, because its sender is not proven: the log says why, \
                             and docs/channels/email.md what the mail server has to report";
/// Maximum number of searches in a row after an announcement without a new mail.
const SEARCHES: u32 = 2;

impl EmailChannel {
    /// Receives until the assistant shuts down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        let progress = self.memory.trouble.shown_to(&context.progress);
        let context = &ChannelContext {
            progress,
            ..context.clone()
        };
        if self.config().lacks_reporter() {
            self.complain(NO_REPORTER);
        }
        loop {
            let began = Instant::now();
            let error = match self.serve(context).await {
                Ok(()) => return Ok(()),
                Err(error) => self.judge(error),
            };
            if error.is_permanent() || began.elapsed() < STABLE {
                return Err(error);
            }
            // Servers end connections now and then.
            tracing::debug!(channel = %self.name, %error, "the connection to the mailbox is opened again");
        }
    }

    /// Counts refused logins: one without a reason may mean a busy server.
    fn judge(&self, error: MailError) -> ChannelError {
        let refusals = self.memory.with(|memory| {
            memory.refused_logins = if matches!(error, MailError::Login { .. }) {
                memory.refused_logins + 1
            } else {
                0
            };
            memory.refused_logins
        });
        match error {
            MailError::Login { user, text, .. } if refusals >= LOGIN_TRIES => MailError::Login {
                user,
                text,
                known: true,
            }
            .into(),
            error => error.into(),
        }
    }

    /// Serves one connection.
    async fn serve(&self, context: &ChannelContext) -> Result<(), MailError> {
        let config = self.config();
        let notes = self.notes(context);
        if let Some(tokens) = &self.servers.tokens {
            tokens.begin(&context.notes).await?;
        }
        let since = notes.first_day(config.first_look_days).await?;
        let mut mailbox = ImapMailbox::open(&self.servers, false).await?;
        if !mailbox.keeps_flags() {
            let last = notes.last_mail().await?;
            self.memory.with(|memory| memory.last = last);
        }
        let unproven = UnprovenMails::read(config, &notes).await?;
        self.memory
            .with(|memory| (memory.refused_logins, memory.unproven) = (0, unproven));
        let mut is_first_search = true;
        tracing::info!(channel = %self.name, mailbox = config.imap_mailbox, "receiving mail");
        context.progress.alive();
        loop {
            // A search may miss what was announced meanwhile, so there is another one; but only
            // one, because some servers announce the same again and again.
            let mut searches_left = SEARCHES;
            while searches_left > 0 {
                searches_left -= 1;
                let waiting = mailbox.waiting(since).await?;
                if std::mem::take(&mut is_first_search) {
                    self.recall_unproven(&waiting, &notes).await?;
                }
                context.progress.alive();
                let fresh: Vec<_> = waiting
                    .into_iter()
                    .filter(|mail| !self.memory.is_dealt_with(*mail))
                    .collect();
                for mail in &fresh {
                    if self.take(&mut mailbox, *mail, &notes, context).await? == Next::Stop {
                        return Ok(());
                    }
                    context.progress.alive();
                }
                if let Some(last) = fresh.last() {
                    if !mailbox.keeps_flags() {
                        notes.set_last_mail(*last).await?;
                    }
                    searches_left = SEARCHES;
                } else if !mailbox.has_news() {
                    break;
                }
            }
            mailbox = mailbox.wait(|| context.progress.alive()).await?;
            context.progress.alive();
        }
    }

    /// Reports that unproven mails are still unread, and forgets those that are not.
    async fn recall_unproven(
        &self,
        unread: &BTreeSet<MailUid>,
        notes: &MailboxNotes<'_>,
    ) -> Result<(), MailError> {
        let (note, are_there) = self.memory.with(|memory| {
            let note = memory.unproven.retain(unread);
            let mut unread = unread.iter();
            (note, unread.any(|mail| memory.unproven.contains(*mail)))
        });
        if let Some(note) = note {
            UnprovenMails::write(&note, notes).await?;
        }
        // The reasons were logged when they were refused.
        if are_there && self.memory.trouble.begin(STILL_REFUSED) {
            tracing::debug!(channel = %self.name, "mails that were refused are still unread");
        }
        Ok(())
    }

    /// Reports a problem: in the log once, and in the channel's health while it lasts.
    pub(crate) fn complain(&self, why: &str) {
        if self.memory.trouble.begin(why) {
            tracing::warn!(channel = %self.name, why, "the channel does not work fully");
        }
    }

    /// Returns the notes about the channel's mailbox.
    pub(crate) fn notes<'a>(&self, context: &'a ChannelContext) -> MailboxNotes<'a> {
        MailboxNotes::new(self.config(), context.notes.as_ref())
    }
}
