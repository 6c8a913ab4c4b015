//! Promise 3: rendered as tools, system, messages, a request is a prefix of the next one of its
//! session, unless a named event says why not.
//!
//! Random histories run through the real clients; what is compared is the bytes that arrived.

use nanobot_agent_core::Agent;
use nanobot_session::TurnOutcome;
use nanobot_testkit::model_server::{Api, ModelRequest};
use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use nanobot_types::MediaRef;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::world::{Said, World, say, today, vendor};

const SESSIONS: [&str; 2] = ["telegram:1", "telegram:2"];
const CASES: u32 = 24;
/// A red dot.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A person says something, and the model answers after so many rounds of tools.
    Turn { session: usize, rounds: Vec<Round>, thinks: bool, picture: bool },
    /// The model cannot be asked: the turn ends with an explanation, the message stays.
    Failure { session: usize },
    /// Memory is written by something else than a turn.
    Memory,
    /// The note of today grows.
    DayNote,
    /// The process ends and another one begins.
    Restart,
    /// `/new`.
    New { session: usize },
}

/// One answer of the model that calls tools, and what the person says until the results are in.
#[derive(Clone, Debug)]
struct Round {
    calls: Vec<Call>,
    meanwhile: Option<String>,
}

#[derive(Clone, Debug)]
enum Call {
    List,
    ReadMissing,
    Remember,
    Malformed,
    Unknown,
}

impl Call {
    fn scripted(&self) -> ScriptedCall {
        match self {
            Self::List => ScriptedCall::new("list_dir", &json!({"path": "."})),
            Self::ReadMissing => ScriptedCall::new("read_file", &json!({"path": "nothing.txt"})),
            Self::Remember => {
                ScriptedCall::new("write_file", &json!({"path": "memory/MEMORY.md", "content": "# Ann likes tea\n"}))
            }
            Self::Malformed => {
                ScriptedCall { id: None, name: "read_file".to_owned(), arguments: "{\"path\": \"a".to_owned() }
            }
            Self::Unknown => ScriptedCall::new("teleport", &json!({})),
        }
    }
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        Just(Call::List),
        Just(Call::ReadMissing),
        Just(Call::Remember),
        Just(Call::Malformed),
        Just(Call::Unknown)
    ]
}

fn round() -> impl Strategy<Value = Round> {
    (prop::collection::vec(call(), 1..3), prop::option::of("[a-z你好🐈 ]{1,12}"))
        .prop_map(|(calls, meanwhile)| Round { calls, meanwhile })
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        6 => (session.clone(), prop::collection::vec(round(), 0..3), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(session, rounds, thinks, picture)| Step::Turn { session, rounds, thinks, picture }),
        1 => session.clone().prop_map(|session| Step::Failure { session }),
        1 => Just(Step::Memory),
        1 => Just(Step::DayNote),
        2 => Just(Step::Restart),
        1 => session.prop_map(|session| Step::New { session }),
    ]
}

/// What is known of a session between its requests.
#[derive(Default)]
struct Known {
    last: Option<ModelRequest>,
    /// A new process has not asked for its prompt yet.
    restarted: bool,
    /// Memory was written since its prompt was built.
    remembered: bool,
    /// `/new` was said: another conversation begins.
    reset: bool,
}

/// Plays a history and watches its requests.
struct Play {
    vendor: &'static str,
    world: World,
    server: ModelServer,
    agent: Agent,
    /// Requests that were compared.
    seen: usize,
    sessions: [Known; SESSIONS.len()],
    notes: u32,
}

