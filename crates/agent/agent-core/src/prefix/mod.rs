//! What the last request of a session was, and where the next one parts from it.
//!
//! Decision: a vendor's prompt cache pays only while each request begins with the one before it,
//! so every break of that rule is noticed, given the name of the event that caused it, and told to
//! whoever asks what a session costs. Compared are digests over one rendering of every request:
//! tools, system, messages, one compact JSON each. Nothing of a conversation is kept for it, and
//! nothing is written while requests go on as they should.
//!
//! It only watches: it neither prevents a break nor counts tokens. The bytes that it names are
//! bytes of that rendering, not those of any vendor's own.

mod fingerprint;
mod log_facts;
mod miss;
mod watch;

pub(crate) use log_facts::LogFacts;
pub use miss::{Miss, MissEvent, last_miss};
pub(crate) use watch::PrefixWatch;
