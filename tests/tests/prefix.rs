//! Promise 3: rendered as tools, system, messages, a request is a prefix of the next one of its
//! session, unless a named event explains the difference.
//!
//! Random histories run through the real clients, and the bytes received are compared.
//! [`crate::histories`] plays many more of them, with more events, without clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use nanobot_agent_core::{Agent, TurnReport};
use nanobot_session::{Entry, ReadFrom, Seq, SessionStore as _, TurnOutcome};
use nanobot_testkit::model_server::{ModelApi, ModelRequest};
use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use nanobot_types::MediaRef;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::world::{Dying, UserTurn, World, run_turn, today, vendor};

const SESSIONS: [&str; 2] = ["telegram:1", "telegram:2"];
const CASES: u32 = 24;
/// The beginning of a PNG file, enough to be recognized as one.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// One event of a history.
#[derive(Clone, Debug)]
enum Step {
    /// A user sends a message, and the model answers after `rounds` of tools.
    Turn {
        session: usize,
        rounds: Vec<Round>,
        thinks: bool,
        picture: bool,
    },
    /// The process is killed after `appends` records of a turn; another one continues it.
    Crash {
        session: usize,
        rounds: Vec<Round>,
        appends: usize,
    },
    /// A user stops the turn while the model is thinking.
    Stop { session: usize },
    /// The model is unreachable: the turn ends with an explanation, and the message is kept.
    Failure { session: usize },
    /// Memory is written outside a turn.
    Memory,
    /// Today's note grows.
    DayNote,
    /// The process ends and another one starts.
    Restart,
    /// `/new`.
    New { session: usize },
}

/// An answer of the model with tool calls, and a message that the user sends before their results.
#[derive(Clone, Debug)]
struct Round {
    calls: Vec<Call>,
    steering: Option<String>,
}

#[derive(Clone, Debug)]
enum Call {
    List,
    ReadMissing,
    Remember,
    Malformed,
    Unknown,
    /// Replies to the chat itself, so that the final reply is not shown.
    Message,
}

impl Call {
    fn scripted(&self) -> ScriptedCall {
        match self {
            Self::List => ScriptedCall::new("list_dir", &json!({"path": "."})),
            Self::ReadMissing => ScriptedCall::new("read_file", &json!({"path": "nothing.txt"})),
            Self::Remember => ScriptedCall::new(
                "write_file",
                &json!({"path": "memory/MEMORY.md", "content": "# Ann likes tea\n"}),
            ),
            Self::Malformed => ScriptedCall {
                id: None,
                name: "read_file".to_owned(),
                arguments: "{\"path\": \"a".to_owned(),
            },
            Self::Unknown => ScriptedCall::new("teleport", &json!({})),
            Self::Message => ScriptedCall::new("message", &json!({"content": "hello"})),
        }
    }
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        Just(Call::List),
        Just(Call::ReadMissing),
        Just(Call::Remember),
        Just(Call::Malformed),
        Just(Call::Unknown),
        Just(Call::Message),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    (
        prop::collection::vec(call(), 1..3),
        prop::option::of("[a-z你好🐈 ]{1,12}"),
    )
        .prop_map(|(calls, steering)| Round { calls, steering })
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        6 => (session.clone(), prop::collection::vec(round(), 0..3), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(session, rounds, thinks, picture)| Step::Turn { session, rounds, thinks, picture }),
        2 => (session.clone(), prop::collection::vec(round(), 0..3), 0..7_usize)
            .prop_map(|(session, rounds, appends)| Step::Crash { session, rounds, appends }),
        1 => session.clone().prop_map(|session| Step::Stop { session }),
        1 => session.clone().prop_map(|session| Step::Failure { session }),
        1 => Just(Step::Memory),
        1 => Just(Step::DayNote),
        2 => Just(Step::Restart),
        1 => session.prop_map(|session| Step::New { session }),
    ]
}

/// State of a session between its requests.
#[derive(Default)]
struct SessionState {
    last: Option<ModelRequest>,
    /// `true` if memory was written since its prompt was built.
    remembered: bool,
    /// `true` if `/new` was sent, which starts another conversation.
    reset: bool,
}

/// Plays a history and compares its requests.
struct Play {
    vendor: &'static str,
    world: World,
    server: ModelServer,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    agent: Agent,
    /// Number of requests that have been compared.
    seen: usize,
    sessions: [SessionState; SESSIONS.len()],
    /// Counter that makes messages and facts distinct.
    turns: u32,
}

impl Play {
    async fn new(name: &'static str) -> Self {
        let world = World::new();
        let replies: Arc<Mutex<VecDeque<Reply>>> = Arc::default();
        let queue = Arc::clone(&replies);
        let next =
            move |_: &ModelRequest| queue.lock().unwrap().pop_front().expect("no reply is left");
        let server = ModelServer::answering(next).await.unwrap();
        let agent = world.agent([vendor(name, &server)]);
        Self {
            vendor: name,
            world,
            server,
            replies,
            agent,
            seen: 0,
            sessions: Default::default(),
            turns: 0,
        }
    }

