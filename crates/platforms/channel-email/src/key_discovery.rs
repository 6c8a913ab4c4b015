//! Discovers `authservId` by a mail that the owner of the mailbox sends to it.
//!
//! Decision: only a mail counts whose subject has the code that was shown a moment ago, so that no
//! stranger can teach a name; and only one that the uppermost report proves, so that the name
//! belongs to a server that checks senders. The mailbox is opened read-only.

use std::collections::BTreeSet;

use chrono::{Days, Utc};
use nanobot_channel::{ChannelError, KeyDiscovery, SetupTask, async_trait};
use nanobot_channel_kit::wrong;

use crate::EmailChannel;
use crate::envelope;
use crate::error::MailError;
use crate::imap::ImapMailbox;

/// The key that is discovered.
const KEY: &str = "authservId";
/// Number of older mails that are read, the newest first.
const MAX_OLDER_MAILS: usize = 20;

#[async_trait]
impl KeyDiscovery for EmailChannel {
    fn task(&self, code: &str) -> Option<SetupTask> {
        let config = self.config();
        let address = config.sender().ok()?.email;
        config.lacks_reporter().then(|| SetupTask {
            key: KEY,
            text: format!(
                "The mail server has to be known whose reports about senders count ({KEY}); until then no mail is \
                 believed. Send a mail with the subject {code} to {address} now, from an address of yours at \
                 another provider."
            ),
        })
    }

    async fn discover(&self, code: &str) -> Result<String, ChannelError> {
        let name = self.discover(code).await?;
        name.ok_or_else(|| {
            let message = "cannot be learned: the mail arrived, but the uppermost header Authentication-Results in it \
                           is missing or proves nothing about its sender. Does the server check senders (SPF, DKIM)?";
            wrong(KEY, message)
        })
    }
}

impl EmailChannel {
    /// Waits for the mail with the code, and returns the name of the server. `None` if it proves
    /// nothing.
    async fn discover(&self, code: &str) -> Result<Option<String>, MailError> {
        let mut mailbox = ImapMailbox::open(&self.servers, true).await?;
        let since = Utc::now().date_naive();
        let since = since.checked_sub_days(Days::new(1)).unwrap_or(since);
        let mut known = BTreeSet::new();
        loop {
            let waiting = mailbox.search_unhandled(since).await?;
            for mail in waiting.iter().rev().take(MAX_OLDER_MAILS) {
                if !known.insert(*mail) {
                    continue;
                }
                let mut fetched = mailbox.fetch_headers(&[*mail], || {}).await?;
                let Some(header) = fetched.remove(mail) else {
                    continue;
                };
                let header = match self.extractor.mail_header(header.bytes).await {
                    Ok(header) => header,
                    Err(error) if error.blames_input() => continue,
                    Err(error) => return Err(MailError::Reader(error)),
                };
                if let Some(name) = envelope::reporter_named(&header, code) {
                    return Ok(name);
                }
            }
            if !mailbox.has_new_mail() {
                mailbox = mailbox.wait(|| {}).await?;
            }
        }
    }
}
