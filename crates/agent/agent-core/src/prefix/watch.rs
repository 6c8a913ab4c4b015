//! Tracks the requests of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_context::{Epoch, PromptRecord, PromptStore, Renewal, Renewed, SystemPrompt};
use nanobot_session::SessionView;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, SessionKey, ToolSource, ToolSpec,
    Transcript,
};
use serde::{Deserialize, Serialize};

use super::fingerprint::{Fingerprint, FingerprintPart, Fingerprinter, PrefixBreak};
use super::log_facts::{LogFacts, last_request};
use super::{Miss, MissEvent};
use crate::engine::{AnsweredRequest, RequestObserver};

/// Maximum number of sessions in memory; others are loaded again.
const MAX_SESSIONS: usize = 256;
/// Maximum number of messages of a request that are saved. The log supplies the rest.
const SAVED_MESSAGES: usize = 512;

/// The last answered request of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LastRequest {
    /// Provider and model that answered it.
    by: String,
    /// Position at which the conversation began.
    cursor: u64,
    /// First message that was read.
    #[serde(default)]
    begins: u64,
    /// Number of messages in the log when its turn began.
    head: u64,
    /// `true` if a part of the conversation was left out of it.
    shortened: bool,
    fingerprint: Fingerprint,
}

/// The prefix state of a session.
#[derive(Clone, Debug, Default)]
struct PrefixState {
    last: Option<Arc<LastRequest>>,
    /// Renewals of its prompt since the last answered request.
    renewed: Option<Renewed>,
    miss: Option<Miss>,
    misses: u64,
    /// `true` until a request of this process is answered.
    restored: bool,
    /// Time of last use, for eviction.
    used: u64,
}

/// The saved part of a session's prefix state.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedPrefixState {
    session: SessionKey,
    last: Option<LastRequest>,
    #[serde(default)]
    renewed: Option<Renewed>,
    pub(super) miss: Option<Miss>,
}

impl SavedPrefixState {
    pub(super) fn read(session: &SessionKey, bytes: &[u8]) -> Option<Self> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(saved) => Some(saved).filter(|saved| saved.session == *session),
            Err(error) => {
                tracing::warn!(%session, %error, "could not read the saved prefix state of a session");
                None
            }
        }
    }
}

/// The requests of all sessions.
#[derive(Debug)]
pub(crate) struct PrefixWatch {
    notes: Arc<dyn PromptStore>,
    cache: Mutex<PrefixCache>,
}

#[derive(Debug, Default)]
struct PrefixCache {
    clock: u64,
    sessions: HashMap<SessionKey, PrefixState>,
}

impl PrefixWatch {
    pub(crate) fn new(notes: Arc<dyn PromptStore>) -> Self {
        Self {
            notes,
            cache: Mutex::default(),
        }
    }

    /// Returns the last miss of a session, and the number of misses since the start.
    pub(crate) async fn misses(&self, session: &SessionKey) -> (Option<Miss>, u64) {
        let state = self.state(session).await;
        (state.miss, state.misses)
    }

