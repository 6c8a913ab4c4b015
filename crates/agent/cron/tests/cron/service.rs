//! Running jobs, with a clock that is set by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use nanobot_bus::{
    Bus, Claims, EntryState, EventFeed, Ledger as _, LedgerFilter, MemoryBus, Queue,
};
use nanobot_cron::{
    Catchup, Clock, CronParts, CronService, CronSettings, Job, JobHost, JobSchedule, JobStore,
    Overlap, Payload, RunOutcomes, RunStatus, Zone, zone_named,
};
use nanobot_state::{SqliteBus, StateDb};
use nanobot_types::{MessageId, SessionKey};
use nanobot_watch::FileWatch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
struct HandClock(Mutex<DateTime<Utc>>);

impl HandClock {
    fn set(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }

    fn forward(&self, by: TimeDelta) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }
}

/// Reports the same outcome for each run.
#[derive(Debug)]
struct Outcome(Mutex<Option<Result<(), String>>>);

#[async_trait]
impl RunOutcomes for Outcome {
    async fn ended(
        &self,
        _session: &SessionKey,
        _message: &MessageId,
    ) -> Option<Result<(), String>> {
        self.0.lock().unwrap().clone()
    }
}

struct Stage {
    home: tempfile::TempDir,
    bus: MemoryBus,
    clock: Arc<HandClock>,
    outcome: Arc<Outcome>,
    settings: CronSettings,
}

impl Stage {
    fn at(now: &str) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            bus: MemoryBus::new(),
            clock: Arc::new(HandClock(Mutex::new(now.parse().unwrap()))),
            outcome: Arc::new(Outcome(Mutex::new(Some(Ok(()))))),
            settings: CronSettings::default(),
        }
    }

    fn store(&self) -> JobStore {
        JobStore::new(self.home.path().join("cron/jobs.json"))
    }

    fn service(&self) -> CronService {
        self.service_on(Arc::new(self.bus.clone()), Arc::new(self.bus.clone()))
    }

    fn service_on(&self, bus: Arc<dyn Bus>, claims: Arc<dyn Claims>) -> CronService {
        self.service_in(JobHost::Gateway, bus, claims)
    }

    fn prompt_on(&self, bus: &MemoryBus) -> CronService {
        let notices = tokio::sync::mpsc::channel(1).0;
        let bus = Arc::new(bus.clone());
        self.service_in(JobHost::Prompt { notices }, bus.clone(), bus)
    }

    fn service_in(&self, host: JobHost, bus: Arc<dyn Bus>, claims: Arc<dyn Claims>) -> CronService {
        CronService::new(CronParts {
            store: self.store(),
            bus,
            claims,
            runs: self.outcome.clone(),
            clock: self.clock.clone(),
            settings: self.settings,
            zone: Zone::UTC,
            host,
        })
    }

    fn add(&self, when: JobSchedule) -> Job {
        self.add_to(None, when)
    }

    fn add_to(&self, channel: Option<&str>, when: JobSchedule) -> Job {
        let payload = Payload {
            message: "Do it".to_owned(),
            deliver: true,
            channel: channel.map(str::to_owned),
            ..Payload::default()
        };
        self.store()
            .add(
                Job::new("job", when, payload, self.clock.now()),
                self.clock.now(),
                Zone::UTC,
            )
            .unwrap()
    }

    /// Returns the times for which messages were published, in order.
    async fn fired(&self) -> Vec<String> {
        let entries = self
            .bus
            .list(Queue::Inbound, LedgerFilter::All, 10_000)
            .await
            .unwrap();
        assert!(
            entries
                .iter()
                .all(|entry| entry.state == EntryState::Pending)
        );
        let mut times: Vec<i64> = entries
            .iter()
            .map(|entry| time_of(entry.inbound.as_ref().unwrap().id.as_ref().unwrap()))
            .collect();
        times.sort_unstable();
        times
            .into_iter()
            .map(|time| {
                DateTime::from_timestamp_millis(time)
                    .unwrap()
                    .format("%dT%H:%M")
                    .to_string()
            })
            .collect()
    }

    fn job(&self) -> Option<Job> {
        self.store().read().unwrap().iter().next().cloned()
    }
}

