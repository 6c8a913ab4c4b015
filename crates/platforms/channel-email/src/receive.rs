//! Receives: looks what waits in the mailbox, takes it in one by one, and waits for more.
//!
//! A mail is marked only after the assistant has it. What cannot be taken in now keeps its place
//! before what came later; what cannot be read at all is flagged and passed over, so that it blocks
//! nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{Admission, Arrival, ChannelContext, ChannelError};
use nanobot_channel_kit::Trouble;
use nanobot_channel_kit::intake::{Next, hand_over, may_talk};
use nanobot_extract::ExtractError;
use tokio::time::Instant;

use crate::EmailChannel;
use crate::config::PostAction;
use crate::content::Content;
use crate::envelope::{Envelope, Skip};
use crate::error::MailError;
use crate::inbound::Arrived;
use crate::mailbox::{MailUid, Mailbox, Mark};
use crate::refused::Refused;
use crate::start::{first_day, last_mail, note_last_mail};
use crate::tries;

/// A connection that lasted so long is opened again without a word.
const STABLE: Duration = Duration::from_secs(60);
/// How often a login may be refused without a reason.
const LOGIN_TRIES: u32 = 3;
/// From this try on only the beginning of a mail is fetched.
const CAREFUL_FROM: u32 = 3;
/// After so many tries a mail is passed over.
const TRIES: u32 = 4;
/// How much of a mail is fetched when the whole is too much, in bytes.
const BEGINNING: u32 = 262_144;
/// Reason where no server's report is trusted.
const NO_REPORTER: &str = "authservId is not set, so no mail is believed and all of it stays unread: \
                           `nanobot channels login` learns it from a mail that you send to the assistant";
/// Reason at the start while refused mails are still there.
const STILL_REFUSED: &str = "mail was refused and stays unread, because its sender is not proven: the log says why, \
                             and docs/channels/email.md what the mail server has to report";
/// Notice while mails cannot be stored.
const WAITING: &str = "mails cannot be stored now; they stay in the mailbox";
/// How often to look in a row when there seems to be something and nothing is found.
const LOOKS: u32 = 2;
/// How many mails are remembered as dealt with.
const REMEMBERED: usize = 100_000;

/// What became of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    Skipped,
    /// Passed over, and a person should look.
    Odd,
    /// Its sender is not proven. It stays as it is: with another configuration it may be.
    Unproven,
}

/// What is remembered between connections.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    remembered: Mutex<Remembered>,
    /// Reasons for `degraded`.
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct Remembered {
    handled: BTreeSet<MailUid>,
    /// Those that an earlier program may have refused, too.
    refused: Refused,
    /// This one and all before it were dealt with, in a mailbox that does not say so itself.
    last: Option<MailUid>,
    refused_logins: u32,
    /// The mail whose try is noted and not over.
    under_way: Option<MailUid>,
}

impl Memory {
    fn with<R>(&self, act: impl FnOnce(&mut Remembered) -> R) -> R {
        act(&mut self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }

    fn is_handled(&self, mail: MailUid) -> bool {
        self.with(|memory| {
            let is_before = |last: MailUid| last.validity == mail.validity && mail.uid <= last.uid;
            memory.handled.contains(&mail)
                || memory.refused.knows(mail)
                || memory.last.is_some_and(is_before)
        })
    }

    fn handled(&self, mail: MailUid) {
        self.with(|memory| {
            if memory.handled.len() >= REMEMBERED {
                memory.handled.pop_first();
            }
            memory.handled.insert(mail);
        });
    }
}

impl EmailChannel {
    /// Receives until the assistant goes down.
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

    /// A mail was read: its tries are forgotten.
    async fn try_is_over(&self, mail: MailUid, context: &ChannelContext) -> Result<(), MailError> {
        tries::end(self.config(), context.notes.as_ref(), mail).await?;
        self.memory.with(|memory| memory.under_way = None);
        Ok(())
    }

    /// The program ends as it should: what is under way was not at fault.
    pub(crate) async fn take_back_try(&self, context: &ChannelContext) {
        let Some(mail) = self.memory.with(|memory| memory.under_way.take()) else {
            return;
        };
        if let Err(error) = tries::end(self.config(), context.notes.as_ref(), mail).await {
            tracing::debug!(channel = %self.name, %error, "a try could not be taken back");
        }
    }

