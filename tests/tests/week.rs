//! A scripted week: five hundred turns in one conversation, with three vendors, restarts, kills,
//! and a model that sometimes fails to summarize. All facts are remembered, no request exceeds the
//! window, and nothing is summarized twice.
//!
//! The tokens of a request are counted by a tokenizer that shares nothing with the program's own
//! estimates, and reported by the servers as vendors do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_agent_core::{
    Agent, AgentParts, AgentSettings, ConsolidationSettings, NoNotifier, TurnOptions,
};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{Candidate, ProviderRouter};
use nanobot_session::{Durability, Entry, ReadFrom, SessionStore as _};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use nanobot_types::{SessionKey, Usage};
use serde_json::json;
use tiktoken_rs::CoreBPE;

use crate::world::{UserTurn, World, run_turn, today, vendor};

const SESSION: &str = "telegram:7";
const VENDORS: [&str; 3] = ["openai", "anthropic", "deepseek"];
const TURNS: usize = 500;
/// Number of turns from one fact to the next.
const EVERY: usize = 12;
const WINDOW: usize = 8_000;
const OUTPUT: usize = 1_000;

/// State shared by the servers of all vendors: they count tokens, and answer as the same model.
struct Model {
    tokenizer: CoreBPE,
    counted: HashMap<String, usize>,
    /// Tokens of the newest request, and of its newest message.
    newest: (usize, usize),
    largest: usize,
    summaries: usize,
}

impl Model {
    fn new() -> Self {
        let tokenizer = tiktoken_rs::cl100k_base().unwrap();
        Self {
            tokenizer,
            counted: HashMap::new(),
            newest: (0, 0),
            largest: 0,
            summaries: 0,
        }
    }

    fn count(&mut self, element: &str) -> usize {
        if let Some(tokens) = self.counted.get(element) {
            return *tokens;
        }
        let tokens = self.tokenizer.encode_ordinary(element).len();
        self.counted.insert(element.to_owned(), tokens);
        tokens
    }

    fn answer(&mut self, request: &ModelRequest) -> Reply {
        let sizes: Vec<usize> = request
            .prompt()
            .iter()
            .map(|element| self.count(element))
            .collect();
        let total = sizes.iter().sum();
        self.largest = self.largest.max(total);
        let reply = if request.tool_names().contains(&"save_memory") {
            self.summarise(&request.last_user_text())
        } else {
            self.newest = (total, sizes.last().copied().unwrap_or_default());
            converse(request)
        };
        reply.with_usage(Usage {
            prompt_tokens: total as u64,
            completion_tokens: 40,
            ..Usage::default()
        })
    }

    /// Returns a summary with all facts of the conversation. Sometimes it fails to.
    fn summarise(&mut self, text: &str) -> Reply {
        self.summaries += 1;
        if self.summaries.is_multiple_of(7) {
            return Reply::text("I will remember all of this.");
        }
        let (memory, conversation) = text.split_once("# Conversation").unwrap();
        let known = memory
            .replace("# Current Long-term Memory", "")
            .replace("(empty)", "");
        let facts = facts_in(conversation);
        let memory: Vec<String> = facts.iter().map(|fact| format!("- {fact}")).collect();
        Reply::call(
            "save_memory",
            &json!({
                "history_entry": format!("[2026-11-22 10:00] summary-{} of {}", self.summaries, facts.join(" ")),
                "memory_update": format!("{}\n{}", known.trim(), memory.join("\n")),
            }),
        )
    }
}

fn converse(request: &ModelRequest) -> Reply {
    let asks =
        |words: &str| request.last_user_text().contains(words) && request.tool_results().is_empty();
    if asks("look around") {
        Reply::call("list_dir", &json!({"path": "."}))
    } else if asks("read the long file") {
        Reply::call("read_file", &json!({"path": "long.txt"}))
    } else {
        Reply::text(
            "Understood. I have made a note of that and will come back to it when the time comes. 好的，我记住了。",
        )
    }
}

/// Finds facts such as `locker-12=Q0144;`.
fn facts_in(text: &str) -> Vec<String> {
    let ends: Vec<&str> = text
        .split("locker-")
        .skip(1)
        .filter_map(|rest| rest.split_once(';').map(|(fact, _)| fact))
        .collect();
    ends.into_iter()
        .map(|fact| format!("locker-{fact};"))
        .collect()
}

fn fact(number: usize) -> String {
    format!("locker-{number}=Q{};", 1000 + number * 12)
}

/// Returns the user's message in a turn.
fn words(turn: usize) -> String {
    let prose = "We talked about the garden, the budget for spring and what Ann wrote from 上海 last week. "
        .repeat(1 + turn % 7);
    match turn {
        _ if turn.is_multiple_of(EVERY) => {
            format!("{prose} Please remember {} for me.", fact(turn / EVERY))
        }
        _ if turn % 31 == 5 => format!("Please read the long file. {prose}"),
        _ if turn % 17 == 3 => format!("Please look around. {prose}"),
        _ => prose,
    }
}

