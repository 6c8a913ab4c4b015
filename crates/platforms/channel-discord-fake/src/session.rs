//! Sessions: the numbered events of one identified client, and the number it confirmed.

use serde_json::{Value, json};

/// Intent bits of the events that the gateway sends.
pub(crate) const GUILDS: u64 = 1;
pub(crate) const GUILD_MESSAGES: u64 = 1 << 9;
pub(crate) const DIRECT_MESSAGES: u64 = 1 << 12;
pub(crate) const MESSAGE_CONTENT: u64 = 1 << 15;
/// All intent bits.
pub(crate) const ALL_INTENTS: u64 = (1 << 26) - 1;

#[derive(Debug)]
pub(crate) struct GatewaySession {
    pub(crate) id: String,
    pub(crate) intents: u64,
    /// Frames as they are sent. The sequence number is the position, counted from 1.
    pub(crate) events: Vec<Value>,
    /// Highest sequence number confirmed by the client.
    pub(crate) confirmed: u64,
    /// The connection that reads the session.
    pub(crate) connection: Option<usize>,
}

impl GatewaySession {
    pub(crate) fn add(&mut self, name: &str, content: &Value) -> u64 {
        let number = self.events.len() as u64 + 1;
        self.events
            .push(json!({"op": 0, "s": number, "t": name, "d": content}));
        number
    }

    pub(crate) fn last(&self) -> u64 {
        self.events.len() as u64
    }

    /// Returns the event after the given sequence number.
    pub(crate) fn after(&self, number: u64) -> Option<&Value> {
        self.events
            .get(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Confirms all events up to a sequence number. Returns `false` if there are fewer events.
    pub(crate) fn confirm(&mut self, number: u64) -> bool {
        let exists = number <= self.last();
        if exists {
            self.confirmed = self.confirmed.max(number);
        }
        exists
    }
}
