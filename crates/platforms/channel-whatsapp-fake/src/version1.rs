//! Version 1 of the protocol: the bridge of the Python program, or a client that speaks it.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::fault::{Fault, Reaction};
use crate::jid;
use crate::params::Params;
use crate::state::WhatsAppState;

impl WhatsAppState {
    /// Handles a frame of a client of version 1. Answers have no `requestId`.
    pub(crate) fn handle_version_1(&mut self, frame: &Value, fault: Option<Fault>) -> Reaction {
        let nothing = serde_json::Map::new();
        let params = Params(frame.as_object().unwrap_or(&nothing));
        let result = match params.text("type") {
            "send" => self.send_of_version_1(params),
            // The Python program's bridge ignores the type of a frame that it does not know.
            _ => {
                let mut sent = json!({"type": "sent"});
                if let Some(to) = params.0.get("to") {
                    set(&mut sent, "to", to.clone());
                }
                Ok(sent)
            }
        };
        let answer = match &result {
            Ok(frame) => Ok(frame.clone()),
            Err(error) => Ok(error.frame_of_version_1()),
        };
        match fault {
            Some(fault) => fault.afterwards(None, answer),
            None => crate::fault::reaction(None, &answer),
        }
    }

    fn send_of_version_1(&mut self, params: Params<'_>) -> ApiResult {
        let (to, text) = (params.text("to"), params.text("text"));
        if !jid::is_chat(to) || text.is_empty() {
            self.complain("send: to or text of version 1");
            return Err(ApiError::invalid("to or text"));
        }
        self.link.check()?;
        let chat = self.addressed(to)?;
        let id = self.next_id("3EB0");
        self.keep(&id, &chat, to, text, Value::Null, Vec::new());
        Ok(json!({"type": "sent", "to": to}))
    }
}
