//! The channel on real sockets: against servers that can be told to fail, and against real ones.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests stop at the first surprise"
)]

#[path = "email/batches.rs"]
mod batches;
#[path = "email/conformance.rs"]
mod conformance;
#[path = "email/faults.rs"]
mod faults;
#[path = "email/inbound.rs"]
mod inbound;
#[path = "email/markup.rs"]
mod markup;
#[path = "email/oauth.rs"]
mod oauth;
#[path = "email/outbound.rs"]
mod outbound;
#[path = "email/proxy.rs"]
mod proxy;
#[path = "email/real.rs"]
mod real;
#[path = "email/support.rs"]
mod support;
