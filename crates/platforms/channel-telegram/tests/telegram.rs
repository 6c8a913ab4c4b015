//! The channel on real sockets, against a Bot API server with strict offsets.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "telegram/conformance.rs"]
mod conformance;
#[path = "telegram/drafts.rs"]
mod drafts;
#[path = "telegram/inbound.rs"]
mod inbound;
#[path = "telegram/interactions.rs"]
mod interactions;
#[path = "telegram/markup.rs"]
mod markup;
#[path = "telegram/migration.rs"]
mod migration;
#[path = "telegram/native_drafts.rs"]
mod native_drafts;
#[path = "telegram/outbound.rs"]
mod outbound;
#[path = "telegram/polling.rs"]
mod polling;
#[path = "telegram/secrets.rs"]
mod secrets;
#[path = "telegram/support.rs"]
mod support;
#[path = "telegram/transport.rs"]
mod transport;
#[path = "telegram/webhook.rs"]
mod webhook;
