//! What a session's next request will hold, for `/context`.

use std::fmt;

use nanobot_context::{SessionFacts, estimate_message, estimate_tokens, estimate_tools};
use nanobot_session::{ReadFrom, SessionView, replay};
use nanobot_types::{ModelId, SessionKey};

use super::{Agent, LogFacts};
use crate::AgentError;
use crate::consolidation::last_summary;

/// A part of a request and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPart {
    /// What it is: a section of the prompt, the tools, or the conversation.
    pub name: String,
    /// About how many tokens it takes.
    pub tokens: usize,
}

/// What a session's next request will hold. The parts add up to the total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextReport {
    /// The model that is asked first.
    pub model: ModelId,
    /// Sections of the prompt, the tools, the conversation, in the order in which they are sent.
    pub parts: Vec<ContextPart>,
    /// Tokens that a request may take; 0 for no limit.
    pub budget: usize,
    /// Tokens of the model's window; 0 when it is not limited.
    pub window: usize,
    /// Messages of the conversation that are sent as they were said.
    pub messages: usize,
    /// Messages of the session that are no longer sent.
    pub summarised: u64,
}

impl ContextReport {
    /// About how many tokens the next request takes, without what is said next.
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
        match self.summarised {
            0 => write!(f, "Nothing was left behind yet."),
            count => {
                write!(
                    f,
                    "{count} older messages are no longer sent; memory/HISTORY.md has what they were about."
                )
            }
        }
    }
}

impl Agent {
    /// What the next request of a session will hold, part by part, as its model counts.
    ///
    /// # Errors
    /// [`AgentError::Session`].
    pub async fn context_report(&self, session: &SessionKey) -> Result<ContextReport, AgentError> {
        let view = self.sessions.read(session, ReadFrom::Cursor).await?;
        let (sections, tools) = self.prompt_size(session, &view).await;
        let messages = replay(&view).transcript.into_messages();
        let conversation: usize = messages
            .iter()
            .map(|message| estimate_message(message))
            .sum();
        let specs = self.engine.registry().specs().len();
        let settings = self.consolidator.settings();
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
            budget: settings.budget(),
            window: settings.window,
            messages: messages.len(),
            summarised: view.cursor.0,
            model,
        })
    }

    /// The sections of a session's prompt and its tools with their tokens, as they are estimated.
    pub(super) async fn prompt_size(
        &self,
        session: &SessionKey,
        view: &SessionView,
    ) -> (Vec<(String, usize)>, usize) {
        self.consolidator.calibrator().load().await;
        let said = LogFacts::of(view, &chrono::Local::now().fixed_offset());
        let audience = self.audience(session).await;
        let facts = SessionFacts {
            summary: last_summary(view),
            audience: Some(&audience),
            ..said.for_context()
        };
        let prompt = self.context.epoch(session, facts).await.prompt;
        let sections = prompt
            .texts()
            .map(|(name, text)| (name.to_owned(), estimate_tokens(text)))
            .collect();
        (sections, estimate_tools(&self.engine.registry().specs()))
    }
}