    /// Refusals without a reason may mean a server that is busy.
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
        if let Some(tokens) = &self.servers.tokens {
            tokens.begin(&context.notes).await?;
        }
        let since = first_day(self.config(), context.notes.as_ref()).await?;
        let mut mailbox = Mailbox::open(&self.servers, false).await?;
        if !mailbox.keeps_marks() {
            let last = last_mail(self.config(), context.notes.as_ref()).await?;
            self.memory.with(|memory| memory.last = last);
        }
        let refused = Refused::read(self.config(), context.notes.as_ref()).await?;
        self.memory
            .with(|memory| (memory.refused_logins, memory.refused) = (0, refused));
        let mut is_first_look = true;
        tracing::info!(channel = %self.name, mailbox = self.config().imap_mailbox, "receiving mail");
        context.progress.alive();
        loop {
            // What was announced during a look may be missing in it, so there is another one; but only
            // one, because some servers announce the same again and again.
            let mut looks_left = LOOKS;
            while looks_left > 0 {
                looks_left -= 1;
                let waiting = mailbox.waiting(since).await?;
                if std::mem::take(&mut is_first_look) {
                    self.recall_refused(&waiting, context).await?;
                }
                context.progress.alive();
                let fresh: Vec<_> = waiting
                    .into_iter()
                    .filter(|mail| !self.memory.is_handled(*mail))
                    .collect();
                for mail in &fresh {
                    if self.take(&mut mailbox, *mail, context).await? == Next::Stop {
                        return Ok(());
                    }
                    context.progress.alive();
                }
                if let Some(last) = fresh.last() {
                    if !mailbox.keeps_marks() {
                        note_last_mail(self.config(), context.notes.as_ref(), *last).await?;
                    }
                    looks_left = LOOKS;
                } else if !mailbox.has_news() {
                    break;
                }
            }
            mailbox = mailbox.wait(|| context.progress.alive()).await?;
            context.progress.alive();
        }
    }