    /// Sets the model's next answers.
    fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        *self.replies.lock().unwrap() = replies.into_iter().collect();
    }

    fn restart(&mut self) {
        self.agent = self.world.agent([vendor(self.vendor, &self.server)]);
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Turn {
                session,
                rounds,
                thinks,
                picture,
            } => self.turn(*session, rounds, *thinks, *picture).await,
            Step::Crash {
                session,
                rounds,
                appends,
            } => self.crash(*session, rounds, *appends).await,
            Step::Stop { session } => self.stop(*session).await,
            Step::Failure { session } => {
                self.script([Reply::error(401, "the key is not valid")]);
                let report = run_turn(&self.agent, SESSIONS[*session], UserTurn::text("will fail"))
                    .await
                    .unwrap();
                prop_assert_eq!(report.ended, TurnOutcome::Failed);
                self.compare(*session)
            }
            Step::Memory => {
                self.note("memory/MEMORY.md");
                Ok(())
            }
            Step::DayNote => {
                self.note(&format!("memory/{}.md", today()));
                Ok(())
            }
            Step::Restart => {
                self.restart();
                Ok(())
            }
            Step::New { session } => {
                self.agent.reset(&SESSIONS[*session].into()).await.unwrap();
                self.sessions[*session].reset = true;
                Ok(())
            }
        }
    }

    fn note(&mut self, file: &str) {
        self.turns += 1;
        self.world.write(file, format!("# Fact {}\n", self.turns));
        self.sessions
            .iter_mut()
            .for_each(|known| known.remembered = true);
    }

    async fn turn(
        &mut self,
        session: usize,
        rounds: &[Round],
        thinks: bool,
        picture: bool,
    ) -> Result<(), TestCaseError> {
        self.script(answers(rounds, thinks));
        let mut said = UserTurn::text("do something");
        if picture {
            let path = self.world.write("pixel.png", PIXEL);
            said.media.push(MediaRef::new(path.to_str().unwrap()));
        }
        let steered = rounds
            .iter()
            .map(|round| round.steering.iter().cloned().collect());
        said.steering = [Vec::new()].into_iter().chain(steered).collect();
        let report = run_turn(&self.agent, SESSIONS[session], said)
            .await
            .unwrap();
        check_end(&report, rounds, true)?;
        self.compare(session)?;
        self.remember(rounds);
        Ok(())
    }

    async fn crash(
        &mut self,
        session: usize,
        rounds: &[Round],
        appends: usize,
    ) -> Result<(), TestCaseError> {
        self.turns += 1;
        let id = Some(self.turns.to_string());
        let message = || UserTurn {
            id: id.clone(),
            ..UserTurn::text("do something")
        };
        let answered = self.answers(session).await;
        let killed = Arc::new(Dying::new(self.world.sessions(), appends));
        let agent = self
            .world
            .agent_over([vendor(self.vendor, &self.server)], killed);
        self.script(answers(rounds, false));
        let ended = run_turn(&agent, SESSIONS[session], message()).await;
        self.compare(session)?;
        self.remember(rounds);
        // The model repeats the answers that were not recorded.
        let recorded = self.answers(session).await - answered;
        self.script(answers(rounds, false).into_iter().skip(recorded));
        self.restart();
        let report = run_turn(&self.agent, SESSIONS[session], message())
            .await
            .unwrap();
        prop_assert!(ended.is_err() || ended.is_ok_and(|ended| ended.visible == report.visible));
        check_end(&report, rounds, false)?;
        self.compare(session)?;
        self.remember(rounds);
        Ok(())
    }

    async fn stop(&mut self, session: usize) -> Result<(), TestCaseError> {
        self.script([Reply::hang()]);
        let said = UserTurn::text("think for ever");
        let cancel = said.cancel.clone();
        let asked = async {
            self.server.wait_for(self.seen + 1).await.unwrap();
            cancel.cancel();
        };
        let (report, ()) = tokio::join!(run_turn(&self.agent, SESSIONS[session], said), asked);
        prop_assert_eq!(report.unwrap().ended, TurnOutcome::Stopped);
        self.compare(session)
    }

    /// Returns the number of the model's answers in the session.
    async fn answers(&self, session: usize) -> usize {
        let view = self
            .world
            .sessions()
            .read(&SESSIONS[session].into(), ReadFrom::Seq(Seq(0)))
            .await
            .unwrap();
        let is_answer = |entry: &Entry| matches!(entry, Entry::Message(entry) if entry.message.role() == "assistant");
        view.records
            .iter()
            .filter(|record| is_answer(&record.entry))
            .count()
    }

    fn remember(&mut self, rounds: &[Round]) {
        if has_call(rounds, |call| matches!(call, Call::Remember)) {
            self.sessions
                .iter_mut()
                .for_each(|known| known.remembered = true);
        }
    }

    /// Compares the requests of the turn that just ended with the previous ones.
    fn compare(&mut self, session: usize) -> Result<(), TestCaseError> {
        let requests = self.server.requests();
        let known = &mut self.sessions[session];
        for request in requests.into_iter().skip(self.seen) {
            self.seen += 1;
            let prompt = elements(&request);
            let before = known.last.as_ref().map(elements).unwrap_or_default();
            let system = request.tool_names().len();
            let changed: Vec<usize> = (0..before.len())
                .filter(|place| before.get(*place) != prompt.get(*place))
                .collect();
            if known.reset {
                // Nothing of the old conversation is left. The tools are the same, and so is the
                // prompt except for memory.
                prop_assert!(
                    request
                        .messages()
                        .iter()
                        .all(|message| message["role"] != "assistant")
                );
                let may_change =
                    |place: usize| place > system || (known.remembered && place == system);
                prop_assert!(changed.iter().all(|place| may_change(*place)));
                (known.remembered, known.reset) = (false, false);
            } else {
                prop_assert!(changed.is_empty(), "{}", difference(&before, &prompt));
            }
            known.last = Some(request);
        }
        Ok(())
    }
}