fn time_of(id: &MessageId) -> i64 {
    id.as_str().rsplit_once('-').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn reminder_fires_once_and_is_removed() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.add(JobSchedule::at("2026-01-01T09:00:00Z".parse().unwrap()));
    let mut service = stage.service();
    service.tick().await.unwrap();
    assert_eq!(stage.fired().await, Vec::<String>::new());
    stage.clock.set("2026-01-01T09:00:00Z");
    service.tick().await.unwrap();
    assert_eq!(stage.fired().await, ["01T09:00"]);
    assert!(!stage.job().unwrap().enabled);
    service.tick().await.unwrap();
    assert_eq!(stage.job(), None);
    let entries = stage
        .bus
        .list(Queue::Inbound, LedgerFilter::All, 9)
        .await
        .unwrap();
    let message = entries.into_iter().next().unwrap().inbound.unwrap();
    assert!(message.content.ends_with("Do it"));
    assert!(message.session_key().as_str().starts_with("cron:"));
}

#[tokio::test]
async fn missed_runs_follow_the_catchup_setting() {
    for (catchup, expected) in [
        (Catchup::One, vec!["04T09:00"]),
        (Catchup::All, vec!["02T09:00", "03T09:00", "04T09:00"]),
        (Catchup::Skip, vec![]),
    ] {
        let mut stage = Stage::at("2026-01-01T12:00:00Z");
        stage.settings.catchup = catchup;
        stage.add(JobSchedule::cron("0 9 * * *", Zone::UTC));
        stage.clock.set("2026-01-04T12:00:00Z");
        stage.service().tick().await.unwrap();
        assert_eq!(stage.fired().await, expected, "{catchup:?}");
        let next = stage.job().unwrap().next_in_words(Zone::UTC);
        assert_eq!(
            next.as_deref(),
            Some("Mon 2026-01-05 09:00 UTC"),
            "{catchup:?}"
        );
    }
    for (hours, expected) in [(23, 1), (25, 0)] {
        let stage = Stage::at("2026-01-01T00:00:00Z");
        stage.add(JobSchedule::at("2026-01-02T00:00:00Z".parse().unwrap()));
        stage.clock.forward(TimeDelta::hours(24 + hours));
        stage.service().tick().await.unwrap();
        assert_eq!(stage.fired().await.len(), expected, "{hours}");
        let job = stage.job().unwrap();
        assert_eq!(
            (job.enabled, job.state.run_history.len()),
            (false, 1 - expected),
            "{hours}"
        );
    }
}

#[tokio::test]
async fn unfinished_run_follows_the_overlap_setting() {
    for (overlap, expected) in [(Overlap::Skip, 1), (Overlap::Queue, 3)] {
        let mut stage = Stage::at("2026-01-01T00:00:00Z");
        stage.settings.overlap = overlap;
        *stage.outcome.0.lock().unwrap() = None;
        stage.add(JobSchedule::every_seconds(60));
        let mut service = stage.service();
        for _ in 0..3 {
            stage.clock.forward(TimeDelta::minutes(1));
            service.tick().await.unwrap();
        }
        assert_eq!(stage.fired().await.len(), expected, "{overlap:?}");
        *stage.outcome.0.lock().unwrap() = Some(Err("no model".to_owned()));
        service.tick().await.unwrap();
        let state = stage.job().unwrap().state;
        assert_eq!(
            (state.running, state.last_status, state.last_error),
            (vec![], Some(RunStatus::Error), Some("no model".to_owned()))
        );
    }
}

