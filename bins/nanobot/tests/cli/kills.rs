//! Jobs under kills: a gateway is killed again and again around the times at which its jobs are
//! due, and every one of those times is fired once.
//!
//! Decision: nothing is asserted about durations. The results are compared: the file of jobs after
//! every kill, and in the end the inbox, the session logs and the messages at the platform.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::Utc;
use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

/// Number of kills.
const KILLS: i64 = 28;
/// Number of reminders; their ids are the numbers from 1 on.
const REMINDERS: i64 = 40;
/// Interval between two reminders, in milliseconds.
const STEP_MS: i64 = 250;
/// Id of a job that is due every second.
const EVERY: &str = "00000e01";
/// Id of a job that is due every second; of the missed times only the latest is run.
const LATEST: &str = "00000e02";
/// Id of a job that is due every other second; all missed times are run.
const ALL: &str = "00000e03";
/// Interval of [`ALL`], in milliseconds.
const ALL_MS: i64 = 2000;
/// Ids of the recurring jobs.
const RECURRING: [&str; 3] = [EVERY, LATEST, ALL];

/// The traces that the runs of a job left.
#[derive(Debug, Default)]
struct Trail {
    /// The times that are in the inbox.
    accepted: Vec<i64>,
    /// Those of them that were dead-lettered, as happens to a message that is being handled at
    /// three kills.
    given_up: Vec<i64>,
    /// The times that the assistant was asked about.
    asked: Vec<i64>,
    /// The times whose turns ended.
    ended: Vec<i64>,
    /// The replies of those turns.
    said: Vec<String>,
    /// Messages that were being sent at a kill, as the inbox lists them.
    uncertain: Vec<String>,
    /// Messages that the platform received.
    seen: Vec<String>,
}

fn now_ms() -> i64 {
    Utc::now().timestamp_millis()
}

fn reminders() -> Vec<String> {
    (1..=REMINDERS)
        .map(|number| format!("{number:08x}"))
        .collect()
}

/// Returns the chat of a job. Each has its own, so that no rate limit of the platform delays it.
fn chat_of(id: &str) -> i64 {
    i64::from_str_radix(id, 16).unwrap()
}

fn job(id: &str, schedule: &Value, more: &Value) -> Value {
    let chat = chat_of(id).to_string();
    let payload = json!({"message": "Say it.", "deliver": true, "channel": "telegram", "to": chat});
    let mut job = json!({"id": id, "name": id, "schedule": schedule, "payload": payload});
    job.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    job
}

/// Returns the reminders from `first` on, and the recurring jobs.
fn jobs(first: i64) -> Vec<Value> {
    let by_clock = |expression: &str| json!({"kind": "cron", "expr": expression, "tz": "UTC"});
    let mut jobs = vec![
        job(
            EVERY,
            &json!({"kind": "every", "everyMs": 1000}),
            &json!({"state": {"nextRunAtMs": first}}),
        ),
        job(LATEST, &by_clock("* * * * * *"), &json!({"catchup": "one"})),
        job(
            ALL,
            &by_clock("* * * * * */2"),
            &json!({"catchup": "all", "overlap": "queue"}),
        ),
    ];
    let once = |(number, id): (i64, String)| {
        job(
            &id,
            &json!({"kind": "at", "atMs": first + number * STEP_MS}),
            &json!({"deleteAfterRun": true}),
        )
    };
    jobs.extend((0..).zip(reminders()).map(once));
    jobs
}

/// Returns the jobs in the file, which can be read at any time.
fn jobs_in(home: &Home) -> Vec<Value> {
    let file: Value =
        serde_json::from_str(&home.read("cron/jobs.json")).expect("a file that can be read");
    file["jobs"].as_array().unwrap().clone()
}

