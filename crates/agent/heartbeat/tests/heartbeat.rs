//! A heartbeat from the file to the message on the bus, and the evaluation of its reply, with a
//! scripted model.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, FixedOffset};
use nanobot_bus::{Bus as _, Ledger as _, LedgerFilter, MemoryBus, Queue};
use nanobot_heartbeat::{
    Decider, Evaluator, HeartbeatOutcome, HeartbeatParts, HeartbeatService, HeartbeatSettings,
    HeartbeatTargets,
};
use nanobot_provider::{
    CallPurpose, Candidate, Consumption, Generation, ProviderRouter, RetryPolicy, ToolChoice,
};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{ChatAddress, DeliveryContext, InboundMessage, Origin};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const TASKS: &str = "# Heartbeat\n\n## Active Tasks\n\n- [ ] look at the mail every hour\n";

#[derive(Debug)]
struct OneChat;

#[async_trait]
impl HeartbeatTargets for OneChat {
    async fn latest(&self) -> Option<ChatAddress> {
        let delivery = DeliveryContext {
            thread: Some("5".to_owned()),
            ..DeliveryContext::default()
        };
        Some(ChatAddress {
            delivery,
            ..ChatAddress::new("telegram", "7")
        })
    }
}

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl HeartbeatTargets for Nowhere {
    async fn latest(&self) -> Option<ChatAddress> {
        None
    }
}

struct World {
    home: TempDir,
    model: Arc<ScriptedProvider>,
    router: Arc<ProviderRouter>,
    bus: Arc<MemoryBus>,
}

impl World {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let model = Arc::new(ScriptedProvider::scripted(replies));
        let candidate = Candidate {
            provider: model.clone(),
            model: "m".into(),
            generation: Generation::default(),
        };
        let policy = RetryPolicy {
            pauses: Vec::new(),
            ..RetryPolicy::default()
        };
        let router = Arc::new(ProviderRouter::new([candidate], policy));
        Self {
            home: TempDir::new().unwrap(),
            model,
            router,
            bus: Arc::new(MemoryBus::new()),
        }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.home.path().join("HEARTBEAT.md"), text).unwrap();
    }

    fn service(&self, places: Arc<dyn HeartbeatTargets>) -> HeartbeatService {
        HeartbeatService::new(HeartbeatParts {
            file: self.home.path().join("HEARTBEAT.md"),
            decider: Decider::new(self.router.clone()),
            bus: self.bus.clone(),
            ledger: self.bus.clone(),
            places,
            settings: HeartbeatSettings {
                interval_s: 60,
                ..HeartbeatSettings::default()
            },
        })
    }

    async fn beat(&self) -> Result<HeartbeatOutcome, String> {
        self.service(Arc::new(OneChat))
            .beat(noon(), &CancellationToken::new())
            .await
    }

    async fn messages(&self) -> Vec<InboundMessage> {
        let open = self
            .bus
            .list(Queue::Inbound, LedgerFilter::Open, 100)
            .await
            .unwrap();
        open.into_iter().filter_map(|entry| entry.inbound).collect()
    }

    async fn filtered(&self, answer: &str) -> Option<String> {
        let evaluator = Evaluator::new(self.router.clone(), self.home.path());
        evaluator
            .filter("look at the mail", answer, &CancellationToken::new())
            .await
    }
}

fn noon() -> DateTime<FixedOffset> {
    DateTime::parse_from_rfc3339("2026-03-02T12:00:00+01:00").unwrap()
}

fn decided(arguments: &serde_json::Value) -> Reply {
    Reply::call("heartbeat", arguments)
}

