//! E-mail: IMAP in, SMTP out.
//!
//! Decision: the connection to the mailbox stays open and waits for new mail (IDLE) where the
//! server has that; mail is received with async-imap, parsed with mail-parser and sent with lettre.
//! The flags of the mailbox are the record of what was handled, and are set only after
//! [`nanobot_channel::Intake::deliver`] acknowledged a mail. A sender is an address that the own
//! mail server has verified; automatic mails are not answered.
//!
//! It does not verify signatures itself (the own mail server does, and reports it), decrypt mail,
//! fetch remote content, or keep copies of sent mails.

mod attachment;
mod authentication;
mod batch;
mod candidate;
mod channel;
mod config;
mod envelope;
mod error;
mod factory;
mod imap;
mod imap_stream;
mod intake;
mod key_discovery;
mod login;
mod marking;
mod markup;
mod memory;
mod notes;
mod oauth;
mod outbound;
mod proxy;
mod quarantine;
mod receive;
mod servers;
mod smtp;
mod text;
mod thread;
mod tls;
mod unproven;
mod upload;
mod utf7;

pub use channel::EmailChannel;
pub use config::{EmailConfig, LoginMethod, PostAction};
pub use factory::EmailFactory;
pub use markup::MailHtml;
pub use nanobot_channel_kit::Secret;
