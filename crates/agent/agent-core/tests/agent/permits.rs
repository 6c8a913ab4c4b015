//! The limit of concurrent turns.

use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentSettings, DirectRequest, Signal, TurnReport};
use nanobot_context::Purpose;
use nanobot_session::TurnOutcome;
use nanobot_testkit::{Gate, Reply, ScriptedProvider};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

/// An agent that runs one turn at a time, and whose model answers once the gate is open.
struct Crowd {
    world: World,
    agent: Arc<Agent>,
    turns: TaskTracker,
    /// Wakes up when a turn waits for another.
    is_waiting: Arc<Notify>,
}

impl Crowd {
    fn new(gate: &Gate) -> Self {
        let gate = gate.clone();
        let world = World::new(ScriptedProvider::answering(move |_| {
            Reply::text("done").after(&gate)
        }));
        let parts = world.parts(world.registry(), Purpose::Assistant);
        let settings = AgentSettings {
            max_concurrent_turns: 1,
            ..world.settings()
        };
        Self {
            agent: Arc::new(Agent::new(parts, settings)),
            world,
            turns: TaskTracker::new(),
            is_waiting: Arc::default(),
        }
    }

    fn start(&self, session: &str, cancel: &CancellationToken) -> JoinHandle<TurnReport> {
        let is_waiting = self.is_waiting.clone();
        let observer = move |signal: Signal| {
            if let Signal::Notice(text) = signal {
                assert!(text.starts_with("1 turns are running, "), "{text}");
                is_waiting.notify_one();
            }
        };
        let request = DirectRequest {
            cancel: cancel.clone(),
            ..DirectRequest::new("hi")
                .in_session(session)
                .with_observer(Arc::new(observer))
        };
        let agent = self.agent.clone();
        self.turns
            .spawn(async move { agent.process_direct(request).await.unwrap() })
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_another_says_so_and_runs_afterwards() {
    let gate = Gate::new();
    let crowd = Crowd::new(&gate);
    let never = CancellationToken::new();
    let turns = [crowd.start("a", &never), crowd.start("b", &never)];
    crowd.is_waiting.notified().await;
    gate.open();
    for turn in turns {
        assert_eq!(turn.await.unwrap().visible.as_deref(), Some("done"));
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_while_it_waits_ends_without_a_model_call() {
    let gate = Gate::new();
    let crowd = Crowd::new(&gate);
    let stop = [CancellationToken::new(), CancellationToken::new()];
    let turns = [crowd.start("a", &stop[0]), crowd.start("b", &stop[1])];
    crowd.is_waiting.notified().await;
    stop.iter().for_each(CancellationToken::cancel);
    for turn in turns {
        assert_eq!(turn.await.unwrap().ended, TurnOutcome::Stopped);
    }
    assert!(crowd.world.provider.requests().len() <= 1);
    let mut ends = Vec::new();
    for session in ["a", "b"] {
        ends.extend(crowd.world.log(session).await.last().cloned());
    }
    assert_eq!(ends, ["end: Stopped", "end: Stopped"]);
}
