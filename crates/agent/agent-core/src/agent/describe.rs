//! The session part of `/status`.

use nanobot_session::{Entry, ReadFrom};
use nanobot_types::SessionKey;

use super::{Agent, usage};
use crate::consolidation::messages_waiting;

impl Agent {
    /// Returns the model, tokens and messages of a session, as lines for a person.
    pub async fn describe(&self, session: &SessionKey) -> String {
        let usage = self.engine.meter().of_session(session).sum().tokens;
        let cached = usage::share(&usage);
        let mut model = self.settings.model.to_string();
        let messages = match self.sessions.read(session, ReadFrom::Cursor).await {
            Ok(view) => {
                let preferred = self.preferred_model(&view.metadata);
                let preset = self.engine.presets();
                let preset = preset.filter(|(name, _)| *name == preferred.as_str());
                if let Some((name, chosen)) = preset.last() {
                    model = format!("{chosen} ({name})");
                }
                let sent = view
                    .effective_records()
                    .into_iter()
                    .filter(|record| matches!(record.entry, Entry::Message(_)))
                    .count();
                let waiting = match messages_waiting(&view) {
                    0 => String::new(),
                    count => format!(
                        "\n{count} older messages are not summarised; /summarize does that."
                    ),
                };
                format!("{} messages, {sent} in context{waiting}", view.head)
            }
            Err(error) => format!("unreadable ({error})"),
        };
        format!(
            "Model: {model}\nTokens since start: {} in ({cached} % cached), {} out\nSession {session}: {messages}",
            usage.prompt_tokens, usage.completion_tokens
        )
    }
}