    async fn take(
        &self,
        mailbox: &mut Mailbox,
        mail: MailUid,
        context: &ChannelContext,
    ) -> Result<Next, MailError> {
        let notes = context.notes.as_ref();
        self.memory.with(|memory| memory.under_way = Some(mail));
        let tries = tries::begin(self.config(), notes, mail).await?;
        if tries > TRIES {
            tracing::error!(
                channel = %self.name, uid = mail.uid,
                "a mail cannot be read, or ended the program each time it was; it is flagged and passed over"
            );
            self.complain(
                "a mail could not be read in several tries: it is flagged in the mailbox",
            );
            let next = self.settle(mailbox, mail, Fate::Odd).await?;
            self.try_is_over(mail, context).await?;
            return Ok(next);
        }
        let Some((header, size)) = mailbox.header(mail, || context.progress.alive()).await? else {
            return Ok(self.gone(mail));
        };
        let header = self.read(mail, self.extractor.mail_header(header)).await?;
        let envelope = header
            .ok_or(Skip::Unreadable)
            .and_then(|header| Envelope::read(&header, self.config()));
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(skip) => {
                self.try_is_over(mail, context).await?;
                if let Skip::Unproven(reason) = skip {
                    return self.refuse(mailbox, mail, reason, context).await;
                }
                tracing::info!(channel = %self.name, uid = mail.uid, reason = %skip, "a mail is passed over");
                let fate = if skip.is_odd() {
                    Fate::Odd
                } else {
                    Fate::Skipped
                };
                return self.settle(mailbox, mail, fate).await;
            }
        };
        self.memory.trouble.set(None);
        if !self.may_talk(&envelope, context).await {
            self.try_is_over(mail, context).await?;
            return self.settle(mailbox, mail, Fate::Skipped).await;
        }
        let largest = self.config().max_message_size;
        let is_cut = size > largest || tries >= CAREFUL_FROM;
        let limit = if is_cut {
            BEGINNING.min(largest)
        } else {
            largest
        };
        let Some(bytes) = mailbox
            .beginning(mail, limit, || context.progress.alive())
            .await?
        else {
            return Ok(self.gone(mail));
        };
        let Some(content) = self
            .read(mail, self.extractor.mail(bytes))
            .await?
            .map(Content::from)
        else {
            tries::end(self.config(), notes, mail).await?;
            return self.settle(mailbox, mail, Fate::Odd).await;
        };
        let arrived = Arrived {
            uid: mail,
            envelope: &envelope,
            content,
            is_cut,
        };
        let message = arrived.compose(&self.name, self.config(), context).await;
        // It was read, so whatever happens next is not its fault.
        self.try_is_over(mail, context).await?;
        let fate = match hand_over(context, message, &Arrival::direct(), WAITING, None).await {
            Admission::NotAllowed => Fate::Skipped,
            Admission::Accepted | Admission::Duplicate => Fate::Taken,
            Admission::TryLater | Admission::ShuttingDown => return Ok(Next::Stop),
        };
        self.settle(mailbox, mail, fate).await
    }

    /// Leaves a mail as it is whose sender is not proven, and says so once.
    async fn refuse(
        &self,
        mailbox: &mut Mailbox,
        mail: MailUid,
        reason: &str,
        context: &ChannelContext,
    ) -> Result<Next, MailError> {
        tracing::info!(channel = %self.name, uid = mail.uid, reason, "a mail is refused: its sender is not proven");
        let advice = "`nanobot channels login` and docs/channels/email.md say what the mail server has to report";
        self.complain(&format!(
            "mail is refused and stays unread, because its sender is not proven ({reason}): {advice}"
        ));
        let note = self.memory.with(|memory| memory.refused.insert(mail));
        Refused::write(&note, self.config(), context.notes.as_ref()).await?;
        self.settle(mailbox, mail, Fate::Unproven).await
    }

    /// Shows that mails are still there that were refused, and forgets those that are not.
    async fn recall_refused(
        &self,
        waiting: &BTreeSet<MailUid>,
        context: &ChannelContext,
    ) -> Result<(), MailError> {
        let (note, are_there) = self.memory.with(|memory| {
            let note = memory.refused.retain(waiting);
            (note, waiting.iter().any(|mail| memory.refused.knows(*mail)))
        });
        if let Some(note) = note {
            Refused::write(&note, self.config(), context.notes.as_ref()).await?;
        }
        // The log said so when they were refused.
        if are_there && self.memory.trouble.begin(STILL_REFUSED) {
            tracing::debug!(channel = %self.name, "mails that were refused are still unread");
        }
        Ok(())
    }

    /// Says what is wrong, in the log once, and in the channel's health for as long as it is.
    fn complain(&self, why: &str) {
        if self.memory.trouble.begin(why) {
            tracing::warn!(channel = %self.name, why, "the channel does not work fully");
        }
    }

    /// Waits for what the helper process reads of a mail. `None` when the mail is at fault that nothing
    /// can be read: then a person has to look at it.
    async fn read<T>(
        &self,
        mail: MailUid,
        reading: impl Future<Output = Result<T, ExtractError>>,
    ) -> Result<Option<T>, MailError> {
        match reading.await {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.blames_input() => {
                tracing::warn!(channel = %self.name, uid = mail.uid, %error, "a mail cannot be read: it is flagged");
                self.complain("a mail could not be read: it is flagged in the mailbox");
                Ok(None)
            }
            Err(error) => Err(MailError::Reader(error)),
        }
    }

    /// Somebody else took it away.
    fn gone(&self, mail: MailUid) -> Next {
        self.memory.handled(mail);
        Next::Confirm
    }

    /// Asks who decides, and passes on what a stranger shall read, if it is surely that stranger.
    async fn may_talk(&self, envelope: &Envelope, context: &ChannelContext) -> bool {
        let sender = envelope.sender.as_str();
        let tell = async |text: String| {
            if envelope.authenticity.is_proven() && envelope.takes_answers() {
                self.tell(envelope, &text).await;
            }
        };
        may_talk(
            context,
            &sender.into(),
            &sender.into(),
            &Arrival::direct(),
            tell,
        )
        .await
    }

    /// Marks a mail as dealt with.
    async fn settle(
        &self,
        mailbox: &mut Mailbox,
        mail: MailUid,
        fate: Fate,
    ) -> Result<Next, MailError> {
        match self.mark(mailbox, mail, fate).await {
            Err(error) if error.is_refusal() => {
                tracing::warn!(channel = %self.name, uid = mail.uid, %error, "a mail could not be marked");
            }
            // It comes again with the next connection, and is known then.
            marked => marked?,
        }
        self.memory.handled(mail);
        Ok(Next::Confirm)
    }

    async fn mark(
        &self,
        mailbox: &mut Mailbox,
        mail: MailUid,
        fate: Fate,
    ) -> Result<(), MailError> {
        if fate == Fate::Unproven {
            return Ok(());
        }
        if fate == Fate::Odd {
            mailbox.mark(mail, Mark::Flagged).await?;
        }
        mailbox.mark(mail, Mark::Handled).await?;
        if fate != Fate::Taken && self.config().post_action_ignore_skipped {
            return Ok(());
        }
        match self.config().post_action {
            None => Ok(()),
            Some(PostAction::Move) => {
                mailbox
                    .relocate(mail, &self.config().post_action_move_mailbox)
                    .await
            }
            Some(PostAction::Delete) => {
                mailbox.mark(mail, Mark::Deleted).await?;
                if self.config().post_action_expunge {
                    mailbox.expunge(mail).await
                } else {
                    Ok(())
                }
            }
        }
    }
}
