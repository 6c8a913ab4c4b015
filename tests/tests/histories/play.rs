//! Plays a history and compares every request with the previous one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_agent_core::{
    Agent, AgentError, AgentParts, AgentSettings, MissEvent, Signal, Steering, TurnFacts,
    TurnOptions, TurnReport, TurnRequest,
};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_provider::{
    Candidate, ChatRequest, Generation, ProviderError, ProviderRouter, RetryPolicy,
};
use nanobot_providers::{ProviderSpec, render};
use nanobot_session::{Entry, MessageEntry, ReadFrom, Seq, SessionStore as _, rewind};
use nanobot_tool::Registry;
use nanobot_types::{
    ChatMessage, Content, DeliveryContext, Map, MediaRef, Origin, SessionKey, ToolName, ToolSource,
    UserMessage,
};
use proptest::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::stage::{Answer, Facts, Model, Process, ReceivedRequest, Script, Skills, Small};
use super::step::{Call, From, Habits, ModelFault, Restart, Round, SESSIONS, Step};
use crate::world::today;

const NAMES: [&str; SESSIONS] = ["telegram:1", "telegram:2"];
const MODELS: [&str; 2] = ["openai", "anthropic"];
/// The beginning of a PNG file, enough to be recognized as one.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// Number of prefix misses by event, and number of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) misses: BTreeMap<String, u64>,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        for (event, count) in &other.misses {
            *self.misses.entry(event.clone()).or_default() += count;
        }
    }
}

/// An answered request as both clients would send it.
struct SentRequest {
    by: String,
    request: ChatRequest,
    rendered: [Vec<String>; 2],
}

impl SentRequest {
    fn of(asked: ReceivedRequest) -> Self {
        let rendered = MODELS.map(|vendor| {
            let parts = render(
                ProviderSpec::find(vendor).unwrap(),
                &asked.provider,
                &asked.request,
            );
            parts
                .tools
                .into_iter()
                .chain([parts.system])
                .chain(parts.messages)
                .collect()
        });
        Self {
            by: format!("{}/{}", asked.provider, asked.request.model),
            request: asked.request,
            rendered,
        }
    }

    fn begins_with(&self, older: &Self) -> bool {
        self.by == older.by
            && self
                .rendered
                .iter()
                .zip(&older.rendered)
                .all(|(newer, older)| newer.starts_with(older))
    }

    /// Returns the number of leading bytes that two requests share: tools, system, messages, each
    /// as compact JSON.
    fn shares(&self, older: &Self) -> u64 {
        let (newer, older) = (plain(&self.request), plain(&older.request));
        let blocks = newer.as_bytes().chunks(64).zip(older.as_bytes().chunks(64));
        let equal = 64 * blocks.take_while(|(newer, older)| newer == older).count();
        let (newer, older) = (newer.bytes().skip(equal), older.bytes().skip(equal));
        (equal
            + newer
                .zip(older)
                .take_while(|(newer, older)| newer == older)
                .count()) as u64
    }

    fn tools(&self) -> HashSet<&ToolName> {
        self.request.tools.iter().map(|spec| &spec.name).collect()
    }
}

fn plain(request: &ChatRequest) -> String {
    let name = |spec: &nanobot_types::ToolSpec| serde_json::to_string(&spec.name).unwrap();
    let description =
        |spec: &nanobot_types::ToolSpec| serde_json::to_string(&spec.description).unwrap();
    let tools = request.tools.iter().map(|spec| {
        format!(
            "{{\"name\":{},\"description\":{},\"parameters\":{}}}\n",
            name(spec),
            description(spec),
            spec.parameters
        )
    });
    let system = serde_json::to_string(&*request.system).unwrap() + "\n";
    let messages = request
        .transcript
        .messages()
        .iter()
        .map(|message| serde_json::to_string(message).unwrap() + "\n");
    tools.chain([system]).chain(messages).collect()
}

