//! The assistant's side of a channel, played by a test.
//!
//! Decision: a test says beforehand what differs from an assistant that lets everybody but strangers
//! in and accepts every message, and waits for what the channel tells it. The conformance suite plays
//! a side of its own, which keeps a ledger.

mod run;

use std::collections::VecDeque;
use std::sync::Arc;

use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, ChatId, InboundMessage, Intake, MediaError,
    MediaRef, MediaStore, Progress, SenderId, TranscribeError, Transcriber, async_trait,
};

use crate::TestkitError;
use crate::notes::NoteBook;
use crate::sync::Watched;

pub use run::ChannelRun;

/// The largest file that is kept, in bytes.
const FILE_LIMIT: u64 = 1000;

/// What a channel told the assistant, each in order.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Everybody who was asked about, where they wrote, and how that came.
    pub asked: Vec<(SenderId, ChatId, Arrival)>,
    /// Every message that was handed over, and how it came.
    pub arrived: Vec<(InboundMessage, Arrival)>,
    /// Every file that was kept.
    pub kept: Vec<KeptFile>,
    /// Every recording that was to be understood.
    pub recordings: Vec<MediaRef>,
    /// How many signs of life the channel gave.
    pub alive: usize,
    /// Why the channel did not work fully.
    pub degraded: Vec<String>,
    /// Reasons given with `impaired` signs of life.
    pub impaired: Vec<String>,
}

/// A file that a channel kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// The platform's id of it.
    pub id: String,
    /// What its sender called it.
    pub name: String,
    /// What the channel took it for.
    pub mime: Option<String>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What happened, and what is still to be said.
#[derive(Debug, Default)]
struct Scene {
    seen: Seen,
    admissions: VecDeque<Admission>,
    strangers_are_asked: Option<String>,
    words: VecDeque<String>,
    is_held: bool,
}

/// All that [`ChannelContext`](nanobot_channel::ChannelContext) asks of an assistant. It accepts every
/// message, keeps files of up to 1,000 bytes at `/media/<name>`, and understands no recording, unless
/// told otherwise.
#[derive(Debug)]
pub struct Assistant {
    strangers: String,
    notes: Arc<NoteBook>,
    scene: Watched<Scene>,
}

impl Assistant {
    /// An assistant that lets nobody in whose id begins with `strangers`.
    #[must_use]
    pub fn new(strangers: impl Into<String>) -> Self {
        Self {
            strangers: strangers.into(),
            notes: Arc::default(),
            scene: Watched::default(),
        }
    }

    /// What becomes of the next messages.
    pub fn will_answer(&self, admissions: impl IntoIterator<Item = Admission>) {
        self.scene
            .change(|scene| scene.admissions.extend(admissions));
    }

    /// Strangers are to read this text.
    pub fn will_ask_strangers(&self, text: &str) {
        self.scene
            .change(|scene| scene.strangers_are_asked = Some(text.to_owned()));
    }

    /// The next recording without words says this; those after it cannot be understood.
    pub fn will_hear(&self, words: &str) {
        self.scene
            .change(|scene| scene.words.push_back(words.to_owned()));
    }

    /// Whether messages have to wait for their answer.
    pub fn hold(&self, is_held: bool) {
        self.scene.change(|scene| scene.is_held = is_held);
    }

    /// What its channel keeps over restarts.
    #[must_use]
    pub fn notes(&self) -> &Arc<NoteBook> {
        &self.notes
    }

    /// What the channel told so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.scene.read(|scene| scene.seen.clone())
    }

    /// Waits until the channel told what `probe` looks for, and returns all that it told.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`] naming `what`, and what was seen instead.
    pub async fn wait_until(
        &self,
        what: &str,
        mut probe: impl FnMut(&Seen) -> bool,
    ) -> Result<Seen, TestkitError> {
        self.wait_for(what, |seen| probe(seen).then(|| seen.clone()))
            .await
    }

    /// Waits until so many messages were handed over, and returns the last of them.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`] with what was seen instead.
    pub async fn message(&self, count: usize) -> Result<InboundMessage, TestkitError> {
        let last = |seen: &Seen| {
            seen.arrived
                .get(count.checked_sub(1)?)
                .map(|(message, _)| message.clone())
        };
        self.wait_for(&format!("{count} messages"), last).await
    }

    async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&Seen) -> Option<R>,
    ) -> Result<R, TestkitError> {
        match self.scene.wait_for(what, |scene| probe(&scene.seen)).await {
            Err(TestkitError::TimedOut { what, limit }) => Err(TestkitError::TimedOut {
                what: format!("{what}, but saw {:#?}", self.seen()),
                limit,
            }),
            outcome => outcome,
        }
    }
}

#[async_trait]
impl Access for Assistant {
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision {
        self.scene.change(|scene| {
            scene
                .seen
                .asked
                .push((sender.clone(), chat.clone(), arrival.clone()));
            if !sender.as_str().starts_with(&self.strangers) {
                return AccessDecision::Allowed;
            }
            scene
                .strangers_are_asked
                .clone()
                .map_or(AccessDecision::Denied, AccessDecision::Ask)
        })
    }
}

#[async_trait]
impl Intake for Assistant {
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission {
        let answer = self.scene.change(|scene| {
            scene.seen.arrived.push((message, arrival.clone()));
            scene.admissions.pop_front().unwrap_or(Admission::Accepted)
        });
        let released = self
            .scene
            .wait_for("an answer", |scene| (!scene.is_held).then_some(()))
            .await;
        released.map_or(Admission::ShuttingDown, |()| answer)
    }
}

impl Progress for Assistant {
    fn alive(&self) {
        self.scene.change(|scene| scene.seen.alive += 1);
    }

    fn degraded(&self, why: &str) {
        self.scene
            .change(|scene| scene.seen.degraded.push(why.to_owned()));
    }

    fn impaired(&self, why: &str) {
        self.scene.change(|scene| {
            scene.seen.alive += 1;
            scene.seen.impaired.push(why.to_owned());
        });
    }
}

#[async_trait]
impl MediaStore for Assistant {
    fn limit(&self) -> u64 {
        FILE_LIMIT
    }

    async fn keep(
        &self,
        id: &str,
        name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError> {
        let mime = mime.map(str::to_owned);
        let file = KeptFile {
            id: id.to_owned(),
            name: name.to_owned(),
            mime: mime.clone(),
            bytes: bytes.to_vec(),
        };
        self.scene.change(|scene| scene.seen.kept.push(file));
        Ok(MediaRef {
            location: format!("/media/{name}"),
            mime,
        })
    }
}

#[async_trait]
impl Transcriber for Assistant {
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError> {
        let words = self.scene.change(|scene| {
            scene.seen.recordings.push(recording.clone());
            scene.words.pop_front()
        });
        words.ok_or_else(|| TranscribeError::Failed("nothing can be understood".to_owned()))
    }
}
