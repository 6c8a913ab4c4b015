//! The parts of an assistant without sockets: scripted models, trivial tools, sessions and notes in
//! memory, and skills that can be added.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::NaiveDate;
use futures_util::stream;
use nanobot_context::{PromptRecord, PromptStore};
use nanobot_memory::{DayNote, MemoryError, MemoryStore, Reason, Revision, Scope};
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError, StreamEvent};
use nanobot_session::{
    Entry, InMemoryStore, ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView,
};
use nanobot_skill::{Skill, SkillOrigin, SkillSource};
use nanobot_tool::{Tool, ToolContext};
use nanobot_types::{
    ChatMessage, Content, ContentBlock, Effect, FinishReason, Map, ProviderName, SessionKey,
    Timestamp, ToolResult, ToolSource, ToolSpec,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Scripted behaviour of a model for one request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Text {
        thinks: bool,
    },
    Calls {
        calls: Vec<(String, String)>,
        thinks: bool,
    },
    Error(ProviderError),
    /// Some text, and then the stream breaks.
    BreaksOff,
    /// The turn is cancelled while the model is thinking.
    Stopped(CancellationToken),
}

/// A request received by a model.
#[derive(Clone, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) provider: ProviderName,
    pub(super) request: ChatRequest,
    pub(super) answered: bool,
}

/// The models' scripted answers, and the requests they received.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) answers: Mutex<VecDeque<Answer>>,
    pub(super) asked: Mutex<Vec<ReceivedRequest>>,
    calls: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) name: ProviderName,
    pub(super) script: Arc<Script>,
    /// `true` if the model accepts no images.
    pub(super) blind: bool,
}

#[async_trait]
impl Provider for Model {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        if self.blind && has_images(&request) {
            return Err(ProviderError::ImagesUnsupported("text only".to_owned()));
        }
        let answer = self
            .script
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Answer::Text { thinks: false });
        let answered = matches!(answer, Answer::Text { .. } | Answer::Calls { .. });
        self.script.asked.lock().unwrap().push(ReceivedRequest {
            provider: self.name.clone(),
            request,
            answered,
        });
        let finished = |reason| Ok(StreamEvent::Finished(reason));
        let thoughts = |thinks: bool| {
            thinks
                .then(|| Ok(StreamEvent::Reasoning("let me see".to_owned())))
                .into_iter()
        };
        let signed = |thinks: bool| {
            let block = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
            thinks
                .then_some(Ok(StreamEvent::ThinkingBlock(block)))
                .into_iter()
        };
        let events: Vec<Result<StreamEvent, ProviderError>> = match answer {
            Answer::Text { thinks } => {
                let text = [
                    Ok(StreamEvent::Text("done".to_owned())),
                    finished(FinishReason::Stop),
                ];
                thoughts(thinks).chain(signed(thinks)).chain(text).collect()
            }
            Answer::Calls { calls, thinks } => {
                let calls = calls
                    .into_iter()
                    .enumerate()
                    .map(|(index, (name, arguments))| Ok(self.call(index, name, arguments)));
                thoughts(thinks)
                    .chain(signed(thinks))
                    .chain(calls)
                    .chain([finished(FinishReason::ToolCalls)])
                    .collect()
            }
            Answer::Error(error) => return Err(error),
            Answer::BreaksOff => {
                vec![
                    Ok(StreamEvent::Text("I was".to_owned())),
                    Err(ProviderError::Network("gone".to_owned())),
                ]
            }
            Answer::Stopped(cancel) => {
                cancel.cancel();
                return Ok(Box::pin(stream::pending()));
            }
        };
        Ok(Box::pin(stream::iter(events)))
    }
}

impl Model {
    fn call(&self, index: usize, name: String, arguments: String) -> StreamEvent {
        let number = self.script.calls.fetch_add(1, Ordering::Relaxed);
        StreamEvent::ToolCall {
            index,
            id: Some(format!("call_{number}")),
            name: Some(name),
            arguments,
            extra: Map::new(),
            function_extra: Map::new(),
        }
    }
}

fn has_images(request: &ChatRequest) -> bool {
    request
        .transcript
        .messages()
        .iter()
        .any(|message| match &**message {
            ChatMessage::User(user) => match &user.content {
                Content::Blocks(blocks) => blocks
                    .iter()
                    .any(|block| matches!(block, ContentBlock::ImageUrl { .. })),
                Content::Text(_) => false,
            },
            _ => false,
        })
}

/// Memory that lasts as long as the history.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) facts: Mutex<String>,
    pub(super) note: Mutex<Option<String>>,
}

#[async_trait]
impl MemoryStore for Facts {
    async fn facts(&self, _: &Scope) -> Result<nanobot_memory::Facts, MemoryError> {
        let text = self.facts.lock().unwrap().clone();
        Ok(nanobot_memory::Facts {
            text,
            revision: Revision(0),
        })
    }

