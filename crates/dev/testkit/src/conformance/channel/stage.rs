//! The assistant's side of the contract, as played by the suite.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, ChatId, ChatKind, InboundMessage, Intake, Liveness,
    MediaError, MediaRef, MediaStore, MessageId, SenderId, async_trait,
};

use crate::notes::NoteBook;
use crate::sync::Watched;

/// The largest file that the suite keeps, in bytes.
pub(super) const FILE_LIMIT: u64 = 64 << 10;

/// Recorded calls of the channel and the configured answers to them.
#[derive(Debug, Default)]
pub(super) struct AssistantStub {
    pub(super) friend: Option<SenderId>,
    pub(super) strangers: Strangers,
    pub(super) room: RoomPolicy,
    /// Every access check: the sender, the chat and the arrival.
    pub(super) asked: Vec<(SenderId, ChatId, Arrival)>,
    /// Every message that was handed over, with its arrival.
    pub(super) arrived: Vec<(InboundMessage, Arrival)>,
    /// Answers to messages, used in order, unless the suite plays a ledger.
    pub(super) answers: VecDeque<Admission>,
    /// The ledger, if the suite plays one.
    pub(super) ledger: Option<Ledger>,
    /// Notes that the channel keeps across restarts.
    pub(super) notes: Arc<NoteBook>,
    pub(super) alive: usize,
    pub(super) degraded: Vec<String>,
    pub(super) kept: Vec<KeptFile>,
    /// Set while the platform is unreachable: a run that is stopped may then end with a transient
    /// error.
    pub(super) is_away: bool,
    /// Reasons of runs that ended without being stopped.
    pub(super) ends: Vec<String>,
    /// Number of these runs that ended with a conflict.
    pub(super) conflicts: usize,
    /// Set while another program receives. A run that ends with a conflict is restarted only after
    /// this is cleared.
    pub(super) is_contested: bool,
}

/// Access decision for everyone except the friend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Strangers {
    #[default]
    Denied,
    Allowed,
    Asked(String),
}

/// Selects the room messages that are for the assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RoomPolicy {
    #[default]
    Open,
    AddressedOnly,
}

/// A ledger of durable messages.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    known: BTreeSet<MessageId>,
    pub(super) messages: Vec<InboundMessage>,
    pub(super) repeated: usize,
}

impl Ledger {
    pub(super) fn take(&mut self, message: &InboundMessage) -> Admission {
        if message
            .journal_id()
            .is_some_and(|id| !self.known.insert(id))
        {
            self.repeated += 1;
            return Admission::Duplicate;
        }
        self.messages.push(message.clone());
        Admission::Accepted
    }

    pub(super) fn texts(&self) -> Vec<&str> {
        self.messages
            .iter()
            .map(|message| message.content.as_str())
            .collect()
    }

    /// Returns `true` if a message contains the text.
    pub(super) fn holds(&self, text: &str) -> bool {
        self.messages
            .iter()
            .any(|message| message.content.contains(text))
    }
}

/// A file that the channel stored.
#[derive(Clone, Debug)]
pub(super) struct KeptFile {
    pub(super) location: String,
    pub(super) bytes: Vec<u8>,
}

impl AssistantStub {
    fn decide(&self, sender: &SenderId, arrival: &Arrival) -> AccessDecision {
        if self.friend.as_ref() != Some(sender) {
            return match &self.strangers {
                Strangers::Denied => AccessDecision::Denied,
                Strangers::Allowed => AccessDecision::Allowed,
                Strangers::Asked(text) => AccessDecision::Ask(text.clone()),
            };
        }
        let is_meant =
            arrival.addressed || arrival.kind == ChatKind::Direct || self.room == RoomPolicy::Open;
        if is_meant {
            AccessDecision::Allowed
        } else {
            AccessDecision::Denied
        }
    }
}

/// Implementation of the traits that the channel is given.
pub(super) struct Played {
    pub(super) stage: Watched<AssistantStub>,
}

#[async_trait]
impl Access for Played {
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision {
        self.stage.change(|stage| {
            stage
                .asked
                .push((sender.clone(), chat.clone(), arrival.clone()));
            stage.decide(sender, arrival)
        })
    }
}

#[async_trait]
impl Intake for Played {
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission {
        if self
            .stage
            .read(|stage| stage.decide(&message.sender_id, arrival))
            != AccessDecision::Allowed
        {
            return Admission::NotAllowed;
        }
        let noted = self.stage.change(|stage| {
            let admission = stage.ledger.as_mut().map(|ledger| ledger.take(&message));
            stage.arrived.push((message, arrival.clone()));
            admission
        });
        if let Some(admission) = noted {
            return admission;
        }
        let what = "the suite's answer";
        if self
            .stage
            .wait_for(what, |stage| (!stage.answers.is_empty()).then_some(()))
            .await
            .is_err()
        {
            return Admission::ShuttingDown;
        }
        self.stage
            .change(|stage| stage.answers.pop_front())
            .unwrap_or(Admission::ShuttingDown)
    }
}

impl Liveness for Played {
    fn alive(&self) {
        self.stage.change(|stage| stage.alive += 1);
    }

    fn degraded(&self, why: &str) {
        self.stage
            .change(|stage| stage.degraded.push(why.to_owned()));
    }

    /// Counts as a sign of life: the channel still receives, and the suite uses nothing that could
    /// be impaired.
    fn impaired(&self, _why: &str) {
        self.alive();
    }
}

#[async_trait]
impl MediaStore for Played {
    fn limit(&self) -> u64 {
        FILE_LIMIT
    }

    async fn store(
        &self,
        _id: &str,
        _name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError> {
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(MediaError::TooLarge { limit: FILE_LIMIT });
        }
        let location = self.stage.change(|stage| {
            let location = format!("/kept/{}", stage.kept.len() + 1);
            stage.kept.push(KeptFile {
                location: location.clone(),
                bytes: bytes.to_vec(),
            });
            location
        });
        Ok(MediaRef {
            location,
            mime: mime.map(str::to_owned),
        })
    }
}
