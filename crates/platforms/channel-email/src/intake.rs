//! Handles a mail: header, access, content, delivery, flags.
//!
//! Decision: a mail gets its flag only after the assistant has it. A mail that cannot be stored
//! now keeps its place before later ones; one that cannot be parsed is flagged and skipped, so that
//! it blocks no other. The kit's intake is not used: a mail is fetched in two steps, and its files
//! come with it.

use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{Admission, Arrival, ChannelContext};
use nanobot_channel_kit::intake::{Next, deliver, has_access};
use nanobot_channel_kit::{Recent, Trouble};
use nanobot_extract::ExtractError;

use crate::EmailChannel;
use crate::candidate::{MailCandidate, ParsedMail};
use crate::config::PostAction;
use crate::envelope::{Envelope, Skip};
use crate::error::MailError;
use crate::imap::{ImapMailbox, MailFlag, MailUid};
use crate::notes::MailboxNotes;
use crate::quarantine;
use crate::unproven::UnprovenMails;

/// The attempt from which on only the beginning of a mail is fetched.
const TRUNCATE_FROM_ATTEMPT: u32 = 3;
/// Number of attempts after which a mail is skipped.
const MAX_ATTEMPTS: u32 = 4;
/// Bytes of a mail that are fetched when the whole is too much.
const TRUNCATED_SIZE: u32 = 262_144;
/// Notice while mails cannot be stored.
const WAITING_NOTICE: &str = "mails cannot be stored now; they stay in the mailbox";
/// Maximum number of mails that are known as handled.
const MAX_HANDLED: usize = 100_000;

/// The outcome of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailOutcome {
    Accepted,
    Skipped,
    /// Skipped, and a person should look at it.
    Odd,
    /// Its sender is not proven. It stays as it is: with another configuration it may be.
    Unproven,
}

/// Values that are kept between connections.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    mails: Mutex<MailMemory>,
    /// Reason for `degraded`.
    pub(crate) trouble: Arc<Trouble>,
}

#[derive(Debug)]
pub(crate) struct MailMemory {
    handled: Recent<MailUid>,
    /// Mails that an earlier process may have refused, too.
    pub(crate) unproven: UnprovenMails,
    /// The last mail that was handled, and all before it, in a mailbox without flags.
    pub(crate) last: Option<MailUid>,
    pub(crate) refused_logins: u32,
    /// The mail whose attempt is noted and not over.
    attempt: Option<MailUid>,
}

impl Default for MailMemory {
    fn default() -> Self {
        Self {
            handled: Recent::new(MAX_HANDLED),
            unproven: UnprovenMails::default(),
            last: None,
            refused_logins: 0,
            attempt: None,
        }
    }
}

