//! The HTTP health endpoint of the gateway.
//!
//! Decision: the report comes through [`HealthSource`], so that this crate knows no channel and no
//! agent. An address that others can reach requires a token. Without one the server binds loopback
//! and logs a warning, because a forgotten `0.0.0.0` must not publish anything.

mod health;
mod listen;

pub use health::{ChannelHealth, HealthReport, HealthSource};
pub use listen::{HealthServer, ServerConfig, ServerError};
