//! Supervision of channels that fail in every possible way, on paused time.

use std::fmt;
use std::future;
use std::panic::panic_any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_bus::MemoryBus;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, Format, Measure,
    OutboundPart, PlainText, Sent, TextStyle, async_trait,
};
use nanobot_channels::{
    ChannelManager, ChannelManagerParts, ChannelSettings, HealthState, ManagedChannel,
};
use nanobot_testkit::log::Log;
use tokio::time::{Instant, advance, sleep};

/// Behaviour of one run.
enum Act {
    /// Ends at once without an error.
    Return,
    /// Fails at once.
    Fail(ChannelError),
    /// Reports alive once, then fails.
    LiveThenFail(ChannelError),
    Panic,
    /// Reports alive once, then hangs until it is cancelled.
    Stall,
    /// Like `Stall`, but ignores the cancellation.
    Deaf,
    /// Reports alive every ten seconds for this long, then fails.
    LiveFor(Duration, ChannelError),
    Live,
}

/// Chooses the behaviour by the time since the first run and the number of the run, from 0.
type Script = dyn Fn(Duration, usize) -> Act + Send + Sync;

/// Follows a script, and records the time and the instance of each run.
#[derive(Clone)]
struct Scripted {
    name: ChannelName,
    instance: usize,
    script: Arc<Script>,
    runs: Arc<Mutex<Vec<(Instant, usize)>>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Scripted {
    fn new(script: impl Fn(Duration, usize) -> Act + Send + Sync + 'static) -> Self {
        Self {
            name: "chat".into(),
            instance: 0,
            script: Arc::new(script),
            runs: Arc::default(),
        }
    }

    fn named(self, name: &str) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// Returns the times of the runs, relative to the first one.
    fn runs(&self) -> Vec<Duration> {
        let runs = self.runs.lock().unwrap();
        runs.iter().map(|(at, _)| *at - runs[0].0).collect()
    }

    fn instances(&self) -> Vec<usize> {
        self.runs
            .lock()
            .unwrap()
            .iter()
            .map(|(_, instance)| *instance)
            .collect()
    }

    /// Returns a channel that is rebuilt under the next number on request.
    fn managed(&self) -> ManagedChannel {
        let (made, next) = (self.clone(), Mutex::new(0));
        let again = move || {
            let mut next = next.lock().unwrap();
            *next += 1;
            Ok(Arc::new(Self {
                instance: *next,
                ..made.clone()
            }) as Arc<dyn Channel>)
        };
        ManagedChannel::fixed(Arc::new(self.clone()), ChannelSettings::default()).made_by(again)
    }
}

#[async_trait]
impl Channel for Scripted {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let act = {
            let mut runs = self.runs.lock().unwrap();
            runs.push((Instant::now(), self.instance));
            (self.script)(runs[0].0.elapsed(), runs.len() - 1)
        };
        let alive = async |end: Instant| {
            while Instant::now() < end {
                context.progress.alive();
                sleep(Duration::from_secs(10)).await;
            }
        };
        match act {
            Act::Return => Ok(()),
            Act::Fail(error) => Err(error),
            Act::LiveThenFail(error) => {
                context.progress.alive();
                Err(error)
            }
            Act::Panic => panic_any("as the script says"),
            Act::Stall => {
                context.progress.alive();
                context.cancel.cancelled().await;
                // A late sign from this run says nothing about the next one.
                context.progress.alive();
                Ok(())
            }
            Act::Deaf => {
                context.progress.alive();
                future::pending().await
            }
            Act::LiveFor(time, error) => {
                alive(Instant::now() + time).await;
                Err(error)
            }
            Act::Live => {
                let for_ever = alive(Instant::now() + Duration::from_hours(10_000));
                context.cancel.run_until_cancelled(for_ever).await;
                Ok(())
            }
        }
    }

    async fn send(&self, _part: &OutboundPart) -> Result<Sent, ChannelError> {
        Ok(Sent::default())
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::BestEffort
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&PlainText),
            measure: Measure::CodePoints,
            limit: 4000,
        }
    }
}

fn supervise(managed: Vec<ManagedChannel>) -> ChannelManager {
    ChannelManager::start(&ChannelManagerParts::new(
        &MemoryBus::new(),
        managed,
        "unused",
    ))
    .unwrap()
}

fn health(manager: &ChannelManager) -> HealthState {
    manager.health().snapshot().into_values().next().unwrap()
}

fn is_degraded(manager: &ChannelManager, expected: &str) -> bool {
    matches!(health(manager), HealthState::Degraded { why, .. } if why == expected)
}