    /// Starts to watch a turn. `view` is the log of the session.
    pub(crate) async fn turn(
        &self,
        session: &SessionKey,
        log: LogFacts,
        view: &SessionView,
        epoch: &Epoch,
    ) -> TurnWatch<'_> {
        let mut state = self.state(session).await;
        if state.restored {
            state.last = state.last.map(|last| Arc::new(with_log(&last, log, view)));
        }
        let is_unknown = epoch
            .renewed
            .as_ref()
            .is_some_and(|renewed| renewed.why == Renewal::Unknown);
        let is_lost = state.last.is_none() && log.answered && is_unknown;
        let tells =
            |renewed: &&Renewed| renewed.difference.is_some() || renewed.why == Renewal::Unknown;
        if let (Some(renewed), Some(_)) = (epoch.renewed.as_ref().filter(tells), &state.last) {
            state.renewed = Some(merge_renewals(state.renewed.take(), renewed.clone()));
            self.save(session, &state).await;
            self.memory().insert(session, state.clone());
        }
        let prompt = Arc::clone(&epoch.prompt);
        let fingerprinter = Fingerprinter::new(Arc::clone(&prompt));
        TurnWatch {
            owner: self,
            session: session.clone(),
            log,
            prompt,
            fingerprinter,
            state,
            is_lost,
            is_changed: false,
        }
    }

    /// Forgets the requests of a session that was deleted.
    pub(crate) async fn forget(&self, session: &SessionKey) {
        self.memory().sessions.remove(session);
        self.save(session, &PrefixState::default()).await;
    }

    async fn save(&self, session: &SessionKey, state: &PrefixState) {
        let last = state.last.as_deref().map(|last| LastRequest {
            fingerprint: last.fingerprint.shortened(SAVED_MESSAGES),
            ..last.clone()
        });
        let (renewed, miss) = (state.renewed.clone(), state.miss.clone());
        match serde_json::to_vec(&SavedPrefixState {
            session: session.clone(),
            last,
            renewed,
            miss,
        }) {
            Ok(content) => {
                self.notes
                    .save(session, PromptRecord::Prefix, content)
                    .await;
            }
            Err(error) => {
                tracing::error!(%error, "could not save the prefix state of a session");
            }
        }
    }

    async fn state(&self, session: &SessionKey) -> PrefixState {
        if let Some(state) = self.memory().find(session) {
            return state;
        }
        let saved = self.notes.load(session, PromptRecord::Prefix).await;
        let Some(saved) = saved.and_then(|bytes| SavedPrefixState::read(session, &bytes)) else {
            return PrefixState::default();
        };
        let SavedPrefixState {
            session: _,
            last,
            renewed,
            miss,
        } = saved;
        PrefixState {
            last: last.map(Arc::new),
            renewed,
            miss,
            restored: true,
            ..PrefixState::default()
        }
    }

    fn memory(&self) -> MutexGuard<'_, PrefixCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrefixCache {
    fn find(&mut self, session: &SessionKey) -> Option<PrefixState> {
        self.clock += 1;
        let state = self.sessions.get_mut(session)?;
        state.used = self.clock;
        Some(state.clone())
    }

    fn insert(&mut self, session: &SessionKey, state: PrefixState) {
        self.clock += 1;
        self.sessions.insert(
            session.clone(),
            PrefixState {
                used: self.clock,
                ..state
            },
        );
        if self.sessions.len() > MAX_SESSIONS {
            let oldest = self
                .sessions
                .iter()
                .min_by_key(|(_, state)| state.used)
                .map(|(session, _)| session.clone());
            oldest.and_then(|session| self.sessions.remove(&session));
        }
    }
}

/// Completes a saved request from the log. The saved fingerprint is the beginning of the last
/// request as it was some turns ago. The log supplies the messages after that, up to the first one
/// with files.
fn with_log(saved: &LastRequest, log: LogFacts, view: &SessionView) -> LastRequest {
    let mut last = saved.clone();
    if last.shortened || last.cursor != log.cursor {
        return last;
    }
    let Some((messages, head)) = last_request(view) else {
        return last;
    };
    let provider = last.by.split('/').next().unwrap_or_default();
    let has_no_files = |message: &&Arc<ChatMessage>| !shows_files(message);
    let as_sent = |message: &Arc<ChatMessage>| without_foreign_reasoning(message, provider);
    let mut extended = last.fingerprint.shortened(0);
    messages
        .iter()
        .take_while(has_no_files)
        .for_each(|message| extended.push(&as_sent(message)));
    // If they diverge, the log shows another request.
    if last.fingerprint.divergence(&extended).is_none() {
        last.fingerprint = extended;
        last.head = last.head.max(head);
    }
    last
}

/// Returns a message as the provider gets it.
fn without_foreign_reasoning(message: &Arc<ChatMessage>, provider: &str) -> Arc<ChatMessage> {
    match &**message {
        ChatMessage::Assistant(said)
            if said
                .provider
                .as_ref()
                .is_some_and(|by| by.as_str() != provider) =>
        {
            let said = AssistantMessage {
                reasoning_content: None,
                thinking_blocks: Vec::new(),
                ..said.clone()
            };
            Arc::new(ChatMessage::Assistant(said))
        }
        _ => Arc::clone(message),
    }
}

