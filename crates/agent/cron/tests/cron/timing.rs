//! Wake-ups of a running service, on the virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use nanobot_bus::{Bus as _, EventFeed, MemoryBus};
use nanobot_cron::{
    Clock, CronParts, CronService, CronSettings, Job, JobSchedule, JobStore, Overlap, Payload,
    RunOutcomes, Zone,
};
use nanobot_types::{Event, MessageId, SessionKey};
use nanobot_watch::FileWatch;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The clock of the runtime, which advances only while there is nothing to do.
#[derive(Clone, Copy, Debug)]
struct VirtualClock {
    from: DateTime<Utc>,
    began: Instant,
}

impl VirtualClock {
    fn new() -> Self {
        Self {
            from: "2026-01-01T00:00:00Z".parse().unwrap(),
            began: Instant::now(),
        }
    }

    fn after(self, milliseconds: i64) -> DateTime<Utc> {
        self.from + TimeDelta::milliseconds(milliseconds)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> DateTime<Utc> {
        self.from + TimeDelta::from_std(self.began.elapsed()).unwrap()
    }
}

/// Reports no run as ended before `are_over` is set. Counts the queries.
#[derive(Debug, Default)]
struct Endless {
    polls: AtomicUsize,
    are_over: AtomicBool,
    /// Notified when the service learns that a run has ended.
    settled: Notify,
}

#[async_trait]
impl RunOutcomes for Endless {
    async fn ended(
        &self,
        _session: &SessionKey,
        _message: &MessageId,
    ) -> Option<Result<(), String>> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let is_over = self.are_over.load(Ordering::Relaxed);
        if is_over {
            self.settled.notify_one();
        }
        is_over.then_some(Ok(()))
    }
}

/// A service whose runs do not end by themselves.
struct Stage {
    home: tempfile::TempDir,
    clock: VirtualClock,
    bus: MemoryBus,
    runs: Arc<Endless>,
    events: EventFeed,
    end: CancellationToken,
    tasks: TaskTracker,
}

impl Stage {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            clock: VirtualClock::new(),
            bus: MemoryBus::new(),
            runs: Arc::default(),
            events: EventFeed::new(),
            end: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    fn store(&self) -> JobStore {
        JobStore::new(self.home.path().join("jobs.json"))
    }

    fn add(&self, when: JobSchedule) {
        self.add_from(self.clock.now(), when);
    }

    /// Adds a job that is due by the next tick.
    fn add_due(&self) {
        let now = self.clock.now();
        self.add_from(now, JobSchedule::at(now + TimeDelta::milliseconds(1)));
    }

    fn add_from(&self, now: DateTime<Utc>, when: JobSchedule) {
        let payload = Payload {
            message: "Do it".to_owned(),
            ..Payload::default()
        };
        self.store()
            .add(Job::new("job", when, payload, now), now, Zone::UTC)
            .unwrap();
    }

    fn start(&self, settings: CronSettings) {
        self.start_with(settings, FileWatch::new());
    }

    fn start_with(&self, settings: CronSettings, watch: FileWatch) {
        let service = CronService::new(CronParts {
            store: self.store(),
            bus: Arc::new(self.bus.clone()),
            claims: Arc::new(self.bus.clone()),
            runs: self.runs.clone(),
            clock: Arc::new(self.clock),
            settings,
            zone: Zone::UTC,
            host: nanobot_cron::JobHost::Gateway,
        });
        self.tasks
            .spawn(service.run(watch, self.events.clone(), self.end.clone()));
    }

    async fn stop(self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Due times that no periodic check coincides with, some far apart and some close together.
const DUE: [i64; 7] = [730, 1_137, 1_139, 2_641, 2_642, 9_999, 60_001];

#[tokio::test(start_paused = true)]
async fn due_jobs_start_on_time_while_others_run() {
    let stage = Stage::new();
    for due in DUE {
        stage.add(JobSchedule::at(stage.clock.after(due)));
    }
    stage.start(CronSettings::default());
    let mut inbound = stage.bus.inbound().await.unwrap();
    let mut runs = Vec::new();
    for due in DUE {
        let run = inbound.next().await.unwrap();
        let started = run.message.timestamp.to_utc() - stage.clock.from;
        let late = started.num_milliseconds() - due;
        assert!(
            (0..=2).contains(&late),
            "what is due after {due} ms is begun {late} ms late"
        );
        runs.push(run);
    }
    drop(inbound);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn blocked_jobs_do_not_increase_polling() {
    let stage = Stage::new();
    // Due every second, and blocked by its own first run each time.
    stage.add(JobSchedule::every_seconds(1));
    stage.start(CronSettings {
        overlap: Overlap::Skip,
        ..CronSettings::default()
    });
    let mut inbound = stage.bus.inbound().await.unwrap();
    let run = inbound.next().await.unwrap();
    let before = stage.runs.polls.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let polled = stage.runs.polls.load(Ordering::Relaxed) - before;
    assert!(polled <= 4 * 60, "{polled} looks in a minute");
    drop((run, inbound));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_its_message_is_settled() {
    let stage = Stage::new();
    stage.add(JobSchedule::at(stage.clock.after(1)));
    stage.start(CronSettings::default());
    let mut inbound = stage.bus.inbound().await.unwrap();
    let run = inbound.next().await.unwrap();
    stage.runs.are_over.store(true, Ordering::Relaxed);
    let over = Instant::now();
    for session in ["telegram:7".into(), run.message.session_key()] {
        stage.events.send(Event::MessageSettled { session });
    }
    stage.runs.settled.notified().await;
    assert!(
        over.elapsed() < Duration::from_secs(1),
        "{:?}",
        over.elapsed()
    );
    drop((run, inbound));
    stage.stop().await;
}

#[tokio::test]
async fn file_notification_reveals_jobs_of_other_programs() {
    let stage = Stage::new();
    let never = Duration::from_secs(24 * 60 * 60);
    stage.add_due();
    stage.start_with(
        CronSettings::default(),
        FileWatch::with_poll_interval(never),
    );
    let mut inbound = stage.bus.inbound().await.unwrap();
    let first = inbound.next().await.unwrap();
    stage.runs.are_over.store(true, Ordering::Relaxed);
    stage.events.send(Event::MessageSettled {
        session: first.message.session_key(),
    });
    stage.runs.settled.notified().await;
    // The service is idle now and no longer checks periodically.
    stage.add_due();
    let second = tokio::time::timeout(Duration::from_secs(60), inbound.next())
        .await
        .unwrap()
        .unwrap();
    drop((first, second, inbound));
    stage.stop().await;
}
