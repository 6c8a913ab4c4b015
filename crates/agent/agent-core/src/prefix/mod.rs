//! Detects requests that do not begin with the previous request of their session.
//!
//! Decision: a vendor's prompt cache helps only while each request begins with the previous one.
//! Every violation is therefore detected, attributed to the event that caused it, and shown in
//! `/usage`. The comparison uses digests over one rendering of every request: tools, system,
//! messages, one compact JSON each. No text of a conversation is kept for this, and nothing is
//! written while requests keep their prefix.
//!
//! This module only observes: it neither prevents a violation nor counts tokens. Its byte offsets
//! refer to that rendering, not to any vendor's own.

mod fingerprint;
mod log_facts;
mod miss;
mod watch;

pub(crate) use log_facts::LogFacts;
pub use miss::{Miss, MissEvent, last_miss};
pub(crate) use watch::PrefixWatch;