#[tokio::test]
async fn crash_at_any_step_neither_loses_nor_repeats_runs() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let job = stage.add(JobSchedule::every_seconds(3600));
    let before = std::fs::read(stage.store().path()).unwrap();
    stage.clock.forward(TimeDelta::hours(1));
    // A crash before the message is published.
    *stage.outcome.0.lock().unwrap() = None;
    let dead = stage
        .service_on(Arc::new(NoBus), Arc::new(stage.bus.clone()))
        .tick()
        .await;
    dead.unwrap();
    assert_eq!(stage.fired().await, Vec::<String>::new());
    stage.service().tick().await.unwrap();
    assert_eq!(stage.fired().await, ["01T01:00"]);
    // A crash before the message is recorded in the file.
    stage
        .store()
        .edit(|jobs| jobs.find(job.id.as_str()).unwrap().state.running[0].message = None)
        .unwrap();
    stage.service().tick().await.unwrap();
    // An old file is restored.
    std::fs::write(stage.store().path(), before).unwrap();
    stage.service().tick().await.unwrap();
    // The clock is set back.
    stage.clock.set("2026-01-01T00:30:00Z");
    stage.service().tick().await.unwrap();
    assert_eq!(stage.fired().await, ["01T01:00"]);
}

/// A bus that accepts nothing.
#[derive(Debug)]
struct NoBus;

#[async_trait]
impl Bus for NoBus {
    async fn publish_inbound(
        &self,
        _message: nanobot_types::InboundMessage,
    ) -> Result<nanobot_bus::Accepted, nanobot_bus::BusError> {
        Err(nanobot_bus::BusError::Closed)
    }

    async fn publish_outbound(
        &self,
        _message: nanobot_types::OutboundMessage,
    ) -> Result<nanobot_bus::Accepted, nanobot_bus::BusError> {
        Err(nanobot_bus::BusError::Closed)
    }

    async fn inbound(
        &self,
    ) -> Result<nanobot_bus::Subscription<nanobot_types::InboundMessage>, nanobot_bus::BusError>
    {
        Err(nanobot_bus::BusError::Closed)
    }

    async fn outbound(
        &self,
        _channel: &nanobot_types::ChannelName,
    ) -> Result<nanobot_bus::Subscription<nanobot_types::OutboundMessage>, nanobot_bus::BusError>
    {
        Err(nanobot_bus::BusError::Closed)
    }

    fn offer(&self, _message: nanobot_types::OutboundMessage) {}
}

