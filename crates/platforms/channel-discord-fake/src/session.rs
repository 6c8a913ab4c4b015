//! Sessions: the numbered events of one identified client, and the number it confirmed.

use serde_json::{Value, json};

use crate::state::DiscordState;

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

impl DiscordState {
    /// Begins a session and sends its first event.
    pub(crate) fn begin_session(&mut self, connection: usize, intents: u64) -> String {
        self.identifies += 1;
        let id = format!("session-{}", self.identifies);
        let mut session = GatewaySession {
            id: id.clone(),
            intents,
            events: Vec::new(),
            confirmed: 0,
            connection: Some(connection),
        };
        session.add("READY", &self.ready(&id));
        if intents & GUILDS != 0 {
            session.add("GUILD_CREATE", &self.guild());
        }
        self.sessions.push(session);
        id
    }

    pub(crate) fn session(&mut self, id: &str) -> Option<&mut GatewaySession> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Adds an event to every session that has one of these intents (0: to every session). Returns
    /// its number in the newest session.
    pub(crate) fn dispatch(&mut self, name: &str, content: &Value, intents: u64) -> Option<u64> {
        let mut number = None;
        for session in &mut self.sessions {
            if intents == 0 || session.intents & intents != 0 {
                let mut content = content.clone();
                if name == "MESSAGE_CREATE" && session.intents & MESSAGE_CONTENT == 0 {
                    crate::event::hide_text(&mut content);
                }
                number = Some(session.add(name, &content));
            } else {
                number = None;
            }
        }
        number
    }
}
