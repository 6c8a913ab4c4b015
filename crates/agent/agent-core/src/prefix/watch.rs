//! Watches the requests of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_context::{Epoch, Note, PromptStore, Renewal, Renewed, SystemPrompt};
use nanobot_session::SessionView;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, SessionKey, ToolSource, ToolSpec,
    Transcript,
};
use serde::{Deserialize, Serialize};

use super::fingerprint::{Fingerprint, Part, Parting};
use super::log_facts::{LogFacts, last_request};
use super::{Miss, MissEvent};
use crate::engine::{Answered, RequestWatch};

/// Sessions that are remembered; others are looked up again.
const REMEMBERED: usize = 256;
/// As many messages of a request are saved. What begins with more begins with them.
const SAVED_MESSAGES: usize = 512;

/// The last request of a session that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Last {
    /// Who answered it.
    by: String,
    /// Where the conversation began.
    cursor: u64,
    /// First message that was read.
    #[serde(default)]
    begins: u64,
    /// Messages in the log when its turn began.
    head: u64,
    /// Something was left out of it.
    shortened: bool,
    fingerprint: Fingerprint,
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Known {
    last: Option<Arc<Last>>,
    /// Renewals of its prompt that no answered request has shown yet.
    renewed: Option<Renewed>,
    miss: Option<Miss>,
    misses: u64,
    /// No request of this process was answered yet.
    restored: bool,
    /// For forgetting.
    used: u64,
}

/// What is saved of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    session: SessionKey,
    last: Option<Last>,
    #[serde(default)]
    renewed: Option<Renewed>,
    pub(super) miss: Option<Miss>,
}

impl Saved {
    pub(super) fn read(session: &SessionKey, bytes: &[u8]) -> Option<Self> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(saved) => Some(saved).filter(|saved| saved.session == *session),
            Err(error) => {
                tracing::warn!(%session, %error, "what the last request of a session was cannot be read");
                None
            }
        }
    }
}

/// The requests of all sessions.
#[derive(Debug)]
pub(crate) struct PrefixWatch {
    notes: Arc<dyn PromptStore>,
    known: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    clock: u64,
    sessions: HashMap<SessionKey, Known>,
}

impl PrefixWatch {
    pub(crate) fn new(notes: Arc<dyn PromptStore>) -> Self {
        Self {
            notes,
            known: Mutex::default(),
        }
    }

    /// The last miss of a session, and how many there were since the start.
    pub(crate) async fn misses(&self, session: &SessionKey) -> (Option<Miss>, u64) {
        let known = self.known(session).await;
        (known.miss, known.misses)
    }

