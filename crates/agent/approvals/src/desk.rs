//! Asks about calls and receives the answers.

mod answering;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use nanobot_redact::Secrets;
use nanobot_tool::CallReview;
use nanobot_types::{ChatAddress, SenderId, SessionKey, ToolCall, TraceId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::book::MAX_QUESTIONS;
use crate::policy::{ApprovalSettings, Decision};
use crate::question::{self, CallBinding, OpenQuestion, QuestionState};
use crate::store::{ApprovalError, ApprovalStore};

/// Least time for an answer after a restart.
const AFTER_RESTART: Duration = Duration::from_secs(60);

/// Shows questions to people.
#[async_trait]
pub trait Asker: Send + Sync + fmt::Debug {
    /// Shows a question. It reaches the chat, also after a crash, when this returns `Ok`. The same
    /// question is shown once, however often this is called with it.
    ///
    /// # Errors
    /// Returns the reason why no person can be asked, as the end of "nobody can be asked: …".
    async fn show(&self, question: &OpenQuestion) -> Result<(), String>;
}

/// Records what became of questions.
#[async_trait]
pub trait ApprovalWatch: Send + Sync + fmt::Debug {
    /// Records that a question was settled: `by` a person, or without an answer.
    async fn settled(&self, question: &OpenQuestion, outcome: &str, by: Option<&SenderId>);
}

/// Finds private texts, such as what the assistant remembers.
pub trait PrivateTexts: Send + Sync + fmt::Debug {
    /// Returns the name of the private text that `text` repeats a part of, in any usual encoding.
    /// May block for disk I/O.
    fn found_in(&self, text: &str) -> Option<String>;
}

/// A call that needs the permission of a person.
#[derive(Clone, Copy)]
pub struct PermissionRequest<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// The tool's description of its effect.
    pub review: &'a CallReview,
    /// The call that the permission will be bound to.
    pub binding: &'a CallBinding,
    /// Why a person is asked.
    pub reason: &'a str,
    /// Session of the turn.
    pub session: &'a SessionKey,
    /// The chat and thread in which to ask.
    pub address: &'a ChatAddress,
    /// The only person who may answer; `None` if everyone who may talk in the chat may.
    pub sender: Option<&'a SenderId>,
    /// Fires when the turn ends or is interrupted.
    pub cancel: &'a CancellationToken,
}

/// The end of a request for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call may run, once.
    Granted,
    /// The call must not run. The text is for the model.
    Refused(String),
    /// The turn was cancelled while it waited. The question stays open: a resumed turn continues to
    /// wait for it.
    Interrupted,
}

/// Decides about calls, asks people, and keeps their answers.
#[derive(Debug)]
pub struct Approvals {
    settings: ApprovalSettings,
    store: ApprovalStore,
    asker: Arc<dyn Asker>,
    watch: Option<Arc<dyn ApprovalWatch>>,
    private: Option<Arc<dyn PrivateTexts>>,
    secrets: Secrets,
    /// Changes with every answer.
    answers: watch::Sender<u64>,
}

impl Approvals {
    /// Creates the approvals of an assistant, whose questions `asker` shows.
    #[must_use]
    pub fn new(settings: ApprovalSettings, store: ApprovalStore, asker: Arc<dyn Asker>) -> Self {
        Self {
            settings,
            store,
            asker,
            watch: None,
            private: None,
            secrets: Secrets::default(),
            answers: watch::Sender::new(0),
        }
    }

    /// Reports what becomes of questions to `watch`.
    #[must_use]
    pub fn watched(self, watch: Arc<dyn ApprovalWatch>) -> Self {
        Self {
            watch: Some(watch),
            ..self
        }
    }

    /// Redacts these secrets in questions.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Returns `true` if calls of a tool have to be [decided](Approvals::decide): all others run.
    #[must_use]
    pub fn concerns(&self, tool: &str, untrusted: Option<&str>) -> bool {
        self.settings.concerns(tool, untrusted)
    }

