//! E-mail: IMAP in, SMTP out.
//!
//! Decision: the connection to the mailbox stays open and is told about new mail (IDLE) where the
//! server can do that; mail is read with async-imap and mail-parser and sent with lettre. The flags
//! of the mailbox are the record of what was dealt with, and are set only after
//! [`nanobot_channel::Intake::deliver`] acknowledged a mail. A person is an address that the own mail
//! server vouches for; what machines wrote is not answered.
//!
//! What it does not do: verify signatures itself (the own mail server does, and says so), read
//! encrypted or signed mail as such, fetch remote content, keep copies of what was sent.

mod attachment;
mod authentic;
mod channel;
mod compose;
mod config;
mod connect;
mod content;
mod envelope;
mod error;
mod factory;
mod folder;
mod inbound;
mod lesson;
mod login;
mod mailbox;
mod markup;
mod oauth;
mod receive;
mod refused;
mod route;
mod servers;
mod smtp;
mod start;
mod thread;
mod tls;
mod tries;
mod wire;

pub use channel::EmailChannel;
pub use config::{EmailConfig, LoginMethod, PostAction};
pub use factory::EmailFactory;
pub use markup::MailHtml;
pub use nanobot_channel_kit::Secret;
