//! A task and its result as messages.
//!
//! Decision: the parameters of a task are stored in the message's metadata under one key, next to
//! the metadata of the message that the task comes from, so that its result reaches the same
//! thread. A message is a task because of its origin together with its session, which no platform
//! can set.

use nanobot_provider::{CallAccount, CallPurpose};
use nanobot_tool::ToolContext;
use nanobot_types::{
    ChannelName, ChatId, DeliveryContext, InboundMessage, Map, MessageId, Origin, SenderId,
    SessionKey, SessionKind, Timestamp, TraceId, UNTRUSTED_KEY,
};
use serde::{Deserialize, Serialize};

use super::SubagentEnd;
use crate::TurnFacts;

/// Metadata key of the parameters.
const KEY: &str = "_subagent";
/// Sender id of messages from subagents.
const SENDER: &str = "subagent";
/// Maximum length of a label, in characters.
const LABEL_LIMIT: usize = 60;
/// Number of characters of the task that serve as its label by default.
const LABEL_OF_TASK: usize = 30;

/// A task for a subagent.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentTask {
    /// Permanent id of the subagent: the same for the same call of the same turn.
    pub id: String,
    /// The session that started it.
    pub parent: SessionKey,
    /// The label shown to people.
    pub label: String,
    /// The instructions.
    pub task: String,
    /// Temperature, if it differs from the model's default.
    pub temperature: Option<f32>,
    /// `true` if the call waits for the result, so that no message has to deliver it.
    pub wait: bool,
    /// Number of consecutive tasks that were started by results of other tasks, including this one.
    pub chain: u32,
    /// The channel where the result is reported.
    pub channel: ChannelName,
    /// The chat on that channel.
    pub chat_id: ChatId,
    /// The thread in that chat.
    pub delivery: DeliveryContext,
    /// The metadata of the message that the task comes from.
    pub metadata: Map,
    /// Time when the task was created.
    pub asked_at: Timestamp,
}

/// The parameters that a message of a subagent carries in addition to its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct TaskMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<SessionKey>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    wait: bool,
    chain: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    note: bool,
}

impl TaskMetadata {
    fn of(metadata: &Map) -> Self {
        metadata
            .get(KEY)
            .and_then(|value| Self::deserialize(value).ok())
            .unwrap_or_default()
    }

    fn insert_into(&self, metadata: &Map) -> Map {
        let mut metadata = metadata.clone();
        // A struct of strings, numbers and booleans always serialises.
        metadata.insert(
            KEY.to_owned(),
            serde_json::to_value(self).unwrap_or_default(),
        );
        metadata
    }
}

impl SubagentTask {
    /// Creates the task that a tool call asks for.
    #[must_use]
    pub fn asked_by(context: &ToolContext, task: String, label: Option<&str>) -> Self {
        let label = label.map(one_line).filter(|label| !label.is_empty());
        let mut metadata = context.metadata.clone();
        let before = TaskMetadata::of(&metadata).chain;
        metadata.remove(KEY);
        // The subagent has read what its task is made of, and its result is made of both.
        if let Some(origin) = &context.untrusted {
            metadata.insert(UNTRUSTED_KEY.to_owned(), origin.as_str().into());
        }
        Self {
            id: id_of(&context.trace, context.position),
            parent: context.session.clone(),
            label: label.map_or_else(
                || shortened(&one_line(&task), LABEL_OF_TASK),
                |label| shortened(&label, LABEL_LIMIT),
            ),
            task,
            temperature: None,
            wait: false,
            chain: before.saturating_add(1),
            channel: context.channel.clone(),
            chat_id: context.chat_id.clone(),
            delivery: context.delivery.clone(),
            metadata,
            asked_at: chrono::Local::now().fixed_offset(),
        }
    }