fn assistant(world: &World, candidate: Candidate) -> Agent {
    let memory = Arc::new(MarkdownStore::new(world.workspace().join("memory")));
    let settings = ContextSettings {
        today,
        ..ContextSettings::new(world.workspace())
    };
    let parts = AgentParts {
        router: Arc::new(ProviderRouter::new([candidate], world.policy.clone())),
        registry: Arc::new(world.registry()),
        sessions: Arc::new(world.sessions().with_durability(Durability::Os)),
        context: Arc::new(ContextBuilder::new(settings, memory)),
        events: EventFeed::new(),
    };
    let consolidation = ConsolidationSettings {
        window: WINDOW,
        max_output: OUTPUT,
        ..ConsolidationSettings::default()
    };
    let options = TurnOptions {
        token_budget: consolidation.budget(),
        max_result_chars: 4_000,
        ..TurnOptions::default()
    };
    let settings = AgentSettings {
        options,
        consolidation,
        results_folder: Some(world.root().join("tool-results")),
        calibration_file: Some(world.root().join("tokens.json")),
        ..AgentSettings::default()
    };
    Agent::new(parts, settings)
}

#[tokio::test]
async fn week_is_remembered_within_the_window() {
    let world = World::new();
    world.write(
        "long.txt",
        "a line of a long file that nobody reads to its end\n".repeat(3_000),
    );
    let model = Arc::new(Mutex::new(Model::new()));
    let mut servers = Vec::new();
    for _ in VENDORS {
        let shared = model.clone();
        servers.push(
            ModelServer::answering(move |request| shared.lock().unwrap().answer(request))
                .await
                .unwrap(),
        );
    }
    let started = |number: usize| {
        let number = number % VENDORS.len();
        assistant(&world, vendor(VENDORS[number], &servers[number]))
    };
    let session = SessionKey::from(SESSION);
    let mut agent = started(0);
    for turn in 0..TURNS {
        if turn % 37 == 36 {
            // Killed, possibly during a summarization.
            agent.shut_down(Duration::ZERO).await;
            agent = started(turn / 37 + 1);
        }
        if turn == TURNS / 2 {
            agent.reset(&session).await.unwrap();
            agent.turn_published(&session, Arc::new(NoNotifier));
        }
        let is_measured = turn % 50 == 49;
        let estimated = if is_measured {
            agent.background_idle().await;
            Some(agent.context_report(&session).await.unwrap().total())
        } else {
            None
        };
        let report = run_turn(&agent, SESSION, UserTurn::text(words(turn)))
            .await
            .unwrap();
        assert!(
            report
                .visible
                .is_some_and(|text| text.starts_with("Understood.")),
            "turn {turn}"
        );
        if let Some(estimated) = estimated {
            let (total, newest) = model.lock().unwrap().newest;
            let counted = total - newest;
            assert!(
                estimated.abs_diff(counted) * 20 <= counted,
                "turn {turn}: {estimated} for {counted}"
            );
        }
        agent.turn_published(&session, Arc::new(NoNotifier));
        if turn % 10 < 7 {
            agent.background_idle().await;
        }
    }
    agent.background_idle().await;
    let (largest, asked) = {
        let model = model.lock().unwrap();
        (model.largest, model.summaries)
    };
    check(&world, largest, asked).await;
    for server in &servers {
        assert_eq!(server.violations(), Vec::<String>::new());
    }
}

/// Checks the size of the `largest` request, the number of summaries `asked` for, and the files on
/// disk.
async fn check(world: &World, largest: usize, asked: usize) {
    assert!(largest <= WINDOW - OUTPUT, "{largest} tokens in a request");
    let read =
        |name: &str| std::fs::read_to_string(world.workspace().join("memory").join(name)).unwrap();
    let (facts, history) = (read("MEMORY.md"), read("HISTORY.md"));
    let summaries = history.matches("summary-").count();
    assert!(summaries >= 20, "{summaries} summaries");
    for number in 1..=asked {
        assert!(
            history.matches(&format!("summary-{number} of")).count() <= 1,
            "summary {number} is repeated"
        );
    }
    let sessions = world.sessions();
    let view = sessions
        .read(&SESSION.into(), ReadFrom::Cursor)
        .await
        .unwrap();
    let raw = view
        .records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry.message.text()),
            _ => None,
        });
    let raw: String = raw.collect();
    let log = std::fs::read_to_string(world.workspace().join("sessions/telegram_7.jsonl")).unwrap();
    for number in 0..TURNS.div_ceil(EVERY) {
        let fact = fact(number);
        assert!(log.contains(&fact), "{fact} is not in the session");
        assert!(
            facts.contains(&fact) || history.contains(&fact) || raw.contains(&fact),
            "{fact} is forgotten"
        );
        assert!(
            history.matches(&fact).count() <= 1,
            "{fact} is summarised more than once"
        );
    }
}