    /// Returns `true` if the operator wants no questions about a tool.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.settings.allows(tool)
    }

    /// Refuses to send these texts anywhere in a turn that read what strangers wrote.
    #[must_use]
    pub fn guarding(self, private: Arc<dyn PrivateTexts>) -> Self {
        Self {
            private: Some(private),
            ..self
        }
    }

    /// Decides about a call before anyone is asked. See [`ApprovalSettings::decide`]. In a turn that
    /// read what strangers wrote, a call that would send a private text away is refused.
    pub async fn decide(
        &self,
        call: &ToolCall,
        review: &CallReview,
        untrusted: Option<&str>,
    ) -> Decision {
        let decision = self.settings.decide(call.name.as_str(), review, untrusted);
        let (Some(origin), Some(destination)) = (untrusted, &review.destination) else {
            return decision;
        };
        if matches!(decision, Decision::Deny(_)) {
            return decision;
        }
        match self.private_text_in(call).await {
            None => decision,
            Some(name) => Decision::Deny(format!(
                "Error: refused, because this turn has read text that strangers may have written ({origin}), and \
                 this call would send a part of {name} to {destination}."
            )),
        }
    }

    async fn private_text_in(&self, call: &ToolCall) -> Option<String> {
        let private = self.private.clone()?;
        // The arguments as the tool reads them: JSON escapes hide nothing.
        let arguments = call.parsed_arguments().unwrap_or_default();
        let mut texts = vec![call.arguments.clone()];
        collect_texts(&serde_json::Value::Object(arguments), &mut texts);
        let search = move || texts.iter().find_map(|text| private.found_in(text));
        match tokio::task::spawn_blocking(search).await {
            Ok(found) => found,
            Err(_) => Some("private texts (they could not be read)".to_owned()),
        }
    }

    /// Asks whether a call may run, unless a standing permission covers it, and waits for the
    /// answer, at most for the configured time. A call that [began](Approvals::begin) before a crash
    /// keeps its permission; the caller must not ask again for one that is unsafe to repeat.
    pub async fn permission(&self, request: PermissionRequest<'_>) -> Outcome {
        match self.ask(request).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, "a question could not be kept");
                Outcome::Refused(format!(
                    "Error: this call needs the user's permission, and the question could not be kept: {}",
                    nanobot_types::chain(error)
                ))
            }
        }
    }

    async fn ask(&self, request: PermissionRequest<'_>) -> Result<Outcome, ApprovalError> {
        let mut answers = self.answers.subscribe();
        if self.is_covered(&request).await? {
            return Ok(Outcome::Granted);
        }
        let question = self.open(&request).await?;
        if question.state == QuestionState::Asked
            && let Err(why) = self.asker.show(&question).await
        {
            self.close(request.binding).await?;
            self.settled(&question, "nobody can be asked", None).await;
            return Ok(Outcome::Refused(format!(
                "Error: this call needs the user's permission, and nobody can be asked: {why}. {}",
                request.reason
            )));
        }
        loop {
            if let Some(outcome) = self.outcome(request.binding).await? {
                return Ok(outcome);
            }
            let rest = (question.expires_at - Utc::now())
                .to_std()
                .unwrap_or_default();
            tokio::select! {
                biased;
                () = request.cancel.cancelled() => return Ok(Outcome::Interrupted),
                changed = answers.changed() => if changed.is_err() {
                    return Ok(Outcome::Interrupted);
                },
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// `true` if a standing permission covers the call.
    async fn is_covered(&self, request: &PermissionRequest<'_>) -> Result<bool, ApprovalError> {
        let Some(rule) = request.review.rule.clone() else {
            return Ok(false);
        };
        let address = request.address.clone();
        let tool = request.call.name.clone();
        self.with_store(move |store| {
            let book = store.read()?;
            Ok(book.covers(&address, &tool, &rule))
        })
        .await
    }

    /// Returns the question about a call: the one that a restart interrupted, or a new one.
    async fn open(&self, request: &PermissionRequest<'_>) -> Result<OpenQuestion, ApprovalError> {
        let now = Utc::now();
        let timeout = self.settings.timeout();
        let text = question::text(request.call, request.review, request.reason, timeout);
        let expires = now + chrono::TimeDelta::from_std(timeout).unwrap_or_default();
        let question = OpenQuestion {
            code: OpenQuestion::new_code(),
            session: request.session.clone(),
            trace: request.binding.trace.clone(),
            position: request.binding.position,
            digest: request.binding.digest.clone(),
            address: request.address.clone(),
            sender: request.sender.cloned(),
            tool: request.call.name.clone(),
            rule: request.review.rule.clone(),
            text: self.secrets.redact(&text).into_owned(),
            asked_at: now,
            expires_at: expires,
            state: QuestionState::Asked,
        };
        let binding = request.binding.clone();
        self.with_store(move |store| {
            store.edit(|book| {
                book.remove_old(now);
                if let Some(open) = book.find(&binding) {
                    open.extend(now, AFTER_RESTART);
                    return Ok(open.clone());
                }
                book.close(&binding);
                if book.questions.len() >= MAX_QUESTIONS {
                    return Err(ApprovalError::Full);
                }
                book.questions.push(question.clone());
                Ok(question)
            })?
        })
        .await
    }

    /// Returns the outcome of a question; `None` while it is open.
    async fn outcome(&self, binding: &CallBinding) -> Result<Option<Outcome>, ApprovalError> {
        let binding = binding.clone();
        let found = self.with_store(move |store| {
            store.edit(|book| {
                let question = book.find(&binding).cloned();
                let is_over = question.as_ref().is_some_and(|question| {
                    question.state == QuestionState::Refused
                        || (question.state == QuestionState::Asked
                            && question.expires_at <= Utc::now())
                });
                if is_over {
                    book.close(&binding);
                }
                question
            })
        });
        let Some(question) = found.await? else {
            return Ok(Some(Outcome::Refused(
                "Error: the question to the user was withdrawn.".to_owned(),
            )));
        };
        Ok(match question.state {
            // A call that a crash interrupted runs again only if that is safe.
            QuestionState::Granted | QuestionState::Begun => Some(Outcome::Granted),
            QuestionState::Refused => Some(Outcome::Refused(
                "Error: the user refused this call. Do not try the same in another way; ask what they want instead."
                    .to_owned(),
            )),
            QuestionState::Asked if question.expires_at <= Utc::now() => {
                self.settled(&question, "no answer", None).await;
                Some(Outcome::Refused(
                    "Error: the user did not answer in time, so this call was refused. Say what you wanted to do; \
                     do not repeat the call in this turn."
                        .to_owned(),
                ))
            }
            QuestionState::Asked => None,
        })
    }

    /// Records that a permitted call begins. From now on the permission is used up.
    ///
    /// # Errors
    /// Returns the error of the file; the call must not run then.
    pub async fn begin(&self, binding: &CallBinding) -> Result<(), ApprovalError> {
        let binding = binding.clone();
        self.with_store(move |store| {
            if !store.exists() {
                return Ok(());
            }
            store.edit(|book| {
                if let Some(question) = book.find(&binding) {
                    question.state = QuestionState::Begun;
                }
            })
        })
        .await
    }

    /// Returns how far the question about a call is that a crash interrupted; `None` if nothing was
    /// asked about it, or if that cannot be read.
    pub async fn interrupted(&self, trace: &TraceId, position: u32) -> Option<QuestionState> {
        let trace = trace.clone();
        let read = self.with_store(move |store| {
            let questions = store.questions()?;
            let found = questions
                .into_iter()
                .find(|question| question.trace == trace && question.position == position);
            Ok(found.map(|question| question.state))
        });
        match read.await {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(%error, "the questions of an interrupted turn cannot be read");
                None
            }
        }
    }

    /// Forgets the questions of a turn that ended.
    pub async fn turn_ended(&self, trace: &TraceId) {
        let trace = trace.clone();
        let forgotten = self.with_store(move |store| {
            if !store.exists() || store.questions()?.is_empty() {
                return Ok(());
            }
            store.edit(|book| book.questions.retain(|question| question.trace != trace))
        });
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "the questions of a turn could not be removed");
        }
    }

    async fn close(&self, binding: &CallBinding) -> Result<(), ApprovalError> {
        let binding = binding.clone();
        self.with_store(move |store| store.edit(|book| book.close(&binding)))
            .await
    }

    async fn settled(&self, question: &OpenQuestion, outcome: &str, by: Option<&SenderId>) {
        tracing::info!(tool = %question.tool, session = %question.session, outcome, "a question about a call was settled");
        if let Some(watch) = &self.watch {
            watch.settled(question, outcome, by).await;
        }
    }

    /// Uses the store off the runtime, because it blocks.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ApprovalStore) -> Result<T, ApprovalError> + Send + 'static,
    ) -> Result<T, ApprovalError> {
        let store = self.store.clone();
        let path = store.path().to_owned();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(error) => Err(ApprovalError::Io {
                path,
                source: std::io::Error::other(error),
            }),
        }
    }
}

/// Collects all strings of a value.
fn collect_texts(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| collect_texts(item, texts));
        }
        serde_json::Value::Object(members) => {
            members.values().for_each(|item| collect_texts(item, texts));
        }
        _ => {}
    }
}

impl fmt::Debug for PermissionRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionRequest")
            .field("binding", self.binding)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
