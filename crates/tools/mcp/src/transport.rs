//! Connections to servers.

mod authorized;
mod client;
mod process;
mod sse;
mod stdio;

pub(crate) use authorized::AuthorizedClient;
pub(crate) use client::{GuardedClient, headers, http_client};
pub(crate) use sse::SseTransport;
pub(crate) use stdio::StdioTransport;

/// Maximum size of one message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;