/// Returns the time in the name of a job's message.
fn time_in(name: &Value) -> i64 {
    name.as_str()
        .unwrap()
        .rsplit('-')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn trail(home: &Home, id: &str, inbox: &[Value], telegram: &TelegramFake) -> Trail {
    let (mut trail, chat) = (Trail::default(), chat_of(id).to_string());
    for entry in inbox {
        if entry["inbound"]["origin"]["job"] == id {
            trail.accepted.push(time_in(&entry["inbound"]["id"]));
            if entry["state"] == "failed" {
                assert!(entry["why"].is_string(), "{entry}");
                trail.given_up.push(time_in(&entry["inbound"]["id"]));
            }
        }
        if entry["state"] == "uncertain" && entry["outbound"]["chat_id"] == *chat {
            trail
                .uncertain
                .push(entry["outbound"]["content"].as_str().unwrap().to_owned());
        }
    }
    let session = home
        .path()
        .join(format!("workspace/sessions/cron_{id}.jsonl"));
    // A job whose messages all failed may have no session.
    let session = std::fs::read_to_string(session).unwrap_or_default();
    for line in session
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
    {
        if line["_inbound"].is_string() {
            trail.asked.push(time_in(&line["_inbound"]));
        }
        let end = &line["_entry"];
        if end["kind"] == "turn_ended" {
            trail
                .ended
                .extend(end["inbound"].as_array().unwrap().iter().map(time_in));
            trail.said.push(end["visible"].as_str().unwrap().to_owned());
        }
    }
    trail.seen = telegram.texts_in(chat_of(id));
    trail.seen.retain(|text| text.starts_with("Answer "));
    trail
}

impl Trail {
    /// Asserts that no time was fired twice or lost, and no message was sent twice.
    fn assert_once(&self, id: &str) {
        for (times, what) in [
            (&self.accepted, "fired"),
            (&self.asked, "asked"),
            (&self.ended, "ended"),
        ] {
            let distinct: BTreeSet<_> = times.iter().collect();
            assert_eq!(
                distinct.len(),
                times.len(),
                "{id}: a time was {what} twice: {self:?}"
            );
        }
        let settled: BTreeSet<_> = self.ended.iter().chain(&self.given_up).collect();
        assert_eq!(
            settled,
            self.accepted.iter().collect(),
            "{id}: what was fired has ended: {self:?}"
        );
        assert!(
            settled.len() == self.ended.len() + self.given_up.len(),
            "{id}: it ended in two ways: {self:?}"
        );
        let seen: BTreeSet<_> = self.seen.iter().collect();
        assert_eq!(
            seen.len(),
            self.seen.len(),
            "{id}: somebody was told twice: {self:?}"
        );
        assert!(
            seen.iter().all(|text| self.said.contains(text)),
            "{id}: what no turn said was told: {self:?}"
        );
        let is_known = |text: &String| seen.contains(text) || self.uncertain.contains(text);
        assert!(
            self.said.iter().all(is_known),
            "{id}: an answer is nowhere: {self:?}"
        );
    }
}

/// Starts a gateway and kills it, at a moment that differs from run to run.
async fn live(home: &Home, life: i64) {
    // Every number below 64 occurs once before one repeats.
    let jitter = life * 37 % 64;
    if life % 4 == 3 {
        let mut command = home.program();
        command.args(["gateway", "--port", "0"]);
        let mut command = Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(u64::try_from(jitter * 4).unwrap())).await;
        return child.kill().await.unwrap();
    }
    let gateway = Running::start(home).await;
    if life % 9 == 4 {
        let second = home.run(&["gateway", "--port", "0"]).await;
        assert_eq!(
            (second.code, second.stdout.as_str()),
            (1, ""),
            "two gateways run on one home"
        );
        assert_says(
            &second.stderr,
            &["another gateway", &gateway.pid().to_string()],
        );
    }
    // From just before a job is due to a while after that.
    let left = STEP_MS - now_ms() % STEP_MS;
    tokio::time::sleep(Duration::from_millis(
        u64::try_from(left + jitter - 8).unwrap_or(0),
    ))
    .await;
    gateway.signal(Signal::SIGKILL);
    assert_eq!(gateway.end().await.1, None);
}

/// Returns the recorded times of [`ALL`] that did not run.
fn skipped(jobs: &[Value]) -> Vec<i64> {
    let runs = jobs
        .iter()
        .filter(|job| job["id"] == ALL)
        .filter_map(|job| job["state"]["runHistory"].as_array());
    runs.flatten()
        .filter(|run| run["status"] == "skipped")
        .map(|run| run["runAtMs"].as_i64().unwrap())
        .collect()
}