/// Merges two consecutive renewals, with the cause of the first and the earlier difference.
fn merge_renewals(first: Option<Renewed>, second: Renewed) -> Renewed {
    let Some(first) = first else { return second };
    let difference = match (first.difference, second.difference) {
        (Some(first), Some(second)) => Some(if second.byte < first.byte {
            second
        } else {
            first
        }),
        (first, second) => first.or(second),
    };
    Renewed {
        why: first.why,
        difference,
    }
}

/// Watches the requests of one turn.
#[derive(Debug)]
pub(crate) struct TurnWatch<'a> {
    owner: &'a PrefixWatch,
    session: SessionKey,
    log: LogFacts,
    prompt: Arc<SystemPrompt>,
    fingerprinter: Fingerprinter,
    state: PrefixState,
    is_lost: bool,
    /// `true` if there is something to save.
    is_changed: bool,
}

impl TurnWatch<'_> {
    /// Returns the tools in the order in which this session's requests list them: built-in ones,
    /// then external ones in the order of the last request, then new external ones.
    pub(crate) fn stable_order(&self, specs: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        let Some(last) = &self.state.last else {
            return specs;
        };
        let place = |spec: &ToolSpec| match spec.source {
            ToolSource::BuiltIn => (0, 0),
            ToolSource::External => {
                let listed = last
                    .fingerprint
                    .tools
                    .iter()
                    .position(|(name, _)| name == spec.name.as_str());
                (1, listed.unwrap_or(usize::MAX))
            }
        };
        if specs.is_sorted_by_key(place) {
            return specs;
        }
        let mut sorted = specs.to_vec();
        sorted.sort_by_key(place);
        sorted.into()
    }

    /// Saves the state that a restart needs, if it changed.
    pub(crate) async fn close(self) {
        if self.is_changed {
            self.owner.save(&self.session, &self.state).await;
        }
    }

    /// Returns the place and cause if a request diverges from the previous one.
    fn explain(
        &self,
        last: &LastRequest,
        next: &LastRequest,
        request: &AnsweredRequest<'_>,
    ) -> Option<Miss> {
        let at = chrono::Local::now().fixed_offset();
        if last.by != next.by {
            let section = format!("provider {}", next.by);
            return Some(Miss {
                event: MissEvent::ProviderSwitch,
                section,
                byte: 0,
                at,
            });
        }
        let PrefixBreak { part, byte } = last.fingerprint.divergence(&next.fingerprint)?;
        Some(match part {
            FingerprintPart::Tool(name) => Miss {
                event: MissEvent::ToolsChanged,
                section: format!("tool {name}"),
                byte,
                at,
            },
            FingerprintPart::Section(name) => {
                let difference = self
                    .state
                    .renewed
                    .as_ref()
                    .and_then(|renewed| renewed.difference.as_ref());
                let exact = difference.map(|difference| {
                    next.fingerprint
                        .byte_in_prompt(&self.prompt, difference.byte)
                });
                Miss {
                    event: self.renewal_event(last),
                    section: name,
                    byte: exact.unwrap_or(byte).max(byte),
                    at,
                }
            }
            FingerprintPart::Message(place) => {
                let event = self
                    .beginning_event(last)
                    .unwrap_or_else(|| change_of(place, last, next, request));
                Miss {
                    event,
                    section: format!("message {}", place + 1),
                    byte,
                    at,
                }
            }
        })
    }

    /// Returns the event that moved the beginning of the conversation or undid a part of it.
    fn beginning_event(&self, last: &LastRequest) -> Option<MissEvent> {
        if self.log.cursor != last.cursor {
            return Some(if self.log.reset {
                MissEvent::Reset
            } else {
                MissEvent::Compaction
            });
        }
        if self.log.begins != last.begins {
            return Some(MissEvent::Compaction);
        }
        let rewound = self.log.rewound.is_some_and(|rewound| rewound > last.head);
        rewound.then_some(MissEvent::Rewound)
    }

    /// Returns the reason why the system prompt changed.
    fn renewal_event(&self, last: &LastRequest) -> MissEvent {
        let moved = || {
            self.beginning_event(last)
                .filter(|event| *event != MissEvent::Rewound)
        };
        match self.state.renewed.as_ref().map(|renewed| renewed.why) {
            Some(Renewal::Cold) => MissEvent::ColdEpoch,
            Some(Renewal::Settings) => MissEvent::ConfigChanged,
            Some(Renewal::Moved | Renewal::Asked | Renewal::Audience) => {
                moved().unwrap_or(MissEvent::Renewed)
            }
            Some(Renewal::Unknown) => moved().unwrap_or(MissEvent::LostState),
            // The process that renewed it ended before it could save the reason.
            None if self.state.restored => moved().unwrap_or(MissEvent::LostState),
            None => MissEvent::Unexplained,
        }
    }

    fn record(&mut self, miss: Miss) {
        let Miss {
            event,
            section,
            byte,
            ..
        } = &miss;
        let session = &self.session;
        if *event == MissEvent::Unexplained {
            tracing::warn!(%session, section, byte, "a request does not begin with the previous one, for an unknown reason");
        } else {
            tracing::info!(%session, ?event, section, byte, "a request does not begin with the previous one");
        }
        self.state.miss = Some(miss);
        self.state.misses += 1;
        self.is_changed = true;
    }
}

