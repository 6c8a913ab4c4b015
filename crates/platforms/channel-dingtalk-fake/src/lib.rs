//! A fake of DingTalk: the open API, the older API, Stream mode and files, with strict semantics.
//!
//! Clients use [`DingTalkFake::base_url`] and [`DingTalkFake::oapi_url`] instead of DingTalk's two
//! hosts; `/v1.0/gateway/connections/open` returns the address of the gateway and a ticket, as at
//! DingTalk. A push that is not acknowledged in time, is answered with another code than 200, or
//! loses its connection is delivered again. Unknown and malformed parameters, and requests that no
//! correct client makes, are recorded as [complaints](DingTalkFake::complaints). Time passes as fast
//! as [`DingTalkFake::advance`] says: tokens, tickets and addresses expire without waiting.
//!
//! Known gaps: one organisation, one app, one robot; no recall of messages, no read receipts, no
//! older interactive cards, no cards created in one call and delivered in another. DingTalk
//! documents neither the time limit nor the number of its redeliveries, nor most codes of refusals:
//! `robot.notInConversation`, `msgParam.tooLong`, `downloadCode.invalid` and `param.cardFinished`
//! are the fake's own. Limits of calls apply only on demand.

mod account;
mod acknowledgement;
mod api;
mod auth;
mod card;
mod connection;
mod delivery;
mod event;
mod fake;
mod fault;
mod files;
mod handler;
mod handshake;
mod incoming;
mod model;
mod outage;
mod params;
#[cfg(test)]
mod probe;
mod quote;
mod route;
mod seen;
mod sending;
mod socket;
mod state;
mod template;
mod watch;

pub use account::{
    CARD_KEY, CARD_TEMPLATE, CARD_TOPIC, CLIENT_ID, CLIENT_SECRET, CORP_ID, MESSAGE_TOPIC,
    ROBOT_NAME, ROBOT_USER_ID, TICKET_PREFIX, TOKEN_PREFIX,
};
pub use fake::DingTalkFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use model::{Pushed, SentFile, SentMessage};
pub use state::Call;
