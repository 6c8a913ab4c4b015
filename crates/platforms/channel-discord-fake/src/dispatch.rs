//! Begins sessions, and sends events to them.

use serde_json::Value;

use crate::event::hide_text;
use crate::session::{GUILDS, GatewaySession, MESSAGE_CONTENT};
use crate::state::DiscordState;

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
                    hide_text(&mut content);
                }
                number = Some(session.add(name, &content));
            } else {
                number = None;
            }
        }
        number
    }
}
