//! Handles a batch of mails: headers, access, contents, delivery, flags.
//!
//! Decision: the headers of a batch are fetched and parsed together, and then the contents of the
//! mails of people who may talk, as many at a time as are held in memory. Messages of several
//! senders are delivered at once, so that they share a sync of the ledger, and those of one sender
//! in their order. A mail gets its flag only after the assistant has it. A mail that cannot be
//! stored now keeps its place before later ones; one that cannot be parsed is flagged and skipped,
//! so that it blocks no other. The kit's intake is not used: a mail is fetched in two steps, and
//! its files come with it.
//!
//! Until the delivery, a shutdown drops the work under way. Then what was delivered is still
//! marked, within a time limit.

use std::collections::{BTreeSet, VecDeque};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nanobot_channel::{Admission, Arrival, ChannelContext, InboundMessage};
use nanobot_channel_kit::Lanes;
use nanobot_channel_kit::intake::{Next, deliver, has_access};
use nanobot_extract::{ExtractError, MailHeader};

use crate::EmailChannel;
use crate::batch::{AllowedMail, groups, split_at_missing};
use crate::candidate::{MailCandidate, ParsedMail};
use crate::envelope::{Envelope, Skip};
use crate::error::MailError;
use crate::imap::{FetchedHeader, ImapMailbox, MailUid};
use crate::marking::{HandledMail, MailOutcome};
use crate::notes::MailboxNotes;
use crate::quarantine;
use crate::unproven::UnprovenMails;

/// The attempt from which on only the beginning of a mail is fetched.
const TRUNCATE_FROM_ATTEMPT: u32 = 3;
/// Number of attempts after which a mail is skipped.
const MAX_ATTEMPTS: u32 = 4;
/// Bytes of a mail that are fetched when the whole is too much.
const TRUNCATED_SIZE: u32 = 262_144;
/// Number of mails that are parsed at a time.
const PARSED_AT_ONCE: usize = 4;
/// Notice while mails cannot be stored.
const WAITING_NOTICE: &str = "mails cannot be stored now; they stay in the mailbox";

/// The end of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    /// All of it was handled.
    Done,
    /// The server did not return the first of these mails: it is to be handled alone, and then the
    /// others.
    Rest(Vec<MailUid>),
    /// The run ends.
    Stop,
}

/// A batch whose headers were read.
#[derive(Debug, Default)]
struct JudgedBatch {
    handled: Vec<HandledMail>,
    groups: VecDeque<Vec<AllowedMail>>,
    /// The first mail that the server did not return, and all after it.
    rest: Vec<MailUid>,
}

/// A group of mails whose contents were read.
#[derive(Debug, Default)]
struct ReadGroup {
    messages: Vec<(MailUid, InboundMessage)>,
    /// Mails that cannot be parsed.
    unreadable: Vec<MailUid>,
    /// The first mail that the server did not return, and all after it.
    rest: Vec<MailUid>,
}

impl EmailChannel {
    /// Handles a batch. A mail with earlier attempts has to be a batch of its own.
    pub(crate) async fn handle_batch(
        &self,
        mailbox: &mut ImapMailbox,
        batch: &[MailUid],
        notes: &MailboxNotes<'_>,
        context: &ChannelContext,
    ) -> Result<BatchEnd, MailError> {
        let cancel = &context.cancel;
        let under_way = batch.iter().copied().collect();
        self.memory.with(|memory| memory.attempts = under_way);
        let attempts = quarantine::begin_attempts(notes, batch).await?;
        if let ([mail], true) = (batch, attempts > MAX_ATTEMPTS) {
            self.report_exceeded(*mail);
            let handled = [(*mail, MailOutcome::Odd)];
            self.finish(mailbox, &handled, context).await?;
            self.end_attempts(BTreeSet::new(), notes).await?;
            return Ok(BatchEnd::Done);
        }
        let judging = Box::pin(self.judge(mailbox, batch, attempts, notes, context));
        let Some(judged) = cancel.run_until_cancelled(judging).await else {
            return Ok(BatchEnd::Stop);
        };
        let JudgedBatch {
            mut handled,
            mut groups,
            mut rest,
        } = judged?;
        loop {
            let group = groups.pop_front().unwrap_or_default();
            let reading = Box::pin(self.read_contents(mailbox, group, context));
            let Some(read) = cancel.run_until_cancelled(reading).await else {
                return Ok(BatchEnd::Stop);
            };
            let read = read?;
            if !read.rest.is_empty() {
                let later = groups.drain(..).flatten().map(|mail| mail.uid);
                rest = read.rest.into_iter().chain(later).chain(rest).collect();
            }
            if batch.len() == 1 {
                handled.extend(rest.drain(..).map(|mail| (mail, MailOutcome::Gone)));
            }
            let odd = read.unreadable.into_iter();
            handled.extend(odd.map(|mail| (mail, MailOutcome::Odd)));
            // The mails were parsed, so they are not at fault for what happens next.
            let unread = groups.iter().flatten().map(|mail| mail.uid).collect();
            self.end_attempts(unread, notes).await?;
            let next = self.deliver_all(read.messages, &mut handled, context).await;
            self.finish(mailbox, &handled, context).await?;
            handled.clear();
            if next == Next::Stop || cancel.is_cancelled() {
                return Ok(BatchEnd::Stop);
            }
            if groups.is_empty() {
                break;
            }
        }
        Ok(if rest.is_empty() {
            BatchEnd::Done
        } else {
            BatchEnd::Rest(rest)
        })
    }

