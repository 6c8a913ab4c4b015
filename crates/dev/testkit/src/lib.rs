//! Scripted models, conformance suites, and the parts that fakes of services are made of.
//!
//! Fakes speak the real wire protocol on loopback and are as strict as the real service, so that a
//! client that passes here also works there. The fake of a chat platform is a crate next to the
//! platform's channel; this crate contains what such fakes share: an HTTP server that can misbehave
//! ([`http`]), state that tests watch ([`Watched`]), and calls with scripted faults ([`Calls`]). A
//! helper that fails returns a [`TestkitError`], which the test unwraps. Nothing here asserts, and
//! only tests depend on it.

mod accept;
mod downloads;
mod error;
mod extract;
mod gate;
mod hostile;
mod notes;
mod pdf;
mod peak;
mod port;
mod proxy;
mod proxy_route;
mod reply;
mod script;
mod summary;
mod sync;
mod websocket;

pub mod assistant;
pub mod calls;
pub mod channel;
pub mod conformance;
pub mod corpus;
pub mod disk;
pub mod http;
pub mod json;
pub mod log;
pub mod markup;
pub mod mcp_server;
pub mod model_server;
pub mod provider;
pub mod sign_in_server;
pub mod speech;

pub use accept::{accept_connections, ignore_until_end};
pub use assistant::{Assistant, ChannelRun};
pub use calls::{Called, Calls};
pub use channel::RecordingChannel;
pub use disk::{DiskFault, FaultyDisk, MemoryDisk};
pub use downloads::check_downloads;
pub use error::TestkitError;
pub use extract::InProcess;
pub use gate::Gate;
pub use hostile::{HOSTILE_MARKDOWN, gzip_bomb};
pub use mcp_server::McpServerFake;
pub use model_server::ModelServer;
pub use notes::NoteBook;
pub use pdf::{pdf, pdf_of_pages};
pub use peak::{PEAK_LIMIT, TIME_LIMIT, check_bounded, peak_of, peak_of_programs, processor_time};
pub use port::ReservedPort;
pub use provider::ScriptedProvider;
pub use proxy::Proxy;
pub use proxy_route::check_proxy_routes;
pub use reply::{Reply, ScriptedCall};
pub use sign_in_server::SignInServer;
pub use speech::SpeechFake;
pub use summary::summarize;
pub use sync::{WAIT_LIMIT, Watched};
pub use websocket::WebSocketClient;
