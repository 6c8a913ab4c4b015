//! A fake of Slack: the Web API, Socket Mode and files, with strict semantics.
//!
//! Clients connect to [`SlackFake::api_base`]; `apps.connections.open` returns the URL of the
//! socket, as on Slack. An envelope that is not acknowledged within three seconds, or whose
//! connection ends first, is sent again in a new envelope. A mention is sent as two events. The
//! bot's and the app's token are distinct. Methods that only read accept no JSON. Unknown arguments
//! are refused and recorded as [complaints](SlackFake::complaints). Known gaps: one workspace, one
//! bot, no attachments. The only supported blocks are sections, tables of plain text, actions and
//! contexts, and their limit per message is not enforced.

mod account;
mod api;
mod blocks;
mod conversations;
mod envelope;
mod fake;
mod fault;
mod files;
mod handler;
mod incoming;
mod messages;
mod model;
mod params;
mod socket;
mod state;

pub use account::{APP_TOKEN, BOT_TOKEN, BOT_USER, TEAM};
pub use fake::SlackFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use model::{Pushed, SentFile, SentMessage};
pub use state::Call;