/// State of a session between its requests.
#[derive(Default)]
struct SessionState {
    last: Option<SentRequest>,
    /// Events since the last request that may break the prefix.
    causes: HashSet<MissEvent>,
    /// `true` if the assistant does not, or may not, remember the last request.
    forgotten: bool,
    /// Number of misses that this process has recorded.
    recorded: u64,
}

/// The parts of an assistant, most of which outlive a process.
struct Parts {
    habits: Habits,
    root: tempfile::TempDir,
    name: String,
    process: Process,
    script: Arc<Script>,
    skills: Arc<Skills>,
    memory: Arc<Facts>,
    registry: Arc<Registry>,
}

impl Parts {
    fn new(habits: Habits) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("AGENTS.md"), "Be kind.").unwrap();
        Self {
            habits,
            root,
            name: "nanobot".to_owned(),
            process: Process::first(),
            script: Arc::default(),
            skills: Arc::default(),
            memory: Arc::default(),
            registry: Arc::default(),
        }
    }

    /// Builds an assistant as a new process would.
    fn agent(&self) -> Agent {
        let Habits {
            budget,
            forgets_images,
            blind,
            crowded,
        } = self.habits;
        let candidates = MODELS
            .into_iter()
            .enumerate()
            .map(|(place, model)| Candidate {
                provider: Arc::new(Model {
                    name: model.into(),
                    script: Arc::clone(&self.script),
                    blind: blind && place == 0,
                }),
                model: "model".into(),
                generation: Generation::default(),
            });
        let policy = RetryPolicy {
            pauses: Vec::new(),
            longest_pause: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let settings = ContextSettings {
            bot_name: self.name.clone(),
            skills: Arc::clone(&self.skills) as _,
            sessions_kept: if crowded { 1 } else { 256 },
            image_cache_bytes: if forgets_images { 0 } else { 1 << 20 },
            today,
            ..ContextSettings::new(self.root.path())
        };
        let context = ContextBuilder::new(settings, Arc::clone(&self.memory) as _);
        let parts = AgentParts {
            router: Arc::new(ProviderRouter::new(candidates, policy)),
            registry: Arc::clone(&self.registry),
            sessions: Arc::new(self.process.clone()),
            context: Arc::new(context.with_store(Arc::new(self.process.clone()))),
            events: EventFeed::new(),
        };
        let options = TurnOptions {
            token_budget: budget,
            ..TurnOptions::default()
        };
        Agent::new(
            parts,
            AgentSettings {
                options,
                ..AgentSettings::default()
            },
        )
    }
}

pub(super) struct Play {
    parts: Parts,
    agent: Agent,
    sessions: [SessionState; SESSIONS],
    /// Total duration of silences.
    silence: chrono::TimeDelta,
    /// `true` if conversations may be shortened: they have a budget, or a vendor has refused one.
    may_shorten: bool,
    /// Counter that makes messages, facts and pictures distinct.
    number: u32,
    pub(super) counts: Counts,
}

impl Play {
    pub(super) fn new(habits: Habits) -> Self {
        let may_shorten = habits.budget > 0;
        let parts = Parts::new(habits);
        let agent = parts.agent();
        let play = Self {
            parts,
            agent,
            sessions: Default::default(),
            silence: chrono::TimeDelta::zero(),
            may_shorten,
            number: 0,
            counts: Counts::default(),
        };
        play.fill_registry();
        play
    }

    fn file(&self, name: &str) -> PathBuf {
        self.parts.root.path().join(name)
    }

    fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn fill_registry(&self) {
        let own = |name, says: String| Small::new(name, ToolSource::BuiltIn, says);
        let tools = [
            own("list", "a.txt".to_owned()),
            own("read", "很长的 text ".repeat(120)),
            own("remember", "ok".to_owned()).writing(Arc::clone(&self.parts.memory)),
        ];
        for tool in tools {
            self.parts.registry.register(Arc::new(tool)).unwrap();
        }
    }

