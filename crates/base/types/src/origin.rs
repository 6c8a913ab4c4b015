//! Origins of messages and sessions, the delivery wish of messages that no person wrote, and the
//! heading of a job's result.
//!
//! Decision: the keys and values by which origins are recognised are written and read here only.
//! They are stored in ledgers and session files, so they never change.

use serde::{Deserialize, Serialize};

use crate::{InboundMessage, JobId, Map, SessionKey, TERMINAL_CHANNEL, Timestamp};

/// Origin of an inbound message: a person, or the assistant itself.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A person on a channel.
    #[default]
    User,
    /// A scheduled job that came due.
    Cron {
        /// The job.
        job: JobId,
    },
    /// The periodic check of `HEARTBEAT.md`.
    Heartbeat,
    /// A subagent that finished.
    Subagent {
        /// The id of the subagent.
        id: String,
    },
}

/// Key of the session that works on the tasks of `HEARTBEAT.md`.
pub const HEARTBEAT_SESSION: &str = "heartbeat";
/// Prefix of the sessions of jobs.
const JOBS: &str = "cron:";
/// Prefix of the sessions of subagents.
const SUBAGENTS: &str = "subagent:";

/// Kind of a session, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKind {
    /// A conversation with people.
    Chat,
    /// The runs of a scheduled job.
    Job,
    /// The work on the tasks of `HEARTBEAT.md`.
    Heartbeat,
    /// The work of a subagent.
    Subagent,
}

impl SessionKey {
    /// Returns the key of a job's session.
    #[must_use]
    pub fn of_job(job: &JobId) -> Self {
        Self::from(format!("{JOBS}{job}"))
    }

    /// Returns the key of a subagent's session.
    #[must_use]
    pub fn of_subagent(id: &str) -> Self {
        Self::from(format!("{SUBAGENTS}{id}"))
    }

    /// Returns the key of the heartbeat's session.
    #[must_use]
    pub fn of_heartbeat() -> Self {
        Self::from(HEARTBEAT_SESSION)
    }

    /// Returns the kind of session that has this key.
    #[must_use]
    pub fn kind(&self) -> SessionKind {
        match self.as_str() {
            HEARTBEAT_SESSION => SessionKind::Heartbeat,
            key if key.starts_with(JOBS) => SessionKind::Job,
            key if key.starts_with(SUBAGENTS) => SessionKind::Subagent,
            _ => SessionKind::Chat,
        }
    }
}

/// Delivery wish of a message: `Silent` if no person reads what its turn says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryWish {
    /// Replies are sent to the chat of the message.
    Send,
    /// Nothing is sent.
    Silent,
}

impl DeliveryWish {
    /// Metadata key of a job's wish. Its value is `false` for [`DeliveryWish::Silent`].
    const KEY: &str = "deliver";

    /// Returns the wish of a message. A job has one of its own; a heartbeat is silent if no chat
    /// was found for it, so that its address is the terminal's.
    #[must_use]
    pub fn of(message: &InboundMessage) -> Self {
        let is_silent = match message.origin {
            Origin::Cron { .. } => message
                .metadata
                .get(Self::KEY)
                .is_some_and(|deliver| deliver == false),
            Origin::User | Origin::Heartbeat | Origin::Subagent { .. } => {
                message.session_key().kind() == SessionKind::Heartbeat
                    && message.channel.as_str() == TERMINAL_CHANNEL
            }
        };
        if is_silent { Self::Silent } else { Self::Send }
    }

    /// Writes the wish of a job into the metadata of its message.
    pub fn write(self, metadata: &mut Map) {
        match self {
            Self::Send => {}
            Self::Silent => {
                metadata.insert(Self::KEY.to_owned(), false.into());
            }
        }
    }
}

/// A run of a job, for the heading of its result at a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiredJob {
    /// Display name of the job, or its id if it has none; empty if it is unknown.
    pub name: String,
    /// Time at which it fired, in the time zone of the assistant.
    pub at: Timestamp,
}