fn down() -> ChannelError {
    ChannelError::Unavailable("no route".to_owned())
}

const DOWN: &str = "the platform cannot be reached: no route";

/// Counts the log lines of that channel that contain `text`.
fn log_count(log: &Log, channel: &str, text: &str) -> usize {
    log.text()
        .lines()
        .filter(|line| line.contains(channel) && line.contains(text))
        .count()
}

fn minutes(number: u64) -> Duration {
    Duration::from_mins(number)
}

#[tokio::test(start_paused = true)]
async fn ten_minute_outage_takes_few_attempts() {
    let outage = minutes(10);
    let channel = Scripted::new(move |at, run| match run {
        _ if at < outage => Act::Fail(down()),
        // Later it fails once more, after a healthy while.
        _ if at < outage + minutes(2) => Act::LiveFor(minutes(5), down()),
        _ => Act::Live,
    });
    let manager = supervise(vec![channel.managed()]);
    sleep(minutes(5)).await;
    assert!(is_degraded(&manager, DOWN), "{:?}", health(&manager));
    let HealthState::Degraded { since, .. } = health(&manager) else {
        unreachable!()
    };
    sleep(minutes(4)).await;
    assert!(matches!(health(&manager), HealthState::Degraded { since: now, .. } if now == since));
    sleep(minutes(3)).await;
    assert_eq!(health(&manager), HealthState::Running);
    let runs = channel.runs();
    let tries = runs.iter().filter(|at| **at < outage).count();
    assert!((10..=20).contains(&tries), "{tries} tries: {runs:?}");
    let back = runs[tries];
    assert!(back < outage + Duration::from_secs(80), "{back:?}");
    sleep(minutes(5)).await;
    let runs = channel.runs();
    let [.., before, last] = runs.as_slice() else {
        unreachable!()
    };
    let pause = *last - *before - minutes(5);
    assert!(
        pause < Duration::from_secs(2),
        "after a good while the first pause is the first again: {pause:?}"
    );
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_limited_to_a_year() {
    let limited = || ChannelError::RateLimited {
        retry_after: Duration::MAX,
    };
    let channel = Scripted::new(move |_, run| {
        if run == 0 {
            Act::Fail(limited())
        } else {
            Act::Live
        }
    });
    let manager = supervise(vec![channel.managed()]);
    sleep(minutes(1)).await;
    advance(minutes(60 * 24 * 364)).await;
    sleep(minutes(1)).await;
    assert_eq!(channel.runs().len(), 1);
    advance(minutes(60 * 24 * 2)).await;
    sleep(minutes(1)).await;
    assert_eq!(channel.runs().len(), 2);
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn thousand_disconnects_are_throttled() {
    let channel = Scripted::new(|_, run| {
        if run < 1000 {
            Act::LiveThenFail(down())
        } else {
            Act::Live
        }
    });
    let manager = supervise(vec![channel.managed()]);
    while channel.runs().len() <= 1000 {
        sleep(minutes(1)).await;
    }
    assert_eq!(health(&manager), HealthState::Running);
    let runs = channel.runs();
    assert_eq!(runs.len(), 1001);
    let most = runs
        .iter()
        .map(|at| {
            runs.iter()
                .filter(|run| **run >= *at && **run < *at + minutes(1))
                .count()
        })
        .max();
    assert!(most <= Some(7), "{most:?} runs in a minute");
    assert!(
        channel.instances().iter().all(|instance| *instance == 0),
        "an error is no reason to make it anew"
    );
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn channel_that_returns_at_once_is_throttled() {
    let channel = Scripted::new(|_, _| Act::Return);
    let manager = supervise(vec![channel.managed()]);
    sleep(minutes(10)).await;
    assert!(channel.runs().len() <= 20, "{:?}", channel.runs());
    assert!(
        is_degraded(&manager, "it ended by itself"),
        "{:?}",
        health(&manager)
    );
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn hung_or_panicked_channel_is_recreated() {
    let silence = "it gave no sign of life for 120 s";
    for (script, why, soon) in [
        (
            Box::new(|| Act::Stall) as Box<dyn Fn() -> Act + Send + Sync>,
            silence,
            Duration::from_secs(121),
        ),
        (Box::new(|| Act::Deaf), silence, Duration::from_secs(123)),
        (
            Box::new(|| Act::Panic),
            "it panicked",
            Duration::from_millis(500),
        ),
    ] {
        let channel = Scripted::new(move |_, run| if run == 0 { script() } else { Act::Live });
        let manager = supervise(vec![channel.managed()]);
        sleep(soon).await;
        assert!(is_degraded(&manager, why), "{why}: {:?}", health(&manager));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(health(&manager), HealthState::Running, "{why}");
        assert_eq!(channel.instances(), [0, 1], "{why}");
        assert!(manager.stop().await, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn permanent_failure_is_logged_once_and_retried_hourly() {
    let log = Log::capture().unwrap();
    let channel = Scripted::new(|_, run| {
        if run < 3 {
            Act::Fail(ChannelError::Auth("revoked".into()))
        } else {
            Act::Live
        }
    })
    .named("revoked");
    let manager = supervise(vec![channel.managed()]);
    let failed = HealthState::Failed {
        why: "the platform refuses the credentials: revoked".to_owned(),
    };
    for hours in 1..=3 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(
            (health(&manager), channel.runs().len()),
            (failed.clone(), hours)
        );
        sleep(minutes(58)).await;
        assert_eq!(channel.runs().len(), hours, "too early");
        advance(minutes(18)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(health(&manager), HealthState::Running);
    assert_eq!(
        log_count(
            &log,
            "channel=revoked",
            "the channel cannot run until this is fixed"
        ),
        1
    );
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn conflict_is_logged_once_with_growing_backoff() {
    let log = Log::capture().unwrap();
    let channel = Scripted::new(|_, run| match run {
        0..20 => Act::LiveThenFail(ChannelError::Conflict("a second poller".to_owned())),
        _ => Act::Live,
    })
    .named("rival");
    let manager = supervise(vec![channel.managed()]);
    let why = "another program receives with these credentials: a second poller";
    while channel.runs().len() < 20 {
        sleep(Duration::from_secs(1)).await;
        assert!(
            is_degraded(&manager, why),
            "signs of life between conflicts do not count: {:?}",
            health(&manager)
        );
    }
    let runs = channel.runs();
    let pauses: Vec<_> = runs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses[0] >= Duration::from_secs(30) && pauses[18] >= minutes(10),
        "{pauses:?}"
    );
    assert_eq!(
        log_count(&log, "channel=rival", "another program receives"),
        1
    );
    sleep(minutes(15)).await;
    assert_eq!(health(&manager), HealthState::Running);
    assert!(manager.stop().await);
}

#[tokio::test(start_paused = true)]
async fn second_program_waits_for_the_claim() {
    let folder = tempfile::tempdir().unwrap();
    let lock: PathBuf = folder.path().join("locks").join("account");
    let (first, second) = (
        Scripted::new(|_, _| Act::Live),
        Scripted::new(|_, _| Act::Live),
    );
    let here = supervise(vec![first.managed().claiming(lock.clone())]);
    sleep(Duration::from_secs(1)).await;
    let there = supervise(vec![second.managed().claiming(lock)]);
    sleep(minutes(3)).await;
    assert_eq!(
        (health(&here), second.runs().len()),
        (HealthState::Running, 0)
    );
    let HealthState::Degraded { why, .. } = health(&there) else {
        unreachable!("{:?}", health(&there))
    };
    assert!(
        why.starts_with("another gateway on this computer receives with these credentials"),
        "{why}"
    );
    assert!(here.stop().await);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(health(&there), HealthState::Running);
    assert!(there.stop().await);
}

#[tokio::test(start_paused = true)]
async fn channels_are_added_and_removed_independently() {
    let (first, second) = (
        Scripted::new(|_, _| Act::Live),
        Scripted::new(|_, _| Act::Live),
    );
    let manager = supervise(vec![first.managed()]);
    sleep(Duration::from_secs(1)).await;
    manager.put(&second.managed()).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (health(&manager), first.runs().len(), second.runs().len()),
        (HealthState::Running, 1, 1)
    );
    manager.refuse(&"chat".into(), "no token".to_owned()).await;
    assert_eq!(
        health(&manager),
        HealthState::Failed {
            why: "no token".to_owned()
        }
    );
    manager.put(&first.managed()).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (health(&manager), first.runs().len(), second.runs().len()),
        (HealthState::Running, 2, 1)
    );
    manager.remove(&"chat".into()).await;
    assert_eq!(manager.health().snapshot().len(), 0);
    manager.close_intake();
    manager.put(&first.managed()).await;
    assert_eq!(
        manager.health().snapshot().len(),
        0,
        "nothing starts while everything stops"
    );
    assert!(manager.stop().await);
}