/// Runs the last gateway until everything open is finished.
async fn finish(home: &Home) {
    let gateway = Running::start(home).await;
    until("every reminder has come", async || {
        jobs_in(home).len() == RECURRING.len()
    })
    .await;
    for id in RECURRING {
        assert_eq!(home.run(&["cron", "pause", id]).await.code, 0);
    }
    let is_over = |job: &Value| job["state"]["running"].is_null();
    until("no job is at work", async || {
        jobs_in(home).iter().all(is_over)
    })
    .await;
    until("everything is settled", async || {
        home.run(&["inbox", "--pending"]).await.stdout == "Nothing.\n"
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn due_times_fire_once_despite_gateway_kills() {
    let number = AtomicUsize::new(0);
    // All answers differ, so that one seen twice was sent twice. Drafts are off: one that the
    // platform accepted just before a kill, without a record of it, would look like an answer.
    let model = ModelServer::answering(move |_| {
        Reply::text(format!("Answer {}.", number.fetch_add(1, Ordering::SeqCst)))
    });
    let model = model.await.unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["nobody"],
            "streaming": false,
        }},
    }));
    let ids: Vec<String> = reminders()
        .into_iter()
        .chain(RECURRING.map(str::to_owned))
        .collect();
    for id in &ids {
        // A chat exists once a person has written to it.
        telegram.push(Incoming::private(
            &Person::new(chat_of(id), "Ann", "ann_x"),
            "hello",
        ));
    }
    let first = now_ms() / 1000 * 1000 + 1000;
    home.write(
        "cron/jobs.json",
        &json!({"version": 1, "jobs": jobs(first)}).to_string(),
    );

    let (mut pauses, mut missed, mut unpublished) = (Vec::new(), BTreeSet::new(), 0);
    for life in 0..KILLS {
        live(&home, life).await;
        let dead = now_ms();
        let jobs = jobs_in(&home);
        let left: BTreeSet<_> = jobs.iter().filter_map(|job| job["id"].as_str()).collect();
        assert!(RECURRING.iter().all(|id| left.contains(id)), "{left:?}");
        missed.extend(skipped(&jobs));
        let running = jobs
            .iter()
            .filter_map(|job| job["state"]["running"].as_array())
            .flatten();
        unpublished += running.filter(|run| run["message"].is_null()).count();
        if life % 7 == 6 {
            until("several times were missed", async || {
                now_ms() > dead + ALL_MS
            })
            .await;
        }
        pauses.push(dead..now_ms());
    }
    finish(&home).await;
    missed.extend(skipped(&jobs_in(&home)));
    // Shown when the test fails.
    println!("{unpublished} runs were begun and not known to be in the inbox when a kill came");

    let listed = home
        .run(&["inbox", "--all", "--json", "--limit", "10000"])
        .await;
    let inbox: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    for id in &ids {
        let mut trail = trail(&home, id, &inbox, &telegram);
        trail.assert_once(id);
        trail.accepted.sort_unstable();
        if id == ALL {
            let is_next =
                |pair: &[i64]| pair[1] == pair[0] + ALL_MS || missed.contains(&(pair[1] - ALL_MS));
            assert!(
                trail.accepted.windows(2).all(is_next),
                "a time is lost: {trail:?}, {missed:?}"
            );
        } else if RECURRING.contains(&id.as_str()) {
            let made_up = |pause: &Range<i64>| {
                trail
                    .accepted
                    .iter()
                    .filter(|at| pause.contains(at))
                    .count()
            };
            assert!(
                pauses.iter().all(|pause| made_up(pause) <= 1),
                "{id}: missed times ran: {trail:?}, {pauses:?}"
            );
        } else {
            assert_eq!(
                trail.accepted,
                [first + (chat_of(id) - 1) * STEP_MS],
                "{id}: {trail:?}"
            );
        }
    }
    assert_eq!(model.violations(), Vec::<String>::new());
}
