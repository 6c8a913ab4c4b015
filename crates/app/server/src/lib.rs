//! The HTTP endpoint of the gateway: is it alive, and are its channels?
//!
//! Decision: what is shown comes through [`HealthSource`], so that this crate knows no channel
//! and no agent. An address that others can reach needs a token; without one the server binds
//! loopback and says so, because a forgotten `0.0.0.0` must not publish anything.

mod health;
mod listen;

pub use health::{ChannelHealth, HealthReport, HealthSource};
pub use listen::{HealthServer, ServerConfig, ServerError};
