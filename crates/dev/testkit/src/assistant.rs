//! A scripted assistant side for tests of a single channel.
//!
//! By default it admits everyone except strangers and accepts every message; a test scripts the
//! differences beforehand and then waits for what the channel reports. The conformance suite has an
//! assistant side of its own, which keeps a ledger.

mod run;

use std::collections::VecDeque;
use std::sync::Arc;

use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, ChatId, InboundMessage, Intake, Liveness,
    MediaError, MediaRef, MediaStore, SenderId, TranscribeError, Transcriber, async_trait,
};

use crate::TestkitError;
use crate::notes::NoteBook;
use crate::sync::Watched;

pub use run::ChannelRun;

/// Maximum size of a file that is kept, in bytes.
const FILE_LIMIT: u64 = 1000;

/// Calls that a channel made to the assistant, each kind in order.
#[derive(Clone, Debug, Default)]
pub struct AssistantCalls {
    /// Access checks: the sender, the chat, and how the message arrived.
    pub asked: Vec<(SenderId, ChatId, Arrival)>,
    /// Messages that were handed over, and how they arrived.
    pub arrived: Vec<(InboundMessage, Arrival)>,
    /// Files that were kept.
    pub kept: Vec<KeptFile>,
    /// Recordings submitted for transcription.
    pub recordings: Vec<MediaRef>,
    /// Number of heartbeats from the channel.
    pub alive: usize,
    /// Reasons the channel gave for being degraded.
    pub degraded: Vec<String>,
    /// Reasons given with `impaired` heartbeats.
    pub impaired: Vec<String>,
}

/// A file that a channel handed over to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// The platform's file id.
    pub id: String,
    /// File name given by the sender.
    pub name: String,
    /// Media type detected by the channel.
    pub mime: Option<String>,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Recorded calls and scripted responses.
#[derive(Debug, Default)]
struct Scene {
    seen: AssistantCalls,
    admissions: VecDeque<Admission>,
    strangers_are_asked: Option<String>,
    words: VecDeque<String>,
    is_held: bool,
}

/// Fake of everything that [`ChannelContext`](nanobot_channel::ChannelContext) asks of an
/// assistant. Unless scripted otherwise, it accepts every message, keeps files of up to 1,000 bytes
/// at `/media/<name>`, and transcribes no recording.
#[derive(Debug)]
pub struct Assistant {
    strangers: String,
    notes: Arc<NoteBook>,
    scene: Watched<Scene>,
}

impl Assistant {
    /// Creates an assistant that admits every sender except those whose id begins with `strangers`.
    #[must_use]
    pub fn new(strangers: impl Into<String>) -> Self {
        Self {
            strangers: strangers.into(),
            notes: Arc::default(),
            scene: Watched::default(),
        }
    }

    /// Queues the admissions for the next messages.
    pub fn will_answer(&self, admissions: impl IntoIterator<Item = Admission>) {
        self.scene
            .change(|scene| scene.admissions.extend(admissions));
    }

    /// Sets the text that strangers are sent.
    pub fn will_pair_strangers(&self, text: &str) {
        self.scene
            .change(|scene| scene.strangers_are_asked = Some(text.to_owned()));
    }

    /// Queues the transcript of one recording. Recordings beyond the queue cannot be transcribed.
    pub fn will_transcribe(&self, words: &str) {
        self.scene
            .change(|scene| scene.words.push_back(words.to_owned()));
    }

    /// Holds back the answers to messages while `is_held` is `true`.
    pub fn hold(&self, is_held: bool) {
        self.scene.change(|scene| scene.is_held = is_held);
    }

    /// Returns the notes, which the channel keeps across restarts.
    #[must_use]
    pub fn notes(&self) -> &Arc<NoteBook> {
        &self.notes
    }

    /// Returns the calls recorded so far.
    #[must_use]
    pub fn seen(&self) -> AssistantCalls {
        self.scene.read(|scene| scene.seen.clone())
    }

    /// Waits until `probe` accepts the recorded calls, and returns them all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] naming `what` and the calls recorded instead if the wait
    /// times out.
    pub async fn wait_until(
        &self,
        what: &str,
        mut probe: impl FnMut(&AssistantCalls) -> bool,
    ) -> Result<AssistantCalls, TestkitError> {
        self.wait_for(what, |seen| probe(seen).then(|| seen.clone()))
            .await
    }

    /// Waits until `count` messages were handed over, and returns the last of them.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] with the calls recorded instead if the wait times out.
    pub async fn message(&self, count: usize) -> Result<InboundMessage, TestkitError> {
        let last = |seen: &AssistantCalls| {
            seen.arrived
                .get(count.checked_sub(1)?)
                .map(|(message, _)| message.clone())
        };
        self.wait_for(&format!("{count} messages"), last).await
    }

    async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&AssistantCalls) -> Option<R>,
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

impl Liveness for Assistant {
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

    async fn store(
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