#[tokio::test]
async fn file_without_tasks_causes_no_request() {
    let world = World::new([]);
    assert_eq!(
        world.beat().await,
        Ok(HeartbeatOutcome::Idle),
        "there is no file"
    );
    world.write("# Heartbeat\n\n## Active Tasks\n\n## Completed\n\n- [x] bread\n");
    assert_eq!(world.beat().await, Ok(HeartbeatOutcome::Idle));
    assert_eq!(world.model.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_day_makes_no_request_and_costs_nothing() {
    let world = World::new([]);
    world.write("# Heartbeat\n\n## Active Tasks\n\n## Completed\n\n- [x] bread\n");
    let service = world.service(Arc::new(OneChat));
    let day = Duration::from_secs(24 * 60 * 60);
    let ended = tokio::time::timeout(day, service.run(CancellationToken::new())).await;
    assert!(ended.is_err(), "it runs all day");
    assert_eq!(world.model.requests().len(), 0);
    assert_eq!(world.router.meter().total().sum(), Consumption::default());
    assert_eq!(world.messages().await.len(), 0);
}

#[tokio::test]
async fn due_tasks_go_to_the_latest_chat() {
    let world = World::new([decided(
        &json!({"action": "run", "tasks": "look at the mail"}),
    )]);
    world.write(TASKS);
    assert_eq!(world.beat().await, Ok(HeartbeatOutcome::Begun));
    let messages = world.messages().await;
    let [message] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    let place = (
        message.channel.as_str(),
        message.chat_id.as_str(),
        message.delivery.thread.as_deref(),
    );
    assert_eq!(place, ("telegram", "7", Some("5")));
    assert_eq!(
        (message.session_key().as_str(), &message.origin),
        ("heartbeat", &Origin::Heartbeat)
    );
    assert!(
        message.content.ends_with("\n\nlook at the mail"),
        "{}",
        message.content
    );
    let requests = world.model.requests();
    let asked = format!("{:?}", requests[0].transcript);
    assert!(
        asked.contains("2026-03-02 12:00 (Monday) +01:00")
            && asked.contains("look at the mail every hour")
    );
    assert!(
        !asked.contains("Heartbeat"),
        "only the tasks are shown: {asked}"
    );
    assert_eq!(
        requests[0].tool_choice,
        ToolChoice::Tool("heartbeat".into())
    );
    assert_eq!(
        world.beat().await,
        Ok(HeartbeatOutcome::Busy),
        "the first runs"
    );
    assert_eq!(world.model.requests().len(), 1);
    let judged = world.router.meter().total().of(CallPurpose::Judgement);
    assert_eq!(judged.requests, 1);
    assert!(judged.tokens.prompt_tokens > 0);
}

#[tokio::test]
async fn runs_only_on_the_models_decision() {
    for reply in [
        decided(&json!({"action": "skip"})),
        Reply::text("Nothing is due."),
        decided(&json!({})),
    ] {
        let world = World::new([reply]);
        world.write(TASKS);
        let beat = world.beat().await;
        assert!(!matches!(beat, Ok(HeartbeatOutcome::Begun)), "{beat:?}");
        assert_eq!(world.messages().await, []);
    }
}

#[tokio::test]
async fn retries_without_a_refused_tool_choice() {
    let world = World::new([
        Reply::error(400, "tool_choice is not supported"),
        decided(&json!({"action": "run"})),
    ]);
    world.write(TASKS);
    assert_eq!(world.beat().await, Ok(HeartbeatOutcome::Begun));
    assert_eq!(world.model.requests()[1].tool_choice, ToolChoice::Auto);
    assert!(
        world.messages().await[0]
            .content
            .ends_with("- [ ] look at the mail every hour"),
        "without a selection, all tasks are sent"
    );
}

#[tokio::test]
async fn without_a_chat_tasks_run_in_the_terminal_chat() {
    let world = World::new([decided(&json!({"action": "run", "tasks": "x"}))]);
    world.write(TASKS);
    let service = world.service(Arc::new(Nowhere));
    assert_eq!(
        service.beat(noon(), &CancellationToken::new()).await,
        Ok(HeartbeatOutcome::Begun)
    );
    let message = world.messages().await.remove(0);
    assert_eq!(
        (message.channel.as_str(), message.chat_id.as_str()),
        ("cli", "direct")
    );
}

#[tokio::test(start_paused = true)]
async fn first_beat_is_one_interval_after_the_start() {
    let world = World::new([decided(&json!({"action": "run", "tasks": "x"}))]);
    world.write(TASKS);
    let end = CancellationToken::new();
    let mut inbound = world.bus.inbound().await.unwrap();
    let began = tokio::time::Instant::now();
    let service = world.service(Arc::new(OneChat));
    let (delivery, ()) = tokio::join!(
        async {
            let delivery = inbound.next().await.unwrap();
            end.cancel();
            delivery
        },
        service.run(end.clone()),
    );
    assert_eq!(delivery.message.origin, Origin::Heartbeat);
    assert!(
        began.elapsed() >= Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn model_decides_on_sending_unless_the_reply_is_a_marker() {
    let silent = World::new([]);
    assert_eq!(silent.filtered("HEARTBEAT_OK").await, None);
    assert_eq!(silent.model.requests().len(), 0);

    let verdict = |worth: &serde_json::Value| {
        Reply::call("evaluate_notification", &json!({"should_notify": worth}))
    };
    let table = [
        (verdict(&json!(true)), Some("2 new mails")),
        (verdict(&json!(false)), None),
        (verdict(&json!("false")), None),
        (Reply::text("I would not."), Some("2 new mails")),
        (verdict(&json!("perhaps")), Some("2 new mails")),
    ];
    for (reply, expected) in table {
        let world = World::new([reply]);
        assert_eq!(
            world.filtered("2 new mails\nHEARTBEAT_OK").await.as_deref(),
            expected
        );
    }
    let down = World::new([Reply::error(401, "no"), Reply::error(401, "no")]);
    assert_eq!(
        down.filtered("2 new mails").await.as_deref(),
        Some("2 new mails"),
        "the reply is sent if no model can decide"
    );
}

#[tokio::test]
async fn workspace_can_override_the_evaluator_prompt() {
    let world = World::new([Reply::call(
        "evaluate_notification",
        &json!({"should_notify": false}),
    )]);
    std::fs::create_dir(world.home.path().join("prompts")).unwrap();
    std::fs::write(
        world.home.path().join("prompts/evaluator.md"),
        "Only fires.",
    )
    .unwrap();
    assert_eq!(world.filtered("all is well").await, None);
    assert_eq!(&*world.model.requests()[0].system, "Only fires.");
}