impl Play {
    async fn new(name: &'static str) -> Self {
        let world = World::new();
        let server = ModelServer::scripted([]).await.unwrap();
        let agent = world.agent([vendor(name, &server)]);
        Self { vendor: name, world, server, agent, seen: 0, sessions: Default::default(), notes: 0 }
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Turn { session, rounds, thinks, picture } => self.turn(*session, rounds, *thinks, *picture).await,
            Step::Failure { session } => {
                self.server.push(Reply::error(401, "the key is not valid"));
                let report = say(&self.agent, SESSIONS[*session], Said::text("will fail")).await.unwrap();
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
                self.agent = self.world.agent([vendor(self.vendor, &self.server)]);
                self.sessions.iter_mut().for_each(|known| known.restarted = true);
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
        self.notes += 1;
        self.world.write(file, format!("# Fact {}\n", self.notes));
        self.sessions.iter_mut().for_each(|known| known.remembered = true);
    }

    async fn turn(
        &mut self,
        session: usize,
        rounds: &[Round],
        thinks: bool,
        picture: bool,
    ) -> Result<(), TestCaseError> {
        let thinking = |reply: Reply| if thinks { reply.with_reasoning("hm, let me see", "signature") } else { reply };
        for round in rounds {
            self.server.push(thinking(Reply::calls(round.calls.iter().map(Call::scripted))));
        }
        self.server.push(thinking(Reply::text("done")));
        let mut said = Said::text("do something");
        if picture {
            let path = self.world.write("pixel.png", PIXEL);
            said.media.push(MediaRef::new(path.to_str().unwrap()));
        }
        let steered = rounds.iter().map(|round| round.meanwhile.iter().cloned().collect());
        said.meanwhile = [Vec::new()].into_iter().chain(steered).collect();
        let report = say(&self.agent, SESSIONS[session], said).await.unwrap();
        prop_assert_eq!(report.visible.as_deref(), Some("done"));
        self.compare(session)?;
        if rounds.iter().flat_map(|round| &round.calls).any(|call| matches!(call, Call::Remember)) {
            self.sessions.iter_mut().for_each(|known| known.remembered = true);
        }
        Ok(())
    }

    /// Holds the requests of the turn that just ended against those before them.
    fn compare(&mut self, session: usize) -> Result<(), TestCaseError> {
        let requests = self.server.requests();
        let known = &mut self.sessions[session];
        for request in requests.into_iter().skip(self.seen) {
            self.seen += 1;
            let prompt = elements(&request);
            let before = known.last.as_ref().map(elements).unwrap_or_default();
            let system = request.tool_names().len();
            let changed: Vec<usize> =
                (0..before.len()).filter(|place| before.get(*place) != prompt.get(*place)).collect();
            let may_change: &[usize] = match known.remembered && (known.restarted || known.reset) {
                true => &[system],
                false => &[],
            };
            if known.reset {
                // Of the old conversation nothing is left; tools and prompt are.
                prop_assert!(request.messages().iter().all(|message| message["role"] != "assistant"));
                prop_assert!(changed.iter().all(|place| *place > system || may_change.contains(place)));
            } else {
                prop_assert!(
                    changed.iter().all(|place| may_change.contains(place)),
                    "{}",
                    difference(&before, &prompt)
                );
            }
            if known.restarted || known.reset {
                known.remembered = false;
            }
            (known.restarted, known.reset) = (false, false);
            known.last = Some(request);
        }
        Ok(())
    }
}

/// A message as blocks, unparsed.
#[derive(Deserialize)]
struct Blocks<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// What a vendor's cache compares. At Anthropic, where messages of one role in a row are one
/// message, that is blocks.
fn elements(request: &ModelRequest) -> Vec<String> {
    let prompt = request.prompt();
    match request.api {
        Api::OpenAi => prompt,
        Api::Anthropic => prompt.into_iter().flat_map(blocks).collect(),
    }
}

fn blocks(element: String) -> Vec<String> {
    match serde_json::from_str::<Blocks<'_>>(&element) {
        Ok(Blocks { role, content }) => content.into_iter().map(|block| format!("{role} {}", block.get())).collect(),
        Err(_) => vec![element],
    }
}

/// Where two prompts part.
fn difference(before: &[String], after: &[String]) -> String {
    let place = before.iter().zip(after).position(|(before, after)| before != after);
    let place = place.unwrap_or_else(|| before.len().min(after.len()));
    let shown = |prompt: &[String]| prompt.get(place).cloned().unwrap_or_else(|| "nothing".to_owned());
    format!("element {place} of the prompt changed\nbefore: {}\nafter: {}", shown(before), shown(after))
}

/// Plays random histories through the client of a vendor.
fn histories_through(name: &'static str, cases: u32) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
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
fn a_request_is_a_prefix_of_the_next_one_at_an_openai_server() {
    histories_through("openai", CASES);
}

#[test]
fn a_request_is_a_prefix_of_the_next_one_at_anthropic() {
    histories_through("anthropic", CASES);
}
