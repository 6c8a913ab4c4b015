//! A fake IMAP and SMTP server that produces faults which real servers do not produce on demand:
//! stalls, cut connections, malformed answers.
//!
//! It is strict: a command that is unknown or comes at the wrong time is answered with an error and
//! recorded ([`MailFake::violations`]). Known gaps: one mailbox (`INBOX`), one mail per command, no
//! encryption. Of IMAP it supports only what a client needs to search for unread mail, fetch and
//! flag it, wait (IDLE) and copy it to another mailbox.

mod account;
mod fake;
mod imap;
mod lines;
mod smtp;
mod state;
mod token_endpoint;
mod tokens;

pub use account::{PASSWORD, USER};
pub use fake::MailFake;
pub use state::{MailFault, SentMail, StoredMail};
pub use tokens::{CLIENT_ID, CLIENT_SECRET, REFRESH_TOKEN};