    async fn replace_facts(
        &self,
        _: &Scope,
        text: String,
        _: Revision,
        _: &Reason,
    ) -> Result<Revision, MemoryError> {
        *self.facts.lock().unwrap() = text;
        Ok(Revision(0))
    }

    async fn append_history(&self, _: &Scope, _: Timestamp, _: &str) -> Result<(), MemoryError> {
        Ok(())
    }

    async fn has_history(&self, _: &Scope, _: &str) -> Result<bool, MemoryError> {
        Ok(false)
    }

    async fn day_note(&self, _: &Scope, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
        let text = self.note.lock().unwrap().clone();
        Ok(text.map(|text| DayNote { date, text }))
    }

    async fn recent(&self, _: &Scope, _: u32) -> Result<Vec<DayNote>, MemoryError> {
        Ok(Vec::new())
    }
}

/// A tool that changes memory or returns a fixed text.
#[derive(Debug)]
pub(super) struct Small {
    spec: ToolSpec,
    says: String,
    writes: Option<Arc<Facts>>,
}

impl Small {
    pub(super) fn new(name: &str, source: ToolSource, says: impl Into<String>) -> Self {
        let spec = ToolSpec {
            name: name.into(),
            description: format!("Does what {name} does."),
            parameters: json!({"type": "object", "properties": {"what": {"type": "string"}}}),
            effect: Effect::Idempotent,
            source,
        };
        Self {
            spec,
            says: says.into(),
            writes: None,
        }
    }

    pub(super) fn writing(self, memory: Arc<Facts>) -> Self {
        Self {
            writes: Some(memory),
            ..self
        }
    }
}

#[async_trait]
impl Tool for Small {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, arguments: Value, _: &ToolContext) -> ToolResult {
        if let Some(memory) = &self.writes {
            *memory.facts.lock().unwrap() =
                arguments["what"].as_str().unwrap_or_default().to_owned();
        }
        ToolResult::ok(self.says.clone())
    }
}

/// Skills that are added during a history.
#[derive(Debug, Default)]
pub(super) struct Skills(pub(super) AtomicUsize);

impl SkillSource for Skills {
    fn skills(&self) -> Vec<Skill> {
        let skill = |number: usize| Skill {
            name: format!("skill-{number:03}"),
            description: "Something to know".to_owned(),
            origin: SkillOrigin::Workspace,
            location: PathBuf::from(format!("/skills/{number}/SKILL.md")),
            body: "Know it.".to_owned(),
            always: number == 0,
            blockers: Vec::new(),
        };
        (0..self.0.load(Ordering::Relaxed)).map(skill).collect()
    }

    fn configuration(&self) -> String {
        String::new()
    }
}

/// Stored notes of prompts.
type Notes = HashMap<(SessionKey, PromptRecord), Vec<u8>>;

/// A process that may be killed: its later writes are discarded.
#[derive(Clone, Debug)]
pub(super) struct Process {
    alive: Arc<AtomicBool>,
    /// State that outlives the process.
    sessions: Arc<InMemoryStore>,
    notes: Arc<Mutex<Notes>>,
    /// Number of appends until it is killed.
    appends_left: Arc<AtomicUsize>,
}

impl Process {
    pub(super) fn first() -> Self {
        Self {
            alive: Arc::new(AtomicBool::new(true)),
            sessions: Arc::default(),
            notes: Arc::default(),
            appends_left: Arc::new(AtomicUsize::new(usize::MAX)),
        }
    }

    /// Returns a new process with the state that this one left.
    pub(super) fn next(&self, appends: usize) -> Self {
        Self {
            alive: Arc::new(AtomicBool::new(true)),
            appends_left: Arc::new(AtomicUsize::new(appends)),
            ..self.clone()
        }
    }

    pub(super) fn lose_notes(&self) {
        self.notes.lock().unwrap().clear();
    }
}

#[async_trait]
impl PromptStore for Process {
    async fn load(&self, session: &SessionKey, note: PromptRecord) -> Option<Vec<u8>> {
        self.notes
            .lock()
            .unwrap()
            .get(&(session.clone(), note))
            .cloned()
    }

    async fn save(&self, session: &SessionKey, note: PromptRecord, content: Vec<u8>) {
        if self.alive.load(Ordering::Relaxed) {
            self.notes
                .lock()
                .unwrap()
                .insert((session.clone(), note), content);
        }
    }
}

#[async_trait]
impl SessionStore for Process {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        let left = self.appends_left.load(Ordering::Relaxed);
        if left == 0 {
            self.alive.store(false, Ordering::Relaxed);
            let source = std::io::Error::other("the process was killed");
            return Err(SessionError::Io {
                key: key.clone(),
                action: "append to",
                path: "nowhere".into(),
                source,
            });
        }
        self.appends_left.store(left - 1, Ordering::Relaxed);
        self.sessions.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.sessions.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.sessions.list().await
    }
}
