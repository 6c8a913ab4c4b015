//! Scripted models, platform fakes and conformance suites for tests.
//!
//! Fakes speak the real wire protocol on loopback and are as strict as the real service, so that a
//! client that passes here also works there. A helper that fails returns a [`TestkitError`], which
//! the test unwraps. Nothing here asserts, and only tests depend on it.

mod error;
mod extract;
mod hostile;
mod json;
mod notes;
mod peak;
mod port;
mod proxy;
mod reply;
mod script;
mod sync;
mod way;
mod websocket;

pub mod assistant;
pub mod calls;
pub mod channel;
pub mod conformance;
pub mod corpus;
pub mod discord;
pub mod disk;
pub mod http;
pub mod log;
pub mod mail;
pub mod markup;
pub mod model_server;
pub mod provider;
pub mod slack;
pub mod speech;
pub mod telegram;

pub use assistant::{Assistant, ChannelRun};
pub use calls::{Called, Calls};
pub use channel::RecordingChannel;
pub use discord::DiscordFake;
pub use disk::{Fault, FaultyDisk, MemoryDisk};
pub use error::TestkitError;
pub use extract::InProcess;
pub use hostile::HOSTILE_MARKDOWN;
pub use mail::MailFake;
pub use model_server::ModelServer;
pub use notes::NoteBook;
pub use peak::{PEAK_LIMIT, TIME_LIMIT, check_bounded, peak_of, peak_of_programs, processor_time};
pub use port::ReservedPort;
pub use provider::ScriptedProvider;
pub use proxy::Proxy;
pub use reply::{Gate, Reply, ScriptedCall};
pub use slack::SlackFake;
pub use speech::SpeechFake;
pub use sync::{WAIT_LIMIT, Watched};
pub use telegram::TelegramFake;
pub use way::check_ways;
pub use websocket::WebSocketClient;