    /// Returns the task that a message carries, if it carries one.
    #[must_use]
    pub fn of(message: &InboundMessage) -> Option<Self> {
        let Origin::Subagent { id } = &message.origin else {
            return None;
        };
        if message.session_key() != SessionKey::of_subagent(id) {
            return None;
        }
        let TaskMetadata {
            parent,
            label,
            temperature,
            wait,
            chain,
            note: _,
        } = TaskMetadata::of(&message.metadata);
        let mut metadata = message.metadata.clone();
        metadata.remove(KEY);
        Some(Self {
            id: id.clone(),
            parent: parent
                .unwrap_or_else(|| SessionKey::of_chat(&message.channel, &message.chat_id)),
            label,
            task: message.content.clone(),
            temperature,
            wait,
            chain,
            channel: message.channel.clone(),
            chat_id: message.chat_id.clone(),
            delivery: message.delivery.clone(),
            metadata,
            asked_at: message.timestamp,
        })
    }

    /// Returns the session in which the task runs.
    #[must_use]
    pub fn session(&self) -> SessionKey {
        SessionKey::of_subagent(&self.id)
    }

    /// Returns the message that carries the task. It is the same on every call.
    #[must_use]
    pub fn message(&self) -> InboundMessage {
        let circumstances = TaskMetadata {
            parent: Some(self.parent.clone()),
            label: self.label.clone(),
            temperature: self.temperature,
            wait: self.wait,
            chain: self.chain,
            note: false,
        };
        InboundMessage {
            id: Some(self.message_id("task")),
            content: self.task.clone(),
            timestamp: self.asked_at,
            metadata: circumstances.insert_into(&self.metadata),
            session_key_override: Some(self.session()),
            ..self.to_parent()
        }
    }

    /// Returns the message that delivers the result to the session that started the task.
    #[must_use]
    pub fn result(&self, end: &SubagentEnd) -> InboundMessage {
        let is_note = end.was_stopped();
        let circumstances = TaskMetadata {
            chain: self.chain,
            note: is_note,
            ..TaskMetadata::default()
        };
        InboundMessage {
            id: Some(self.message_id("result")),
            content: if is_note {
                end.note(self)
            } else {
                end.report(self)
            },
            metadata: circumstances.insert_into(&self.metadata),
            ..self.to_parent()
        }
    }

    fn to_parent(&self) -> InboundMessage {
        InboundMessage {
            session_key_override: Some(self.parent.clone()),
            origin: Origin::Subagent {
                id: self.id.clone(),
            },
            delivery: self.delivery.clone(),
            ..InboundMessage::text(
                self.channel.clone(),
                SenderId::from(SENDER),
                self.chat_id.clone(),
                "",
            )
        }
    }

    fn message_id(&self, what: &str) -> MessageId {
        MessageId::from(format!("subagent-{}-{what}", self.id))
    }
}

/// Returns `true` if a subagent works in this session.
#[must_use]
pub fn is_subagent_session(session: &SessionKey) -> bool {
    session.kind() == SessionKind::Subagent
}

/// Returns the account to which the model calls of a turn are charged: a subagent's to the session
/// that started it.
pub(crate) fn account_of(facts: &TurnFacts) -> CallAccount {
    if !is_subagent_session(&facts.session) {
        return CallAccount {
            purpose: CallPurpose::Turn,
            job: job_of(&facts.session),
            session: Some(facts.session.clone()),
            is_attended: facts.origin == Origin::User,
        };
    }
    let parent = TaskMetadata::of(&facts.metadata).parent;
    let session = parent.unwrap_or_else(|| SessionKey::of_chat(&facts.channel, &facts.chat_id));
    CallAccount {
        purpose: CallPurpose::Subagent,
        job: job_of(&session),
        session: Some(session),
        is_attended: false,
    }
}

/// Returns the session if it is that of a job or of the heartbeat.
pub(crate) fn job_of(session: &SessionKey) -> Option<SessionKey> {
    matches!(session.kind(), SessionKind::Job | SessionKind::Heartbeat).then(|| session.clone())
}

/// Returns the id of the subagent whose result a message delivers.
pub(crate) fn reported_by(message: &InboundMessage) -> Option<&str> {
    match &message.origin {
        Origin::Subagent { id } if message.session_key() != SessionKey::of_subagent(id) => Some(id),
        _ => None,
    }
}

