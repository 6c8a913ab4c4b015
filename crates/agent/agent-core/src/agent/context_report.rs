//! The contents of a session's next request, for `/context`.

use std::fmt;

use nanobot_context::{SessionFacts, estimate_message, estimate_tokens, estimate_tools};
use nanobot_provider::ContextWindow;
use nanobot_session::{ReadFrom, SessionView, replay};
use nanobot_types::{ModelId, SessionKey};

use super::{Agent, LogFacts};
use crate::consolidation::{last_summary, messages_waiting};
use crate::{AgentError, budget};

/// A part of a request and its size in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPart {
    /// The name of the part: a section of the prompt, the tools, or the conversation.
    pub name: String,
    /// Estimated number of tokens.
    pub tokens: usize,
}

/// The contents of a session's next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextReport {
    /// The model that is called first.
    pub model: ModelId,
    /// Sections of the prompt, the tools and the conversation, in the order in which they are sent.
    pub parts: Vec<ContextPart>,
    /// Maximum number of tokens of a request; 0 for no limit.
    pub budget: usize,
    /// Size of the model's context window in tokens; 0 for no limit.
    pub window: usize,
    /// The window with which its server runs the model, if that is smaller than the configured one.
    pub served: Option<ContextWindow>,
    /// Messages of the conversation that are sent verbatim.
    pub messages: usize,
    /// Messages of the session that are no longer sent.
    pub summarised: u64,
    /// Those of them that wait for consent to be summarised.
    pub waiting: u64,
}

impl ContextReport {
    /// Returns the estimated number of tokens of the next request, without the message that
    /// triggers it.
    #[must_use]
    pub fn total(&self) -> usize {
        self.parts.iter().map(|part| part.tokens).sum()
    }
}

impl fmt::Display for ContextReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        match self.budget {
            0 => writeln!(f, "Context of {}: about {total} tokens", self.model)?,
            budget => writeln!(
                f,
                "Context of {}: about {total} of {budget} tokens ({} %), in a window of {}",
                self.model,
                total * 100 / budget,
                self.window
            )?,
        }
        for part in &self.parts {
            writeln!(f, "- {}: {}", part.name, part.tokens)?;
        }
        if self.budget > 0 && total > self.budget {
            writeln!(
                f,
                "It does not fit: old results and turns stay out of the next request until they are summarised."
            )?;
        }
        if let Some(served) = self.served {
            writeln!(
                f,
                "The server runs the model with this window. {}",
                served.advice
            )?;
        }
        match (self.summarised, self.waiting) {
            (0, _) => write!(f, "No older messages were dropped yet."),
            (count, 0) => write!(
                f,
                "{count} older messages are no longer sent; memory/HISTORY.md has what they were about."
            ),
            (count, waiting) => write!(
                f,
                "{count} older messages are no longer sent. {waiting} of them are not summarised; /summarize does that. \
                 memory/HISTORY.md has what the others were about."
            ),
        }
    }
}

impl Agent {
    /// Returns the contents of the next request of a session, in tokens as its model counts them.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the session could not be read.
    pub async fn context_report(&self, session: &SessionKey) -> Result<ContextReport, AgentError> {
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        let preferred = self.preferred_model(&view.metadata);
        let served = self.served_window(session, &preferred).await;
        let (sections, (specs, tools)) = self.prompt_size(session, &view).await;
        let messages = replay(&view).transcript.into_messages();
        let conversation: usize = messages
            .iter()
            .map(|message| estimate_message(message))
            .sum();
        let model = self.consolidator.model();
        let calibrator = self.consolidator.calibrator();
        let others = [
            (format!("tools ({specs})"), tools),
            (format!("messages ({})", messages.len()), conversation),
        ];
        let parts = sections.into_iter().chain(others);
        let parts = parts.map(|(name, tokens)| ContextPart {
            name,
            tokens: calibrator.calibrated(&model, session, tokens),
        });
        Ok(ContextReport {
            parts: parts.collect(),
            budget: self.consolidator.token_budget(session),
            window: self.consolidator.window(session),
            served: served.filter(|served| {
                let configured = self.consolidator.settings().window;
                let tokens = budget::tokens_of(Some(*served));
                configured == 0 || tokens < configured
            }),
            messages: messages.len(),
            summarised: view.cursor.0,
            waiting: messages_waiting(&view),
            model,
        })
    }

    /// Returns the estimated tokens of each section of a session's prompt, and the number and tokens
    /// of its tools.
    pub(super) async fn prompt_size(
        &self,
        session: &SessionKey,
        view: &SessionView,
    ) -> (Vec<(String, usize)>, (usize, usize)) {
        self.consolidator.calibrator().load().await;
        let log_facts = LogFacts::of(view, &chrono::Local::now().fixed_offset());
        let audience = self.audience(session).await;
        let facts = SessionFacts {
            summary: last_summary(view),
            audience: Some(&audience),
            profile: self.profile(session),
            ..log_facts.for_context()
        };
        let prompt = self.fitting_epoch(session, facts).await.prompt;
        let sections = prompt
            .texts()
            .map(|(name, text)| (name.to_owned(), estimate_tokens(text)))
            .collect();
        let tools = self.tools_of(&prompt);
        (sections, (tools.len(), estimate_tools(&tools)))
    }
}