/// Returns the model's answers of a turn.
fn answers(rounds: &[Round], thinks: bool) -> Vec<Reply> {
    let calls = rounds
        .iter()
        .map(|round| Reply::calls(round.calls.iter().map(Call::scripted)));
    let replies = calls.chain([Reply::text("done")]);
    replies
        .map(|reply| {
            if thinks {
                reply.with_reasoning("hm, let me see", "signature")
            } else {
                reply
            }
        })
        .collect()
}

fn has_call(rounds: &[Round], wanted: impl Fn(&Call) -> bool) -> bool {
    rounds.iter().flat_map(|round| &round.calls).any(wanted)
}

/// Checks the end of a turn. `steered` is `true` if the messages during the turn were sent.
fn check_end(report: &TurnReport, rounds: &[Round], steered: bool) -> Result<(), TestCaseError> {
    // A message that arrives after the `message` tool wrote is not answered by it.
    let is_answered = rounds.iter().fold(false, |before, round| {
        (before
            || has_call(std::slice::from_ref(round), |call| {
                matches!(call, Call::Message)
            }))
            && !(steered && round.steering.is_some())
    });
    prop_assert_eq!(report.visible.as_deref(), (!is_answered).then_some("done"));
    Ok(())
}

/// A message as unparsed blocks.
#[derive(Deserialize)]
struct Blocks<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// Returns the elements that a vendor's cache compares. At Anthropic these are blocks, because
/// consecutive messages of one role are merged.
fn elements(request: &ModelRequest) -> Vec<String> {
    let prompt = request.prompt();
    match request.api {
        ModelApi::OpenAi | ModelApi::Responses => prompt,
        ModelApi::Anthropic => prompt.into_iter().flat_map(blocks).collect(),
    }
}

fn blocks(element: String) -> Vec<String> {
    match serde_json::from_str::<Blocks<'_>>(&element) {
        Ok(Blocks { role, content }) => content
            .into_iter()
            .map(|block| format!("{role} {}", block.get()))
            .collect(),
        Err(_) => vec![element],
    }
}

/// Describes the first difference between two prompts.
fn difference(before: &[String], after: &[String]) -> String {
    let place = before
        .iter()
        .zip(after)
        .position(|(before, after)| before != after);
    let place = place.unwrap_or_else(|| before.len().min(after.len()));
    let shown = |prompt: &[String]| {
        prompt
            .get(place)
            .cloned()
            .unwrap_or_else(|| "nothing".to_owned())
    };
    format!(
        "element {place} of the prompt changed\nbefore: {}\nafter: {}",
        shown(before),
        shown(after)
    )
}

/// Plays random histories through the client of a vendor.
fn histories_through(name: &'static str, cases: u32) {
    // The histories are the same in every run, so that a failure can be reproduced.
    let config = Config {
        rng_seed: RngSeed::Fixed(7),
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let played = TestRunner::new(config).run(&prop::collection::vec(step(), 1..10), |steps| {
        runtime.block_on(async {
            let mut play = Play::new(name).await;
            for step in &steps {
                play.step(step).await?;
            }
            prop_assert_eq!(play.server.violations(), Vec::<String>::new());
            Ok(())
        })
    });
    if let Err(failure) = played {
        panic!("{failure}");
    }
}

#[test]
fn openai_requests_extend_the_previous_one() {
    histories_through("openai", CASES);
}

#[test]
fn anthropic_requests_extend_the_previous_one() {
    histories_through("anthropic", CASES);
}