/// Returns `true` if a message is only a note: it is recorded, and no model is called.
pub(crate) fn is_note(message: &InboundMessage) -> bool {
    reported_by(message).is_some() && TaskMetadata::of(&message.metadata).note
}

/// Computes FNV-1a over the turn and the position of the call, folded to 48 bits: short enough to
/// be typed, and stable across programs and versions.
fn id_of(turn: &TraceId, position: u32) -> String {
    let hash = format!("{turn}/{position}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{:012x}", (hash ^ (hash >> 48)) & 0xffff_ffff_ffff)
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .collect();
    words
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the first `limit` characters of a text, followed by `...` if it is longer.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nanobot_session::TurnOutcome;
    use serde_json::json;

    use super::*;

    fn context() -> ToolContext {
        let mut context = ToolContext::detached("telegram:-100:topic:7");
        context.trace = "telegram/-100/9".into();
        context.position = 2;
        context.channel = "telegram".into();
        context.chat_id = "-100".into();
        context.delivery.thread = Some("7".to_owned());
        context.metadata.insert("message_id".to_owned(), json!("9"));
        context
    }

    #[test]
    fn task_round_trips_through_its_message() {
        let mut task = SubagentTask::asked_by(&context(), "look\nit up".to_owned(), None);
        task.temperature = Some(0.5);
        task.wait = true;
        let message = task.message();
        assert_eq!(SubagentTask::of(&message).as_ref(), Some(&task));
        assert_eq!(
            message.session_key().as_str(),
            format!("subagent:{}", task.id)
        );
        assert_eq!(message, task.message(), "the same whenever it is made");
        assert_eq!(reported_by(&message), None);
    }

    #[test]
    fn result_is_addressed_to_the_session_and_thread_of_the_call() {
        let task =
            SubagentTask::asked_by(&context(), "look it up".to_owned(), Some(" My \n label "));
        let end = SubagentEnd {
            outcome: TurnOutcome::Replied,
            text: Some("42".to_owned()),
        };
        let result = task.result(&end);
        assert_eq!(task.label, "My label");
        assert_eq!(
            result.session_key(),
            SessionKey::from("telegram:-100:topic:7")
        );
        assert_eq!(
            (result.channel.as_str(), result.chat_id.as_str()),
            ("telegram", "-100")
        );
        assert_eq!(result.delivery.thread.as_deref(), Some("7"));
        assert_eq!(result.metadata.get("message_id"), Some(&json!("9")));
        assert_eq!(reported_by(&result), Some(task.id.as_str()));
        assert!(SubagentTask::of(&result).is_none() && !is_note(&result));
        assert!(is_note(&task.result(&SubagentEnd {
            outcome: TurnOutcome::Stopped,
            text: None
        })));
    }

    #[test]
    fn counts_tasks_started_from_results() {
        let first = SubagentTask::asked_by(&context(), "one".to_owned(), None);
        let end = SubagentEnd {
            outcome: TurnOutcome::Replied,
            text: None,
        };
        let second = ToolContext {
            metadata: first.result(&end).metadata,
            ..context()
        };
        assert_eq!(
            (
                first.chain,
                SubagentTask::asked_by(&second, "two".to_owned(), None).chain
            ),
            (1, 2)
        );
    }

    #[test]
    fn user_message_cannot_forge_a_task() {
        let task = SubagentTask::asked_by(&context(), "rm".to_owned(), None);
        let mut message = task.message();
        message.origin = Origin::User;
        assert!(SubagentTask::of(&message).is_none());
    }

    #[test]
    fn ids_are_deterministic_and_labels_short() {
        let id = |turn: &str, position| id_of(&turn.into(), position);
        assert_eq!(id("telegram/1/2", 3), id("telegram/1/2", 3));
        assert_ne!(id("telegram/1/2", 3), id("telegram/1/2", 4));
        assert_eq!(id("telegram/1/2", 3).len(), 12);
        let task = SubagentTask::asked_by(&context(), "界".repeat(31), None);
        assert_eq!(task.label, format!("{}...", "界".repeat(30)));
    }
}