    /// Watches a turn of a session whose log reads `view`.
    pub(crate) async fn turn(
        &self,
        session: &SessionKey,
        log: LogFacts,
        view: &SessionView,
        epoch: &Epoch,
    ) -> TurnWatch<'_> {
        let mut known = self.known(session).await;
        if known.restored {
            known.last = known.last.map(|last| Arc::new(with_log(&last, log, view)));
        }
        let is_unknown = epoch
            .renewed
            .as_ref()
            .is_some_and(|renewed| renewed.why == Renewal::Unknown);
        let is_lost = known.last.is_none() && log.answered && is_unknown;
        let tells =
            |renewed: &&Renewed| renewed.difference.is_some() || renewed.why == Renewal::Unknown;
        if let (Some(renewed), Some(_)) = (epoch.renewed.as_ref().filter(tells), &known.last) {
            known.renewed = Some(both(known.renewed.take(), renewed.clone()));
            self.save(session, &known).await;
            self.memory().keep(session, known.clone());
        }
        let prompt = Arc::clone(&epoch.prompt);
        TurnWatch {
            owner: self,
            session: session.clone(),
            log,
            prompt,
            known,
            is_lost,
            is_changed: false,
        }
    }

    async fn save(&self, session: &SessionKey, known: &Known) {
        let last = known.last.as_deref().map(|last| Last {
            fingerprint: last.fingerprint.shortened(SAVED_MESSAGES),
            ..last.clone()
        });
        let (renewed, miss) = (known.renewed.clone(), known.miss.clone());
        match serde_json::to_vec(&Saved {
            session: session.clone(),
            last,
            renewed,
            miss,
        }) {
            Ok(content) => self.notes.save(session, Note::Prefix, content).await,
            Err(error) => {
                tracing::error!(%error, "what the last request of a session was cannot be saved")
            }
        }
    }

    async fn known(&self, session: &SessionKey) -> Known {
        if let Some(known) = self.memory().find(session) {
            return known;
        }
        let saved = self.notes.load(session, Note::Prefix).await;
        let Some(saved) = saved.and_then(|bytes| Saved::read(session, &bytes)) else {
            return Known::default();
        };
        let Saved {
            session: _,
            last,
            renewed,
            miss,
        } = saved;
        Known {
            last: last.map(Arc::new),
            renewed,
            miss,
            restored: true,
            ..Known::default()
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn find(&mut self, session: &SessionKey) -> Option<Known> {
        self.clock += 1;
        let known = self.sessions.get_mut(session)?;
        known.used = self.clock;
        Some(known.clone())
    }

    fn keep(&mut self, session: &SessionKey, known: Known) {
        self.clock += 1;
        self.sessions.insert(
            session.clone(),
            Known {
                used: self.clock,
                ..known
            },
        );
        if self.sessions.len() > REMEMBERED {
            let oldest = self
                .sessions
                .iter()
                .min_by_key(|(_, known)| known.used)
                .map(|(session, _)| session.clone());
            oldest.and_then(|session| self.sessions.remove(&session));
        }
    }
}

/// What is saved of the last request is its beginning, as it was some turns ago. The log tells the
/// rest of it: which messages went on, up to the first that shows files.
fn with_log(saved: &Last, log: LogFacts, view: &SessionView) -> Last {
    let mut last = saved.clone();
    if last.shortened || last.cursor != log.cursor {
        return last;
    }
    let Some((messages, head)) = last_request(view) else {
        return last;
    };
    let provider = last.by.split('/').next().unwrap_or_default();
    let is_told = |message: &&Arc<ChatMessage>| !shows_files(message);
    let as_sent = |message: &Arc<ChatMessage>| without_foreign_reasoning(message, provider);
    let mut told = last.fingerprint.shortened(0);
    messages
        .iter()
        .take_while(is_told)
        .for_each(|message| told.push(&as_sent(message)));
    // Where they part, the log tells of another request.
    if last.fingerprint.parting(&told).is_none() {
        last.fingerprint = told;
        last.head = last.head.max(head);
    }
    last
}

/// A message as a provider gets it.
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

/// Two renewals behind each other as one: of the first cause, where the first of them parts.
fn both(first: Option<Renewed>, second: Renewed) -> Renewed {
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

/// The requests of one turn.
#[derive(Debug)]
pub(crate) struct TurnWatch<'a> {
    owner: &'a PrefixWatch,
    session: SessionKey,
    log: LogFacts,
    prompt: Arc<SystemPrompt>,
    known: Known,
    is_lost: bool,
    /// There is something to save.
    is_changed: bool,
}

impl TurnWatch<'_> {
    /// Tools in the order in which this session's requests list them: external ones that the last
    /// request had as it had them, then those that came later.
    pub(crate) fn in_order(&self, specs: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        let Some(last) = &self.known.last else {
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

    /// Saves what a restart has to know, if it is not what is saved.
    pub(crate) async fn close(self) {
        if self.is_changed {
            self.owner.save(&self.session, &self.known).await;
        }
    }

    /// Why a request parts from the one before it, and where.
    fn explain(&self, last: &Last, next: &Last, request: &Answered<'_>) -> Option<Miss> {
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
        let Parting { part, byte } = last.fingerprint.parting(&next.fingerprint)?;
        Some(match part {
            Part::Tool(name) => Miss {
                event: MissEvent::ToolsChanged,
                section: format!("tool {name}"),
                byte,
                at,
            },
            Part::Section(name) => {
                let difference = self
                    .known
                    .renewed
                    .as_ref()
                    .and_then(|renewed| renewed.difference.as_ref());
                let exact = difference.map(|difference| {
                    next.fingerprint
                        .byte_in_prompt(&self.prompt, difference.byte)
                });
                Miss {
                    event: self.renewal(last),
                    section: name,
                    byte: exact.unwrap_or(byte).max(byte),
                    at,
                }
            }
            Part::Message(place) => {
                let event = self
                    .moved(last)
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

    /// What made the conversation begin or go on elsewhere.
    fn moved(&self, last: &Last) -> Option<MissEvent> {
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

    /// Why the system prompt is another one.
    fn renewal(&self, last: &Last) -> MissEvent {
        let moved = || {
            self.moved(last)
                .filter(|event| *event != MissEvent::Rewound)
        };
        match self.known.renewed.as_ref().map(|renewed| renewed.why) {
            Some(Renewal::Cold) => MissEvent::ColdEpoch,
            Some(Renewal::Settings) => MissEvent::ConfigChanged,
            Some(Renewal::Moved | Renewal::Asked | Renewal::Audience) => {
                moved().unwrap_or(MissEvent::Renewed)
            }
            Some(Renewal::Unknown) => moved().unwrap_or(MissEvent::LostState),
            // The one who renewed it did not live to say why.
            None if self.known.restored => moved().unwrap_or(MissEvent::LostState),
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
            tracing::warn!(%session, section, byte, "a request does not begin with the one before it, and nothing explains why");
        } else {
            tracing::info!(%session, ?event, section, byte, "a request does not begin with the one before it");
        }
        self.known.miss = Some(miss);
        self.known.misses += 1;
        self.is_changed = true;
    }
}

/// What changed a message in the middle of a conversation.
fn change_of(place: usize, last: &Last, next: &Last, request: &Answered<'_>) -> MissEvent {
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
        ChatMessage::User(user) => !user.media.is_empty() || has_image(&user.content),
        ChatMessage::Tool(result) => has_image(&result.content),
        ChatMessage::Assistant(_) | ChatMessage::System { .. } => false,
    }
}

impl RequestWatch for TurnWatch<'_> {
    fn answered(&mut self, request: Answered<'_>) {
        let next = Last {
            by: format!("{}/{}", request.provider, request.sent.model),
            cursor: self.log.cursor,
            begins: self.log.begins,
            head: self.log.head,
            shortened: request.shortened,
            fingerprint: Fingerprint::of(request.sent, &self.prompt),
        };
        match self.known.last.clone() {
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
        // What the log does not tell is known to the next process too.
        self.is_changed |= self.known.renewed.is_some()
            || request.shortened
            || request.messages.iter().any(|message| shows_files(message));
        self.is_lost = false;
        self.known.restored = false;
        self.known.last = Some(Arc::new(next));
        self.known.renewed = None;
        self.owner.memory().keep(&self.session, self.known.clone());
    }
}