    /// Reads the headers of a batch, and decides whose contents are read.
    async fn judge(
        &self,
        mailbox: &mut ImapMailbox,
        batch: &[MailUid],
        attempts: u32,
        notes: &MailboxNotes<'_>,
        context: &ChannelContext,
    ) -> Result<JudgedBatch, MailError> {
        let mut judged = JudgedBatch::default();
        let on_progress = || context.progress.alive();
        let headers = mailbox.fetch_headers(batch, on_progress).await?;
        let (found, rest) = split_at_missing(batch.to_vec(), headers, |mail| *mail);
        judged.rest = rest;
        let together = self.parse_together(&found).await?;
        let parsing = found.into_iter().zip(together);
        let parsing = parsing.map(async |((mail, header), parsed)| {
            let parsed = match parsed {
                Some(parsed) => Some(parsed),
                None => {
                    let parsing = self.extractor.mail_header(header.bytes);
                    self.parse(mail, parsing).await?
                }
            };
            Ok::<_, MailError>((mail, header.size, parsed))
        });
        let mut parsed = stream::iter(parsing).buffered(PARSED_AT_ONCE);
        let (mut allowed, mut unproven) = (Vec::new(), Vec::new());
        while let Some((mail, size, header)) = parsed.try_next().await? {
            match self.judge_header(mail, header, context).await {
                Ok(envelope) => allowed.push(self.allowed(mail, envelope, size, attempts)),
                Err(MailOutcome::Unproven) => unproven.push(mail),
                Err(outcome) => judged.handled.push((mail, outcome)),
            }
        }
        if !unproven.is_empty() {
            let note = self.memory.with(|memory| memory.unproven.insert(&unproven));
            UnprovenMails::write(&note, notes).await?;
            let unproven = unproven.into_iter();
            judged
                .handled
                .extend(unproven.map(|mail| (mail, MailOutcome::Unproven)));
        }
        judged.groups = groups(allowed);
        Ok(judged)
    }

    /// Parses the headers of several mails with one request. `None` for each that has to be parsed
    /// alone: it cannot be read, or one of them ended the helper process.
    async fn parse_together(
        &self,
        found: &[(MailUid, FetchedHeader)],
    ) -> Result<Vec<Option<MailHeader>>, MailError> {
        if found.len() < 2 {
            return Ok(vec![None; found.len()]);
        }
        let headers = found.iter().map(|(_, header)| header.bytes.clone());
        match self.extractor.mail_headers(headers.collect()).await {
            Ok(parsed) => Ok(parsed),
            Err(error) if error.blames_input() => Ok(vec![None; found.len()]),
            Err(error) => Err(MailError::Reader(error)),
        }
    }

    fn report_exceeded(&self, mail: MailUid) {
        tracing::error!(
            channel = %self.name, uid = mail.uid,
            "a mail cannot be read, or ended the program each time it was; it is flagged and skipped"
        );
        self.report_trouble(
            "a mail could not be read in several tries: it is flagged in the mailbox",
        );
    }

    /// Decides by its header if the content of a mail is read.
    async fn judge_header(
        &self,
        mail: MailUid,
        header: Option<MailHeader>,
        context: &ChannelContext,
    ) -> Result<Envelope, MailOutcome> {
        let envelope = header
            .ok_or(Skip::Unreadable)
            .and_then(|header| Envelope::read(&header, self.config()));
        let envelope = envelope.map_err(|skip| self.skip(mail, skip))?;
        self.memory.trouble.set(None);
        if self.has_access(&envelope, context).await {
            Ok(envelope)
        } else {
            Err(MailOutcome::Skipped)
        }
    }

    /// Reports that a mail is skipped.
    fn skip(&self, mail: MailUid, skip: Skip) -> MailOutcome {
        if let Skip::Unproven(reason) = skip {
            tracing::info!(channel = %self.name, uid = mail.uid, reason, "a mail is refused: its sender is not proven");
            let advice = "`nanobot channels login` and docs/channels/email.md say what the mail server has to report";
            self.report_trouble(&format!(
                "mail is refused and stays unread, because its sender is not proven ({reason}): {advice}"
            ));
            return MailOutcome::Unproven;
        }
        tracing::info!(channel = %self.name, uid = mail.uid, reason = %skip, "a mail is skipped");
        if skip.is_odd() {
            MailOutcome::Odd
        } else {
            MailOutcome::Skipped
        }
    }

