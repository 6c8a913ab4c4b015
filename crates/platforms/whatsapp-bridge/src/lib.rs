//! Installs, starts and supervises the WhatsApp bridge.
//!
//! The bridge is a package for Node.js, which is part of this crate as text
//! (`bridges/whatsapp`). [`Bridge::install`] writes it into a folder and lets `npm` fetch its
//! dependencies, by the checksums of its lock file. A running bridge is a child process: it gets
//! its token through its environment, listens on a free port of the loopback interface, and ends
//! with the program that started it. See `bridges/whatsapp/PROTOCOL.md`.
//!
//! Files in the folder of nanobot's data:
//!
//! | path | content |
//! |---|---|
//! | `whatsapp-bridge/VERSION` | an installed version, named by the digest of its files |
//! | `whatsapp-bridge/VERSION.part` | an installation that is not finished |
//! | `whatsapp-bridge/accounts/NAME` | the journal of an account, its lock, and its name |
//! | `whatsapp-auth`, `whatsapp-auth-NAME` | the keys of an account |
//!
//! Decision: npm fetches the dependencies when they are first needed, so that nanobot neither
//! distributes them nor needs Node.js without WhatsApp. Scripts of packages never run. npm and the
//! bridge get a few variables of the environment only, and no key of nanobot.
//!
//! This crate does not speak the protocol; the WhatsApp channel does.

mod account;
mod bridge;
mod environment;
mod error;
mod folders;
mod install;
mod listening;
mod lock;
mod output;
mod package;
mod process;
mod program;

pub use bridge::Bridge;
pub use error::BridgeError;
pub use process::RunningBridge;