/// Returns the reason why a message in the middle of a conversation changed.
fn change_of(
    place: usize,
    last: &LastRequest,
    next: &LastRequest,
    request: &AnsweredRequest<'_>,
) -> MissEvent {
    let source = Transcript::repair(request.messages.iter().cloned()).transcript;
    if last.shortened || next.shortened {
        MissEvent::Compaction
    } else if source
        .messages()
        .get(place)
        .is_some_and(|message| shows_files(message))
    {
        MissEvent::ImagesDropped
    } else {
        MissEvent::Unexplained
    }
}

fn shows_files(message: &ChatMessage) -> bool {
    let has_image = |content: &Content| match content {
        Content::Blocks(blocks) => blocks
            .iter()
            .any(|block| matches!(block, ContentBlock::ImageUrl { .. })),
        Content::Text(_) => false,
    };
    match message {
        _ if !message.media().is_empty() => true,
        ChatMessage::User(user) => has_image(&user.content),
        ChatMessage::Tool(result) => has_image(&result.content),
        ChatMessage::Assistant(_) | ChatMessage::System { .. } => false,
    }
}

impl RequestObserver for TurnWatch<'_> {
    fn answered(&mut self, request: AnsweredRequest<'_>) {
        let next = LastRequest {
            by: format!("{}/{}", request.provider, request.sent.model),
            cursor: self.log.cursor,
            begins: self.log.begins,
            head: self.log.head,
            shortened: request.shortened,
            fingerprint: self.fingerprinter.fingerprint(request.sent),
        };
        match self.state.last.clone() {
            Some(last) => {
                if let Some(miss) = self.explain(&last, &next, &request) {
                    self.record(miss);
                }
                self.is_changed |= (last.cursor, last.begins) != (next.cursor, next.begins);
            }
            None => {
                if self.is_lost {
                    let at = chrono::Local::now().fixed_offset();
                    self.record(Miss {
                        event: MissEvent::LostState,
                        section: "unknown".to_owned(),
                        byte: 0,
                        at,
                    });
                }
                self.is_changed = true;
            }
        }
        // The next process needs facts that the log does not contain.
        self.is_changed |= self.state.renewed.is_some()
            || request.shortened
            || request.messages.iter().any(|message| shows_files(message));
        self.is_lost = false;
        self.state.restored = false;
        self.state.last = Some(Arc::new(next));
        self.state.renewed = None;
        self.owner
            .memory()
            .insert(&self.session, self.state.clone());
    }
}
