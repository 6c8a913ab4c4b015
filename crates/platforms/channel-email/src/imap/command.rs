//! Changes mails: flags, other mailboxes, removal.

use super::{ImapMailbox, KEYWORD, MailUid, uid_set};
use crate::error::{MailError, imap, within};
use crate::imap_stream::SMALL_TALK;
use crate::utf7;

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

/// A change of mails. Each may be repeated, except for a copy that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailCommand<'a> {
    /// Sets a flag, which may be set already.
    Flag(MailFlag),
    /// Moves to another mailbox, if the server [can](ImapMailbox::has_move).
    Move(&'a str),
    /// Copies to another mailbox.
    Copy(&'a str),
    /// Removes the mails with the flag [`MailFlag::Deleted`]. A server without UIDPLUS removes all
    /// such mails, which needs `postActionExpunge`.
    Expunge,
}

impl ImapMailbox {
    /// Changes mails with one command, which does nothing for mails that are gone.
    pub(crate) async fn carry_out(
        &mut self,
        command: MailCommand<'_>,
        mails: &[MailUid],
    ) -> Result<(), MailError> {
        self.session.as_mut().grant(SMALL_TALK);
        let set = uid_set(mails);
        let (doing, text) = match command {
            MailCommand::Flag(flag) => match self.flag_name(flag) {
                Some(name) => (
                    "marking mail",
                    format!("UID STORE {set} +FLAGS.SILENT ({name})"),
                ),
                None => return Ok(()),
            },
            MailCommand::Move(target) => {
                let moving = self.session.uid_mv(set, utf7::encoded(target));
                return within(self.config.request_timeout(), "moving mail", moving)
                    .await?
                    .map_err(imap("moving mail"));
            }
            MailCommand::Copy(target) => {
                let copying = self.session.uid_copy(set, utf7::encoded(target));
                return within(self.config.request_timeout(), "copying mail", copying)
                    .await?
                    .map_err(imap("copying mail"));
            }
            MailCommand::Expunge if self.has_uidplus => {
                ("removing mail", format!("UID EXPUNGE {set}"))
            }
            MailCommand::Expunge if self.config.post_action_expunge => {
                ("removing mail", "EXPUNGE".to_owned())
            }
            MailCommand::Expunge => return Ok(()),
        };
        let running = self.session.run_command_and_check_ok(text);
        within(self.config.request_timeout(), doing, running)
            .await?
            .map_err(imap(doing))
    }

    /// Returns the name of a flag. `None` if the mailbox does not record it.
    fn flag_name(&self, flag: MailFlag) -> Option<&'static str> {
        match flag {
            MailFlag::Handled if self.config.mark_seen => Some(r"\Seen"),
            MailFlag::Handled => self.keeps_keywords.then_some(KEYWORD),
            MailFlag::Flagged => Some(r"\Flagged"),
            MailFlag::Deleted => Some(r"\Deleted"),
        }
    }
}