impl Memory {
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut MailMemory) -> R) -> R {
        act(&mut self.mails.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `true` if a mail was handled, now or by an earlier process.
    pub(crate) fn is_handled(&self, mail: MailUid) -> bool {
        self.with(|memory| {
            let is_before = |last: MailUid| last.validity == mail.validity && mail.uid <= last.uid;
            memory.handled.contains(&mail)
                || memory.unproven.contains(mail)
                || memory.last.is_some_and(is_before)
        })
    }

    fn mark_handled(&self, mail: MailUid) -> Next {
        self.with(|memory| memory.handled.insert(mail));
        Next::Confirm
    }
}

impl EmailChannel {
    /// Handles one mail.
    pub(crate) async fn handle_mail(
        &self,
        mailbox: &mut ImapMailbox,
        mail: MailUid,
        notes: &MailboxNotes<'_>,
        context: &ChannelContext,
    ) -> Result<Next, MailError> {
        let on_progress = || context.progress.alive();
        self.memory.with(|memory| memory.attempt = Some(mail));
        let attempts = quarantine::begin_attempt(notes, mail).await?;
        if attempts > MAX_ATTEMPTS {
            tracing::error!(
                channel = %self.name, uid = mail.uid,
                "a mail cannot be read, or ended the program each time it was; it is flagged and skipped"
            );
            self.report_trouble(
                "a mail could not be read in several tries: it is flagged in the mailbox",
            );
            let next = self.finish(mailbox, mail, MailOutcome::Odd).await?;
            self.end_attempt(mail, notes).await?;
            return Ok(next);
        }
        let Some((header, size)) = mailbox.fetch_header(mail, on_progress).await? else {
            return Ok(self.memory.mark_handled(mail));
        };
        let header = self.parse(mail, self.extractor.mail_header(header)).await?;
        let envelope = header
            .ok_or(Skip::Unreadable)
            .and_then(|header| Envelope::read(&header, self.config()));
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(skip) => {
                self.end_attempt(mail, notes).await?;
                if let Skip::Unproven(reason) = skip {
                    return self.refuse_unproven(mailbox, mail, reason, notes).await;
                }
                tracing::info!(channel = %self.name, uid = mail.uid, reason = %skip, "a mail is skipped");
                let outcome = if skip.is_odd() {
                    MailOutcome::Odd
                } else {
                    MailOutcome::Skipped
                };
                return self.finish(mailbox, mail, outcome).await;
            }
        };
        self.memory.trouble.set(None);
        if !self.has_access(&envelope, context).await {
            self.end_attempt(mail, notes).await?;
            return self.finish(mailbox, mail, MailOutcome::Skipped).await;
        }
        let largest = self.config().max_message_size;
        let is_cut = size > largest || attempts >= TRUNCATE_FROM_ATTEMPT;
        let limit = if is_cut {
            TRUNCATED_SIZE.min(largest)
        } else {
            largest
        };
        let Some(bytes) = mailbox.fetch_beginning(mail, limit, on_progress).await? else {
            return Ok(self.memory.mark_handled(mail));
        };
        let Some(parsed) = self.parse(mail, self.extractor.mail(bytes)).await? else {
            self.end_attempt(mail, notes).await?;
            return self.finish(mailbox, mail, MailOutcome::Odd).await;
        };
        let candidate = MailCandidate {
            uid: mail,
            envelope: &envelope,
            content: ParsedMail::from(parsed),
            is_cut,
        };
        let message = candidate.compose(&self.name, self.config(), context).await;
        // The mail was parsed, so it is not at fault for what happens next.
        self.end_attempt(mail, notes).await?;
        let outcome =
            match deliver(context, message, &Arrival::direct(), WAITING_NOTICE, None).await {
                Admission::NotAllowed => MailOutcome::Skipped,
                Admission::Accepted | Admission::Duplicate => MailOutcome::Accepted,
                Admission::TryLater | Admission::ShuttingDown => return Ok(Next::Stop),
            };
        self.finish(mailbox, mail, outcome).await
    }

    /// Ends the attempt at a mail that did not end the process.
    async fn end_attempt(&self, mail: MailUid, notes: &MailboxNotes<'_>) -> Result<(), MailError> {
        quarantine::end_attempt(notes, mail).await?;
        self.memory.with(|memory| memory.attempt = None);
        Ok(())
    }

    /// Withdraws the attempt under way when the process shuts down: the mail is not at fault.
    pub(crate) async fn withdraw_attempt(&self, context: &ChannelContext) {
        let Some(mail) = self.memory.with(|memory| memory.attempt.take()) else {
            return;
        };
        if let Err(error) = quarantine::end_attempt(&self.notes(context), mail).await {
            tracing::debug!(channel = %self.name, %error, "an attempt could not be taken back");
        }
    }

    /// Leaves a mail of an unproven sender as it is, and reports that once.
    async fn refuse_unproven(
        &self,
        mailbox: &mut ImapMailbox,
        mail: MailUid,
        reason: &str,
        notes: &MailboxNotes<'_>,
    ) -> Result<Next, MailError> {
        tracing::info!(channel = %self.name, uid = mail.uid, reason, "a mail is refused: its sender is not proven");
        let advice = "`nanobot channels login` and docs/channels/email.md say what the mail server has to report";
        self.report_trouble(&format!(
            "mail is refused and stays unread, because its sender is not proven ({reason}): {advice}"
        ));
        let note = self.memory.with(|memory| memory.unproven.insert(mail));
        UnprovenMails::write(&note, notes).await?;
        self.finish(mailbox, mail, MailOutcome::Unproven).await
    }

    /// Waits for the helper process that parses a mail. `None` if the mail cannot be parsed: a
    /// person has to look at it.
    async fn parse<T>(
        &self,
        mail: MailUid,
        parsing: impl Future<Output = Result<T, ExtractError>>,
    ) -> Result<Option<T>, MailError> {
        match parsing.await {
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) if error.blames_input() => {
                tracing::warn!(channel = %self.name, uid = mail.uid, %error, "a mail cannot be read: it is flagged");
                self.report_trouble("a mail could not be read: it is flagged in the mailbox");
                Ok(None)
            }
            Err(error) => Err(MailError::Reader(error)),
        }
    }

    /// Asks for access. A stranger gets its answer only if the sender is proven to be that
    /// stranger.
    async fn has_access(&self, envelope: &Envelope, context: &ChannelContext) -> bool {
        let sender = envelope.sender.as_str();
        let notify = async |text: String| {
            if envelope.authenticity.is_proven() && envelope.takes_answers() {
                self.send_notice(envelope, &text).await;
            }
        };
        let (sender, chat) = (sender.into(), sender.into());
        has_access(context, &sender, &chat, &Arrival::direct(), notify).await
    }

    /// Sets the flags of a mail that was handled.
    async fn finish(
        &self,
        mailbox: &mut ImapMailbox,
        mail: MailUid,
        outcome: MailOutcome,
    ) -> Result<Next, MailError> {
        match self.set_flags(mailbox, mail, outcome).await {
            Err(error) if error.is_refusal() => {
                tracing::warn!(channel = %self.name, uid = mail.uid, %error, "a mail could not be marked");
            }
            // The next connection finds it again, and it is a duplicate then.
            outcome => outcome?,
        }
        Ok(self.memory.mark_handled(mail))
    }

    async fn set_flags(
        &self,
        mailbox: &mut ImapMailbox,
        mail: MailUid,
        outcome: MailOutcome,
    ) -> Result<(), MailError> {
        let config = self.config();
        if outcome == MailOutcome::Unproven {
            return Ok(());
        }
        if outcome == MailOutcome::Odd {
            mailbox.flag(mail, MailFlag::Flagged).await?;
        }
        mailbox.flag(mail, MailFlag::Handled).await?;
        if outcome != MailOutcome::Accepted && config.post_action_ignore_skipped {
            return Ok(());
        }
        match config.post_action {
            None => Ok(()),
            Some(PostAction::Move) => {
                let target = &config.post_action_move_mailbox;
                mailbox.relocate(mail, target).await
            }
            Some(PostAction::Delete) => {
                mailbox.flag(mail, MailFlag::Deleted).await?;
                if config.post_action_expunge {
                    mailbox.expunge(mail).await?;
                }
                Ok(())
            }
        }
    }
}