    /// Ends the process and starts another one.
    fn restart(&mut self, appends: usize, external: &[usize]) {
        self.parts.process = self.parts.process.next(appends);
        self.parts.registry = Arc::new(Registry::new());
        self.fill_registry();
        self.connect(external);
        self.agent = self.parts.agent();
        self.sessions
            .iter_mut()
            .for_each(|known| known.recorded = 0);
    }

    fn connected(&self) -> Vec<usize> {
        let specs = self.parts.registry.specs();
        specs
            .iter()
            .filter_map(|spec| spec.name.as_str().strip_prefix("mcp_")?.parse().ok())
            .collect()
    }

    fn connect(&self, external: &[usize]) {
        for number in external {
            let tool = Small::new(&format!("mcp_{number}"), ToolSource::External, "external");
            // A tool that is already registered is kept.
            let _there_already = self.parts.registry.register(Arc::new(tool));
        }
    }

    fn may_break(&mut self, event: MissEvent) {
        for known in &mut self.sessions {
            known.causes.insert(event);
        }
    }

    pub(super) async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Turn {
                session,
                from,
                rounds,
                thinks,
                picture,
                fault,
            } => {
                let answers = self.answers(rounds, *thinks);
                self.script_answers(fault_answers(*fault).into_iter().chain(answers));
                let turn = self.turn(*session, *from, rounds, *picture);
                self.may_shorten |= matches!(fault, ModelFault::TooLong);
                self.run_turn(turn, CancellationToken::new()).await.unwrap();
                self.compare(*session).await
            }
            Step::Crash {
                session,
                rounds,
                appends,
            } => self.crash(*session, rounds, *appends).await,
            Step::Stop { session } => {
                let cancel = CancellationToken::new();
                self.script_answers([Answer::Stopped(cancel.clone())]);
                let turn = self.turn(*session, From::Person, &[], false);
                self.run_turn(turn, cancel).await.unwrap();
                self.compare(*session).await
            }
            Step::Restart { what, external } => {
                self.restart_with(*what, external);
                Ok(())
            }
            Step::New { session } => {
                self.agent.reset(&NAMES[*session].into()).await.unwrap();
                self.sessions[*session]
                    .causes
                    .extend([MissEvent::Reset, MissEvent::Renewed]);
                Ok(())
            }
            Step::Consolidate { session } => self.consolidate(*session).await,
            Step::Rewind { session, messages } => self.rewind(*session, *messages).await,
            quiet => {
                self.apply(quiet);
                Ok(())
            }
        }
    }

    /// Applies a step that is not part of any session.
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Memory => {
                let fact = self.fact();
                *self.parts.memory.facts.lock().unwrap() = fact;
            }
            Step::DayNote => {
                let fact = self.fact();
                *self.parts.memory.note.lock().unwrap() = Some(fact);
            }
            Step::Bootstrap => std::fs::write(self.file("AGENTS.md"), self.fact()).unwrap(),
            Step::Skill => {
                self.parts.skills.0.fetch_add(1, Ordering::Relaxed);
            }
            Step::Connect(external) => self.connect(external),
            Step::Disconnect(number) => drop(
                self.parts
                    .registry
                    .remove(&format!("mcp_{number}").as_str().into()),
            ),
            Step::Reconnect(order) => {
                let there = self.connected();
                for number in &there {
                    self.parts
                        .registry
                        .remove(&format!("mcp_{number}").as_str().into());
                }
                let back: Vec<usize> = order
                    .iter()
                    .chain(&there)
                    .copied()
                    .filter(|tool| there.contains(tool))
                    .collect();
                self.connect(&back);
            }
            Step::Silence => {
                self.silence += chrono::TimeDelta::hours(2);
                self.may_break(MissEvent::ColdEpoch);
            }
            Step::Pictures { there } => {
                for number in 0..=self.number {
                    let path = self.file(&format!("picture-{number}.png"));
                    match there {
                        true if self.number > 0 => std::fs::write(path, PIXEL).unwrap(),
                        _ => drop(std::fs::remove_file(path)),
                    }
                }
            }
            _ => unreachable!("{step:?} belongs to a session"),
        }
    }

    fn fact(&mut self) -> String {
        format!("# Fact {}: she likes \"tea\" 茶", self.next_number())
    }

    fn restart_with(&mut self, what: Restart, external: &[usize]) {
        match what {
            Restart::Same => {}
            Restart::Renamed => {
                self.parts.name = format!("Mika {}", self.next_number());
                self.may_break(MissEvent::ConfigChanged);
            }
            Restart::Lost => {
                self.parts.process.lose_notes();
                self.may_break(MissEvent::LostState);
                self.sessions
                    .iter_mut()
                    .for_each(|known| known.forgotten = true);
            }
        }
        self.restart(usize::MAX, external);
    }

    async fn crash(
        &mut self,
        session: usize,
        rounds: &[Round],
        appends: usize,
    ) -> Result<(), TestCaseError> {
        let answers = self.answers(rounds, false);
        let external = self.connected();
        let turn = self.turn(session, From::Person, rounds, false);
        self.restart(appends, &external);
        self.script_answers(answers.clone());
        let before = self.answered(session).await;
        let ended = self.run_turn(turn.clone(), CancellationToken::new()).await;
        let causes = self.sessions[session].causes.clone();
        self.compare(session).await?;
        if ended.is_err() {
            // The process has lost its memory of the requests, so the causes still apply.
            self.sessions[session].causes.extend(causes);
            self.sessions[session].causes.insert(MissEvent::LostState);
            self.sessions[session].forgotten = true;
        }
        let recorded = self.answered(session).await - before;
        self.restart(usize::MAX, &external);
        self.script_answers(answers.into_iter().skip(recorded));
        self.run_turn(turn, CancellationToken::new()).await.unwrap();
        self.compare(session).await
    }

    /// Returns the number of the model's answers in a session.
    async fn answered(&self, session: usize) -> usize {
        let view = self
            .parts
            .process
            .read(&NAMES[session].into(), ReadFrom::Seq(Seq(0)))
            .await
            .unwrap();
        let is_answer = |entry: &Entry| matches!(entry, Entry::Message(entry) if entry.message.role() == "assistant");
        view.records
            .iter()
            .filter(|record| is_answer(&record.entry))
            .count()
    }

    async fn consolidate(&mut self, session: usize) -> Result<(), TestCaseError> {
        let key = SessionKey::from(NAMES[session]);
        let view = self
            .parts
            .process
            .read(&key, ReadFrom::Cursor)
            .await
            .unwrap();
        let is_user = |entry: &Entry| matches!(entry, Entry::Message(entry) if entry.message.role() == "user");
        let last = view
            .records
            .iter()
            .rev()
            .find(|record| is_user(&record.entry))
            .map(|record| record.seq);
        if let Some(upto) = last {
            self.parts
                .process
                .append(&key, view.head, vec![Entry::Consolidated { upto }])
                .await
                .unwrap();
            self.sessions[session].causes.insert(MissEvent::Compaction);
        }
        Ok(())
    }

    async fn rewind(&mut self, session: usize, messages: u64) -> Result<(), TestCaseError> {
        let key = SessionKey::from(NAMES[session]);
        let view = self
            .parts
            .process
            .read(&key, ReadFrom::Cursor)
            .await
            .unwrap();
        let to = Seq(view.head.0.saturating_sub(messages).max(view.cursor.0));
        rewind(&self.parts.process, &key, to).await.unwrap();
        self.sessions[session].causes.insert(MissEvent::Rewound);
        Ok(())
    }

    /// Sets the model's next answers.
    fn script_answers(&self, answers: impl IntoIterator<Item = Answer>) {
        *self.parts.script.answers.lock().unwrap() = answers.into_iter().collect();
    }

    fn answers(&mut self, rounds: &[Round], thinks: bool) -> Vec<Answer> {
        let mut answers = Vec::new();
        for round in rounds {
            let calls = round
                .calls
                .iter()
                .map(|call| self.scripted(*call))
                .collect();
            answers.push(Answer::Calls { calls, thinks });
        }
        answers.push(Answer::Text { thinks });
        answers
    }

    fn scripted(&mut self, call: Call) -> (String, String) {
        let number = self.next_number();
        let (name, arguments) = match call {
            Call::List => (
                "list".to_owned(),
                json!({"what": number.to_string()}).to_string(),
            ),
            Call::Read => (
                "read".to_owned(),
                json!({"what": number.to_string()}).to_string(),
            ),
            Call::Remember => (
                "remember".to_owned(),
                json!({"what": format!("# Ann likes tea {number}")}).to_string(),
            ),
            Call::Malformed => ("read".to_owned(), "{\"what\": \"a".to_owned()),
            Call::Unknown => ("teleport".to_owned(), "{}".to_owned()),
            Call::External(tool) => (
                format!("mcp_{tool}"),
                json!({"what": number.to_string()}).to_string(),
            ),
        };
        (name, arguments)
    }

    fn turn(&mut self, session: usize, from: From, rounds: &[Round], picture: bool) -> Turn {
        let number = self.next_number();
        let mut media = Vec::new();
        if picture {
            let path = self.file(&format!("picture-{number}.png"));
            std::fs::write(&path, PIXEL).unwrap();
            media.push(MediaRef::new(path.to_str().unwrap()));
        }
        let (channel, chat) = NAMES[session].split_once(':').unwrap();
        let origin = match from {
            From::Person => Origin::User,
            From::Cron => Origin::Cron { job: "job".into() },
            From::Heartbeat => Origin::Heartbeat,
        };
        let steered = rounds
            .iter()
            .map(|round| round.steering.iter().cloned().collect());
        let facts = TurnFacts {
            session: NAMES[session].into(),
            channel: channel.into(),
            chat_id: chat.into(),
            message_id: None,
            sender: None,
            chat: None,
            delivery: DeliveryContext::default(),
            metadata: Map::new(),
            origin,
        };
        let steering = [Vec::new()].into_iter().chain(steered).collect();
        let entry = self.entry(&facts, format!("say {number}"), media, Some(number));
        Turn {
            facts,
            entry,
            steering,
        }
    }

    fn entry(
        &self,
        facts: &TurnFacts,
        text: String,
        media: Vec<MediaRef>,
        id: Option<u32>,
    ) -> MessageEntry {
        let user = UserMessage {
            content: Content::Text(text),
            media,
        };
        let at = chrono::Local::now().fixed_offset() + self.silence;
        let runtime = self
            .agent
            .runtime_block(&at, &facts.channel, &facts.chat_id);
        MessageEntry {
            inbound: id.map(|id| format!("{}:{id}", facts.session).into()),
            runtime: Some(runtime),
            at,
            ..MessageEntry::new(ChatMessage::User(user))
        }
    }

    async fn run_turn(
        &self,
        turn: Turn,
        cancel: CancellationToken,
    ) -> Result<TurnReport, AgentError> {
        let mut steering = TurnSteering {
            play: self,
            facts: turn.facts.clone(),
            batches: turn.steering,
        };
        let request = TurnRequest {
            entry: turn.entry,
            facts: turn.facts,
            trace: "turn".into(),
            observer: Arc::new(|_: Signal| {}),
            cancel,
            interrupt: CancellationToken::new(),
            steering: &mut steering,
        };
        self.agent.run_turn(request).await
    }

    /// Compares the requests of the turn that just ended with the previous ones.
    async fn compare(&mut self, session: usize) -> Result<(), TestCaseError> {
        let asked = std::mem::take(&mut *self.parts.script.asked.lock().unwrap());
        let report = self.agent.usage_report(&NAMES[session].into()).await;
        let known = &mut self.sessions[session];
        let mut may_be = known.causes.clone();
        if self.may_shorten {
            may_be.insert(MissEvent::Compaction);
        }
        let mut breaks = 0;
        let mut shares = u64::MAX;
        let mut told = String::new();
        let answered = asked.into_iter().filter(|asked| asked.answered);
        for seen in answered.map(SentRequest::of) {
            self.counts.requests += 1;
            if let Some(last) = known.last.take().filter(|last| !seen.begins_with(last)) {
                breaks += 1;
                shares = seen.shares(&last);
                told = first_difference(&last, &seen);
                if seen.by != last.by {
                    may_be.insert(MissEvent::ProviderSwitch);
                }
                if seen.tools() != last.tools() {
                    may_be.insert(MissEvent::ToolsChanged);
                }
                if plain(&seen.request).contains("picture")
                    || plain(&last.request).contains("image")
                {
                    may_be.insert(MissEvent::ImagesDropped);
                }
            }
            known.last = Some(seen);
            known.causes.clear();
        }
        let recorded = report.misses - known.recorded;
        known.recorded = report.misses;
        let slack = u64::from(known.forgotten);
        prop_assert!(
            (breaks..=breaks + slack).contains(&recorded)
                || (known.forgotten && recorded + slack >= breaks),
            "{breaks} breaks, but {recorded} recorded ({:?})\n{told}",
            report.last_miss
        );
        if recorded > 0 {
            let miss = report.last_miss.unwrap();
            *self
                .counts
                .misses
                .entry(format!("{:?}", miss.event))
                .or_default() += recorded;
            prop_assert!(
                may_be.contains(&miss.event)
                    || (known.forgotten && miss.event != MissEvent::Unexplained),
                "{miss:?} is not among {may_be:?}\n{told}"
            );
            if recorded == breaks && !known.forgotten {
                prop_assert!(
                    miss.byte <= shares,
                    "{miss:?}, but {shares} bytes are shared\n{told}"
                );
            }
        }
        if known.causes.is_empty() {
            known.forgotten = false;
        }
        Ok(())
    }
}

