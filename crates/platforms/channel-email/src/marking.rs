//! Marks handled mails in the mailbox.
//!
//! Decision: the mails of a batch are changed together, with one command for each change. Where a
//! server refuses a set, each mail is changed alone, so that one mail keeps no other unmarked.

use nanobot_channel::ChannelContext;
use tokio::time::{Duration, sleep};

use crate::EmailChannel;
use crate::config::PostAction;
use crate::error::MailError;
use crate::imap::{ImapMailbox, MailCommand, MailFlag, MailUid};

/// Time limit for marking when the assistant shuts down.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// The outcome of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailOutcome {
    Accepted,
    Skipped,
    /// Skipped, and a person should look at it.
    Odd,
    /// Its sender is not proven. It stays as it is: with another configuration it may be.
    Unproven,
    /// It is not in the mailbox any more.
    Gone,
}

/// A mail that was handled and is not marked.
pub(crate) type HandledMail = (MailUid, MailOutcome);

impl EmailChannel {
    /// Marks mails and remembers them as handled. During a shutdown, they stay unmarked if the
    /// server does not answer in time: they come again as duplicates.
    pub(crate) async fn finish(
        &self,
        mailbox: &mut ImapMailbox,
        handled: &[HandledMail],
        context: &ChannelContext,
    ) -> Result<(), MailError> {
        let give_up = async {
            context.cancel.cancelled().await;
            sleep(STOP_LIMIT).await;
        };
        tokio::select! {
            // The next connection finds them again, and they are duplicates then.
            marked = self.mark(mailbox, handled) => marked?,
            () = give_up => return Ok(()),
        }
        self.memory
            .mark_handled(handled.iter().map(|(mail, _)| *mail));
        Ok(())
    }

    async fn mark(
        &self,
        mailbox: &mut ImapMailbox,
        handled: &[HandledMail],
    ) -> Result<(), MailError> {
        let config = self.config();
        let those = |fits: &dyn Fn(MailOutcome) -> bool| -> Vec<MailUid> {
            let fitting = handled.iter().filter(|(_, outcome)| fits(*outcome));
            fitting.map(|(mail, _)| *mail).collect()
        };
        let is_settled = |outcome| !matches!(outcome, MailOutcome::Unproven | MailOutcome::Gone);
        let odd = those(&|outcome| outcome == MailOutcome::Odd);
        let flag = MailCommand::Flag;
        self.change(mailbox, flag(MailFlag::Flagged), odd).await?;
        self.change(mailbox, flag(MailFlag::Handled), those(&is_settled))
            .await?;
        let acted = those(&|outcome| {
            let is_ignored = config.post_action_ignore_skipped && outcome != MailOutcome::Accepted;
            is_settled(outcome) && !is_ignored
        });
        match config.post_action {
            None => {}
            Some(PostAction::Move) => {
                let target = &config.post_action_move_mailbox;
                if mailbox.has_move() {
                    self.change(mailbox, MailCommand::Move(target), acted)
                        .await?;
                    return Ok(());
                }
                let copied = self.change(mailbox, MailCommand::Copy(target), acted);
                let copied = copied.await?;
                self.remove(mailbox, copied, true).await?;
            }
            Some(PostAction::Delete) => {
                self.remove(mailbox, acted, config.post_action_expunge)
                    .await?;
            }
        }
        Ok(())
    }

    async fn remove(
        &self,
        mailbox: &mut ImapMailbox,
        mails: Vec<MailUid>,
        expunges: bool,
    ) -> Result<(), MailError> {
        let deleted = self
            .change(mailbox, MailCommand::Flag(MailFlag::Deleted), mails)
            .await?;
        if expunges {
            self.change(mailbox, MailCommand::Expunge, deleted).await?;
        }
        Ok(())
    }

    /// Changes mails, and returns those whose change the server did not refuse.
    async fn change(
        &self,
        mailbox: &mut ImapMailbox,
        command: MailCommand<'_>,
        mut mails: Vec<MailUid>,
    ) -> Result<Vec<MailUid>, MailError> {
        match mails.as_slice() {
            [] => return Ok(mails),
            [_] => {}
            [..] => match mailbox.carry_out(command, &mails).await {
                Err(error) if error.is_refusal() => {}
                outcome => return outcome.map(|()| mails),
            },
        }
        let mut refused = Vec::new();
        for mail in &mails {
            match mailbox.carry_out(command, &[*mail]).await {
                Err(error) if error.is_refusal() => {
                    tracing::warn!(channel = %self.name, uid = mail.uid, %error, "a mail could not be marked");
                    refused.push(*mail);
                }
                outcome => outcome?,
            }
        }
        mails.retain(|mail| !refused.contains(mail));
        Ok(mails)
    }
}
