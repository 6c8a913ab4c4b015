//! The model that a session prefers, and the line about another one that answered.
//!
//! Decision: people choose among the presets that the operator configured, by name. Any other model
//! would be billed to the operator. The choice is part of the session's metadata, so that it
//! survives a restart and a new conversation.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use nanobot_session::{Entry, ReadFrom, Seq};
use nanobot_types::{Map, ModelId, SessionKey};
use serde_json::Value;

use super::Agent;
use crate::AgentError;

/// Metadata key of the preset that a session prefers.
const MODEL: &str = "_model";

/// Maximum number of sessions for which an outage is remembered.
const MAX_SESSIONS: usize = 1024;

/// The models that a session can choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMenu {
    /// The preset that the session prefers; `None` for the default.
    pub preferred: Option<String>,
    /// The model of sessions without a preference.
    pub default: String,
    /// The presets by name, with their models.
    pub presets: Vec<(String, String)>,
}

impl fmt::Display for ModelMenu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |is_current: bool| if is_current { "▸" } else { "·" };
        let is_default = self.preferred.is_none();
        write!(f, "{} default — {}", mark(is_default), self.default)?;
        for (name, model) in &self.presets {
            let is_current = self.preferred.as_ref() == Some(name);
            write!(f, "\n{} {name} — {model}", mark(is_current))?;
        }
        if self.presets.is_empty() {
            return f.write_str(
                "\nThere are no others: modelPresets in the configuration can name some.",
            );
        }
        f.write_str("\n/model NAME chooses one for this chat.")
    }
}

impl Agent {
    /// Returns the models that a session can choose from, and its choice.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session cannot be read.
    pub async fn model_menu(&self, session: &SessionKey) -> Result<ModelMenu, AgentError> {
        let end = ReadFrom::Seq(Seq(u64::MAX));
        let view = self.sessions.read(session, end).await?;
        let preferred = self.preferred_model(&view.metadata);
        let presets = self.engine.presets();
        Ok(ModelMenu {
            preferred: (!preferred.as_str().is_empty()).then(|| preferred.to_string()),
            default: self.settings.model.to_string(),
            presets: presets
                .map(|(name, model)| (name.to_owned(), model.to_string()))
                .collect(),
        })
    }

    /// Makes a session prefer a preset from its next turn on; `None` for the default. Returns
    /// `false` if there is no such preset.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the choice cannot be recorded.
    pub async fn prefer_model(
        &self,
        session: &SessionKey,
        preset: Option<&str>,
    ) -> Result<bool, AgentError> {
        let is_known = |wanted: &str| self.engine.presets().any(|(name, _)| name == wanted);
        if preset.is_some_and(|preset| !is_known(preset)) {
            return Ok(false);
        }
        let _owner = self.locks.lock(session).await;
        let end = ReadFrom::Seq(Seq(u64::MAX));
        let view = self.sessions.read(session, end).await?;
        let change = Map::from_iter([(MODEL.to_owned(), preset.map_or(Value::Null, Value::from))]);
        self.sessions
            .append(session, view.head, vec![Entry::Metadata(change)])
            .await?;
        Ok(true)
    }

    /// Returns the preset that the metadata of a session names, if it still exists; otherwise the
    /// empty name of the default.
    pub(super) fn preferred_model(&self, metadata: &Map) -> ModelId {
        let named = metadata.get(MODEL).and_then(Value::as_str).unwrap_or("");
        let known = self.engine.presets().find(|(name, _)| *name == named);
        ModelId::from(known.map_or("", |(name, _)| name))
    }
}

/// Sessions that read the line about the model that answers in place of theirs.
#[derive(Debug, Default)]
pub(super) struct Announced(Mutex<HashSet<SessionKey>>);

impl Announced {
    /// Returns `line` for the first turn of an outage, and `None` for the further ones. A turn
    /// without a line ends the outage.
    pub(super) fn once(&self, session: &SessionKey, line: Option<String>) -> Option<String> {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = line else {
            announced.remove(session);
            return None;
        };
        // Rather a line too many than a growing set.
        if announced.len() >= MAX_SESSIONS {
            announced.clear();
        }
        announced.insert(session.clone()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_announced_once() {
        let announced = Announced::default();
        let (session, line) = (SessionKey::from("a:1"), || Some("b answered".to_owned()));
        assert_eq!(announced.once(&session, line()), line());
        assert_eq!(announced.once(&session, line()), None);
        assert_eq!(announced.once(&"a:2".into(), line()), line());
        assert_eq!(announced.once(&session, None), None);
        assert_eq!(announced.once(&session, line()), line());
    }

    #[test]
    fn menu_marks_the_current_model() {
        let menu = ModelMenu {
            preferred: Some("fast".to_owned()),
            default: "openai/gpt-4.1".to_owned(),
            presets: vec![("fast".to_owned(), "groq/llama".to_owned())],
        };
        assert_eq!(
            menu.to_string(),
            "· default — openai/gpt-4.1\n▸ fast — groq/llama\n/model NAME chooses one for this chat."
        );
    }
}