/// Describes the first difference between two requests, as a vendor sees it.
fn first_difference(older: &SentRequest, newer: &SentRequest) -> String {
    let differs = |index: usize| {
        let (older, newer) = (&older.rendered[index], &newer.rendered[index]);
        let place = older
            .iter()
            .zip(newer)
            .position(|(older, newer)| older != newer);
        let place = place.unwrap_or_else(|| older.len().min(newer.len()));
        let shown = |rendered: &[String]| {
            rendered
                .get(place)
                .cloned()
                .unwrap_or_else(|| "nothing".to_owned())
        };
        format!(
            "{} element {place}\nbefore: {}\nafter: {}",
            MODELS[index],
            shown(older),
            shown(newer)
        )
    };
    format!(
        "{} then {}\n{}\n{}",
        older.by,
        newer.by,
        differs(0),
        differs(1)
    )
}

/// A message, and the messages that arrive while its turn runs.
#[derive(Clone)]
struct Turn {
    facts: TurnFacts,
    entry: MessageEntry,
    steering: VecDeque<Vec<String>>,
}

struct TurnSteering<'a> {
    play: &'a Play,
    facts: TurnFacts,
    batches: VecDeque<Vec<String>>,
}

#[async_trait]
impl Steering for TurnSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let batch = self.batches.pop_front().unwrap_or_default();
        batch
            .into_iter()
            .map(|text| self.play.entry(&self.facts, text, Vec::new(), None))
            .collect()
    }
}

fn fault_answers(fault: ModelFault) -> Vec<Answer> {
    let refused = || Answer::Error(ProviderError::BadRequest("no".to_owned()));
    let too_long = || Answer::Error(ProviderError::ContextOverflow("too long".to_owned()));
    match fault {
        ModelFault::None => Vec::new(),
        ModelFault::Refused => vec![refused()],
        ModelFault::Locked => vec![Answer::Error(ProviderError::Auth(
            "the key is not valid".to_owned(),
        ))],
        ModelFault::Down => vec![refused(), refused(), refused(), refused()],
        ModelFault::TooLong => vec![too_long(), too_long()],
        ModelFault::BrokenOff => vec![Answer::BreaksOff],
    }
}