    fn allowed(&self, uid: MailUid, envelope: Envelope, size: u32, attempts: u32) -> AllowedMail {
        let largest = self.config().max_message_size;
        let is_cut = size > largest || attempts >= TRUNCATE_FROM_ATTEMPT;
        AllowedMail {
            uid,
            envelope,
            fetched_size: if is_cut {
                TRUNCATED_SIZE.min(largest)
            } else {
                size
            },
            is_cut,
        }
    }

    /// Fetches the contents of mails together, parses them and makes messages of them.
    async fn read_contents(
        &self,
        mailbox: &mut ImapMailbox,
        group: Vec<AllowedMail>,
        context: &ChannelContext,
    ) -> Result<ReadGroup, MailError> {
        let mut read = ReadGroup::default();
        let Some(first) = group.first() else {
            return Ok(read);
        };
        let limit = if first.is_cut {
            first.fetched_size
        } else {
            self.config().max_message_size
        };
        let sizes = group.iter().map(|mail| u64::from(mail.fetched_size));
        let total = sizes.sum::<u64>().max(limit.into());
        let uids: Vec<_> = group.iter().map(|mail| mail.uid).collect();
        let on_progress = || context.progress.alive();
        let contents = mailbox
            .fetch_beginnings(&uids, limit, total, on_progress)
            .await?;
        let (found, rest) = split_at_missing(group, contents, |mail| mail.uid);
        read.rest = rest.into_iter().map(|mail| mail.uid).collect();
        let composing = found.into_iter().map(async |(mail, bytes)| {
            let uid = mail.uid;
            let message = self.compose(mail, bytes, context).await?;
            Ok::<_, MailError>((uid, message))
        });
        let mut composed = stream::iter(composing).buffered(PARSED_AT_ONCE);
        while let Some((mail, message)) = composed.try_next().await? {
            context.progress.alive();
            match message {
                Some(message) => read.messages.push((mail, message)),
                None => read.unreadable.push(mail),
            }
        }
        Ok(read)
    }

    /// Makes a message of a mail. `None` if it cannot be parsed.
    async fn compose(
        &self,
        mail: AllowedMail,
        bytes: Vec<u8>,
        context: &ChannelContext,
    ) -> Result<Option<InboundMessage>, MailError> {
        let Some(parsed) = self.parse(mail.uid, self.extractor.mail(bytes)).await? else {
            return Ok(None);
        };
        let candidate = MailCandidate {
            uid: mail.uid,
            envelope: &mail.envelope,
            content: ParsedMail::from(parsed),
            is_cut: mail.is_cut,
        };
        Ok(Some(
            candidate.compose(&self.name, self.config(), context).await,
        ))
    }

    /// Delivers messages, those of one sender in order. The outcomes are added to `handled`, also
    /// if the run ends before all are delivered.
    async fn deliver_all(
        &self,
        messages: Vec<(MailUid, InboundMessage)>,
        handled: &mut Vec<HandledMail>,
        context: &ChannelContext,
    ) -> Next {
        let mut lanes = Lanes::new(usize::MAX);
        for (mail, message) in messages {
            lanes.add(message.chat_id.clone(), async move {
                let arrival = Arrival::direct();
                let delivering = deliver(context, message, &arrival, WAITING_NOTICE, None);
                (mail, delivering.await)
            });
        }
        while !lanes.is_empty() {
            let (mail, admission) = tokio::select! {
                // What is delivered is marked, also when the run ends.
                biased;
                delivered = lanes.next() => delivered,
                () = context.cancel.cancelled() => return Next::Stop,
            };
            let outcome = match admission {
                Admission::NotAllowed => MailOutcome::Skipped,
                Admission::Accepted | Admission::Duplicate => MailOutcome::Accepted,
                Admission::TryLater | Admission::ShuttingDown => return Next::Stop,
            };
            handled.push((mail, outcome));
        }
        Next::Confirm
    }

    /// Ends the attempts under way, except for those at mails that are `unread`: the others did not
    /// end the process.
    async fn end_attempts(
        &self,
        unread: BTreeSet<MailUid>,
        notes: &MailboxNotes<'_>,
    ) -> Result<(), MailError> {
        let ended = self.memory.with(|memory| &memory.attempts - &unread);
        quarantine::end_attempts(notes, &ended).await?;
        self.memory.with(|memory| memory.attempts = unread);
        Ok(())
    }

    /// Withdraws the attempts under way when the process shuts down: the mails are not at fault.
    pub(crate) async fn withdraw_attempts(&self, context: &ChannelContext) {
        let notes = self.notes(context);
        if let Err(error) = self.end_attempts(BTreeSet::new(), &notes).await {
            tracing::debug!(channel = %self.name, %error, "attempts could not be taken back");
        }
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
}
