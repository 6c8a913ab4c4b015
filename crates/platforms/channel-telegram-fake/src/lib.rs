//! A fake of Telegram's Bot API with strict semantics.
//!
//! Clients connect to [`TelegramFake::api_base`]. An update is delivered repeatedly until a
//! `getUpdates` with a higher offset confirms it. A second poller ends the first with 409. Markup
//! is parsed as Telegram parses it, and length limits count the UTF-16 units of the parsed text.
//! Requests may be JSON, form, multipart or query; method names are case-insensitive. Webhook
//! updates are posted to a listener that takes the place of the TLS-terminating proxy
//! ([`TelegramFake::post_to`]). Known gaps: the only `parse_mode` is HTML, and failed posts are
//! retried faster than by Telegram. The previews of drafts vanish when a test lets time pass
//! ([`TelegramFake::advance`]).

mod account;
mod api;
mod drafts;
mod fake;
mod fault;
mod files;
mod handler;
mod html;
mod incoming;
mod messages;
mod params;
mod polling;
mod poster;
mod sending;
mod state;
mod webhook;

pub use account::{BOT_ID, BOT_USERNAME, TOKEN};
pub use drafts::SentDraft;
pub use fake::TelegramFake;
pub use fault::Fault;
pub use incoming::{FileKind, Incoming, Person};
pub use messages::{SentFile, SentMessage};
pub use state::{Call, Pushed};
