//! Sessions: the numbered events of one identified client, and the number it confirmed.

use serde_json::{Value, json};

use super::state::State;

/// Intent bits of the events that the gateway sends.
pub(super) const GUILDS: u64 = 1;
pub(super) const GUILD_MESSAGES: u64 = 1 << 9;
pub(super) const DIRECT_MESSAGES: u64 = 1 << 12;
pub(super) const MESSAGE_CONTENT: u64 = 1 << 15;
/// All intent bits.
pub(super) const ALL_INTENTS: u64 = (1 << 26) - 1;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) intents: u64,
    /// Frames as they are sent. The sequence number is the position, counted from 1.
    pub(super) events: Vec<Value>,
    /// Highest sequence number confirmed by the client.
    pub(super) confirmed: u64,
    /// The connection that reads the session.
    pub(super) connection: Option<usize>,
}

impl Session {
    pub(super) fn add(&mut self, name: &str, content: &Value) -> u64 {
        let number = self.events.len() as u64 + 1;
        self.events
            .push(json!({"op": 0, "s": number, "t": name, "d": content}));
        number
    }

    pub(super) fn last(&self) -> u64 {
        self.events.len() as u64
    }

    /// Returns the event after the given sequence number.
    pub(super) fn after(&self, number: u64) -> Option<&Value> {
        self.events
            .get(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Confirms all events up to a sequence number. Returns `false` if there are fewer events.
    pub(super) fn confirm(&mut self, number: u64) -> bool {
        let exists = number <= self.last();
        if exists {
            self.confirmed = self.confirmed.max(number);
        }
        exists
    }
}

impl State {
    /// Begins a session and sends its first event.
    pub(super) fn begin_session(&mut self, connection: usize, intents: u64) -> String {
        self.identifies += 1;
        let id = format!("session-{}", self.identifies);
        let mut session = Session {
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

    pub(super) fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Adds an event to every session that has one of these intents (0: to every session). Returns
    /// its number in the newest session.
    pub(super) fn dispatch(&mut self, name: &str, content: &Value, intents: u64) -> Option<u64> {
        let mut number = None;
        for session in &mut self.sessions {
            if intents == 0 || session.intents & intents != 0 {
                let mut content = content.clone();
                if name == "MESSAGE_CREATE" && session.intents & MESSAGE_CONTENT == 0 {
                    super::event::hide_text(&mut content);
                }
                number = Some(session.add(name, &content));
            } else {
                number = None;
            }
        }
        number
    }
}