impl FiredJob {
    /// Metadata key of a run.
    const KEY: &str = "fired_job";

    /// Returns the run that a message belongs to, from the metadata of the message.
    #[must_use]
    pub fn of(metadata: &Map) -> Option<Self> {
        Self::deserialize(metadata.get(Self::KEY)?).ok()
    }

    /// Writes the run into the metadata of its message. Replies carry the same metadata.
    pub fn write(&self, metadata: &mut Map) {
        let run = serde_json::json!({"name": self.name, "at": self.at});
        metadata.insert(Self::KEY.to_owned(), run);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn origin_json_is_stable() {
        let table = [
            (Origin::User, json!({"kind": "user"})),
            (
                Origin::Cron { job: "j".into() },
                json!({"kind": "cron", "job": "j"}),
            ),
            (Origin::Heartbeat, json!({"kind": "heartbeat"})),
            (
                Origin::Subagent { id: "0".to_owned() },
                json!({"kind": "subagent", "id": "0"}),
            ),
        ];
        for (origin, spelling) in table {
            assert_eq!(serde_json::to_value(&origin).unwrap(), spelling);
        }
    }

    #[test]
    fn session_keys_are_stable_and_determine_their_kind() {
        let table = [
            (
                SessionKey::of_job(&"j1".into()),
                "cron:j1",
                SessionKind::Job,
            ),
            (
                SessionKey::of_subagent("0123"),
                "subagent:0123",
                SessionKind::Subagent,
            ),
            (
                SessionKey::of_heartbeat(),
                "heartbeat",
                SessionKind::Heartbeat,
            ),
            (
                SessionKey::of_chat(&"t".into(), &"1".into()),
                "t:1",
                SessionKind::Chat,
            ),
        ];
        for (key, spelling, kind) in table {
            assert_eq!((key.as_str(), key.kind()), (spelling, kind));
        }
    }

    #[test]
    fn only_a_job_and_a_heartbeat_without_a_chat_are_silent() {
        let mut job = InboundMessage::text("telegram", "cron", "1", "");
        job.origin = Origin::Cron { job: "j".into() };
        DeliveryWish::Send.write(&mut job.metadata);
        assert_eq!(job.metadata, Map::new());
        assert_eq!(DeliveryWish::of(&job), DeliveryWish::Send);
        DeliveryWish::Silent.write(&mut job.metadata);
        assert_eq!(json!(job.metadata), json!({"deliver": false}));
        assert_eq!(DeliveryWish::of(&job), DeliveryWish::Silent);
        // A platform cannot silence a person's message.
        job.origin = Origin::User;
        assert_eq!(DeliveryWish::of(&job), DeliveryWish::Send);

        let heartbeat = |channel: &str| InboundMessage {
            session_key_override: Some(SessionKey::of_heartbeat()),
            origin: Origin::Heartbeat,
            ..InboundMessage::text(channel, "heartbeat", "7", "")
        };
        assert_eq!(DeliveryWish::of(&heartbeat("cli")), DeliveryWish::Silent);
        assert_eq!(DeliveryWish::of(&heartbeat("telegram")), DeliveryWish::Send);
    }

    #[test]
    fn run_of_a_job_is_in_the_metadata_of_its_message() {
        let run = FiredJob {
            name: "喝水 💧".to_owned(),
            at: "2026-11-25T08:00:00+01:00".parse().unwrap(),
        };
        let mut metadata = Map::new();
        run.write(&mut metadata);
        let spelling = json!({"name": "喝水 💧", "at": "2026-11-25T08:00:00+01:00"});
        assert_eq!(metadata.get("fired_job"), Some(&spelling));
        assert_eq!(FiredJob::of(&metadata), Some(run));
        metadata.insert("fired_job".to_owned(), json!(7));
        assert_eq!(FiredJob::of(&metadata), None);
        assert_eq!(FiredJob::of(&Map::new()), None);
    }
}
