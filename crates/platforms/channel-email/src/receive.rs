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

    /// Serves one connection.
    async fn serve_connection(&self, context: &ChannelContext) -> Result<(), MailError> {
        let config = self.config();
        let notes = self.notes(context);
        if let Some(tokens) = &self.servers.tokens {
            tokens.set_notes(&context.notes).await?;
        }
        let since = notes.first_day(config.first_look_days).await?;
        let mut mailbox = ImapMailbox::open(&self.servers, false).await?;
        if !mailbox.records_handled() {
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
            let mut searches_left = MAX_SEARCHES;
            while searches_left > 0 {
                searches_left -= 1;
                let waiting = mailbox.search_unhandled(since).await?;
                if std::mem::take(&mut is_first_search) {
                    self.refresh_unproven(&waiting, &notes).await?;
                }
                context.progress.alive();
                let fresh: Vec<_> = waiting
                    .into_iter()
                    .filter(|mail| !self.memory.is_handled(*mail))
                    .collect();
                for mail in &fresh {
                    if self
                        .handle_mail(&mut mailbox, *mail, &notes, context)
                        .await?
                        == Next::Stop
                    {
                        return Ok(());
                    }
                    context.progress.alive();
                }
                if let Some(last) = fresh.last() {
                    if !mailbox.records_handled() {
                        notes.set_last_mail(*last).await?;
                    }
                    searches_left = MAX_SEARCHES;
                } else if !mailbox.has_new_mail() {
                    break;
                }
            }
            mailbox = mailbox.wait(|| context.progress.alive()).await?;
            context.progress.alive();
        }
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