async fn sqlite(path: &Path) -> SqliteBus {
    SqliteBus::open(StateDb::open(path).await.unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn two_restarting_services_fire_each_time_once() {
    let stage = Stage::at("2026-03-28T00:00:00Z");
    stage.add(JobSchedule::cron(
        "*/20 * * * *",
        zone_named("Europe/Berlin").unwrap(),
    ));
    let database = stage.home.path().join("state.db");
    let bus = sqlite(&database).await;
    let open = || stage.service_on(Arc::new(bus.clone()), Arc::new(bus.clone()));
    let (mut one, mut two) = (open(), open());
    for step in 0..2 * 24 * 3 {
        stage.clock.forward(TimeDelta::minutes(20));
        let (first, second) = tokio::join!(one.tick(), two.tick());
        first.and(second).unwrap();
        if step % 7 == 0 {
            one = open();
        }
    }
    let entries = bus
        .list(Queue::Inbound, LedgerFilter::All, 10_000)
        .await
        .unwrap();
    let mut times: BTreeMap<i64, usize> = BTreeMap::new();
    for entry in &entries {
        *times
            .entry(time_of(
                entry.inbound.as_ref().unwrap().id.as_ref().unwrap(),
            ))
            .or_default() += 1;
    }
    let skipped: usize = stage
        .job()
        .unwrap()
        .state
        .run_history
        .iter()
        .filter(|run| run.status == RunStatus::Skipped)
        .count();
    assert_eq!(
        (times.len(), times.values().max().copied(), skipped),
        (2 * 24 * 3, Some(1), 0)
    );
    bus.close().await;
}

#[tokio::test]
async fn prompt_leaves_jobs_of_other_channels_to_the_gateway() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let at = || JobSchedule::at("2026-01-01T09:00:00Z".parse().unwrap());
    stage.add_to(Some("cli"), at());
    stage.add_to(Some("telegram"), at());
    stage.clock.set("2026-01-01T09:00:00Z");
    let prompt_bus = MemoryBus::new();
    let mut prompt = stage.prompt_on(&prompt_bus);
    prompt.tick().await.unwrap();
    prompt.tick().await.unwrap();
    let fired = prompt_bus
        .list(Queue::Inbound, LedgerFilter::All, 9)
        .await
        .unwrap();
    let channels: Vec<String> = fired
        .into_iter()
        .map(|entry| entry.inbound.unwrap().channel.to_string())
        .collect();
    assert_eq!(channels, ["cli"]);
    let left = stage.job().unwrap();
    assert_eq!(
        (left.payload.channel.as_deref(), left.enabled),
        (Some("telegram"), true)
    );
    stage.service().tick().await.unwrap();
    assert_eq!(stage.fired().await, ["01T09:00"]);
}

#[tokio::test]
async fn time_that_a_prompt_fired_does_not_fire_again() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.add(JobSchedule::cron("0 9 * * *", Zone::UTC));
    stage.clock.set("2026-01-01T09:00:00Z");
    let mut prompt = stage.prompt_on(&MemoryBus::new());
    prompt.tick().await.unwrap();
    prompt.tick().await.unwrap();
    // The clock is set back after the prompt closed.
    stage.clock.set("2026-01-01T08:59:00Z");
    let mut gateway = stage.service();
    gateway.tick().await.unwrap();
    stage.clock.set("2026-01-01T09:00:00Z");
    gateway.tick().await.unwrap();
    assert_eq!(stage.fired().await, Vec::<String>::new());
    stage.clock.set("2026-01-02T09:00:00Z");
    gateway.tick().await.unwrap();
    assert_eq!(stage.fired().await, ["02T09:00"]);
}

#[tokio::test(start_paused = true)]
async fn gateway_takes_over_from_a_prompt() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    *stage.outcome.0.lock().unwrap() = None;
    stage.add(JobSchedule::at("2026-01-01T09:00:00Z".parse().unwrap()));
    stage.clock.set("2026-01-01T09:00:00Z");
    let (prompt_bus, tasks) = (MemoryBus::new(), TaskTracker::new());
    let run = |service: CronService| {
        let end = CancellationToken::new();
        tasks.spawn(service.run(FileWatch::new(), EventFeed::new(), end.clone()));
        end
    };
    let count = async |bus: &MemoryBus| {
        let entries = bus.list(Queue::Inbound, LedgerFilter::All, 9).await;
        entries.unwrap().len()
    };
    let until = async |is_so: &dyn Fn(&Job) -> bool| {
        while !stage.job().is_some_and(|job| is_so(&job)) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let prompt = run(stage.prompt_on(&prompt_bus));
    until(&|job| job.state.running.iter().any(|run| run.message.is_some())).await;
    assert_eq!(count(&prompt_bus).await, 1);
    // A gateway waits for the run of the prompt, and does not repeat it.
    let gateway = run(stage.service());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((count(&prompt_bus).await, count(&stage.bus).await), (1, 0));
    // A prompt that closes during its run leaves it to the gateway, under the same id.
    prompt.cancel();
    until(&|job| {
        job.state
            .running
            .iter()
            .any(|run| run.message.is_some() && !run.in_memory)
    })
    .await;
    assert_eq!(stage.fired().await, ["01T09:00"]);
    assert_eq!(count(&stage.bus).await, 1);
    gateway.cancel();
    tasks.close();
    tasks.wait().await;
}
