//! The platforms, the model, and a gateway that is started, killed and started again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nanobot_chat_fakes::{ChatFake, Fault, Place};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::judge::{Judge, uncertain_tokens};
use super::model::DayModel;
use super::script::{Message, PlannedFault};
use crate::gateway::Running;
use crate::support::{DEADLINE, Home};

/// Log text for credentials that a platform refuses.
const REFUSED: &str = "refuses the credentials";
/// Maximum time for any single wait.
const TIMEOUT: Duration = DEADLINE;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of checks for each check of the inbox.
const INBOX_INTERVAL: usize = 20;
/// Time between setting a reminder and its due time, in seconds: setting it may be slow.
const SET_BEFORE: u64 = 25;
/// Number of reminders for each platform that has them.
const REMINDERS: usize = 2;

pub(super) struct World {
    home: Home,
    gateway: Option<Running>,
    model: DayModel,
    platforms: Vec<Box<dyn ChatFake>>,
}

impl World {
    /// Starts everything except the gateway.
    pub(super) async fn open() -> Self {
        let world = Self {
            home: Home::new(),
            gateway: None,
            model: DayModel::start().await,
            platforms: nanobot_chat_fakes::start().await.unwrap(),
        };
        world.configure();
        world
    }

    fn configure(&self) {
        let mut channels = json!({"sendProgress": false, "sendToolHints": false});
        for platform in &self.platforms {
            channels[platform.name()] = platform.section();
        }
        let server = self.model.server();
        self.home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": server.base_url()}},
            "channels": channels,
        }));
    }

    pub(super) fn platforms(&self) -> &[Box<dyn ChatFake>] {
        &self.platforms
    }

    /// Returns every chat.
    pub(super) fn places(&self) -> Vec<Place> {
        let places = self.platforms.iter().map(|platform| platform.places());
        places.flatten().collect()
    }

    fn platform(&self, name: &str) -> &dyn ChatFake {
        let mut platforms = self.platforms.iter();
        &**platforms.find(|platform| platform.name() == name).unwrap()
    }

    fn platform_mut(&mut self, name: &str) -> &mut dyn ChatFake {
        let mut platforms = self.platforms.iter_mut();
        &mut **platforms.find(|platform| platform.name() == name).unwrap()
    }

    /// Starts the gateway, and waits until it receives from the platforms that deliver nothing from
    /// before that.
    pub(super) async fn begin(&mut self) {
        let lines = self
            .platforms
            .iter()
            .filter_map(|platform| platform.log_when_ready());
        let before: Vec<_> = lines.map(|line| (line, self.log_count(line))).collect();
        self.gateway = Some(Running::start(&self.home).await);
        for (line, count) in before {
            self.wait_for_log(line, count).await;
        }
    }

    /// Waits until the gateways have logged a text more than `count` times.
    async fn wait_for_log(&self, line: &str, count: usize) {
        self.wait("the log of the gateway", async |world| {
            if world.log_count(line) > count {
                Vec::new()
            } else {
                vec![line.to_owned()]
            }
        })
        .await;
    }

    /// Number of times that the gateways logged a text.
    fn log_count(&self, words: &str) -> usize {
        let log = self.home.path().join("logs/gateway.log");
        std::fs::read_to_string(log)
            .unwrap_or_default()
            .matches(words)
            .count()
    }

    /// Kills the gateway and starts another.
    async fn kill(&mut self) {
        let gateway = self.gateway.take().unwrap();
        gateway.signal(Signal::SIGKILL);
        gateway.end().await;
        self.begin().await;
        for platform in &mut self.platforms {
            platform.restarted();
        }
    }

    /// Sets reminders that are due during the day.
    pub(super) async fn set_reminders(&self, judge: &mut Judge) {
        let reminded = self
            .platforms
            .iter()
            .filter_map(|platform| platform.reminded());
        let reminded: Vec<_> = reminded.collect();
        let count = reminded.len() * REMINDERS;
        for (number, (place, chat)) in (1_u32..).zip(reminded.iter().cycle().take(count)) {
            let at = chrono::Local::now() + Duration::from_secs(SET_BEFORE + 5 * u64::from(number));
            let (token, at) = (
                format!("r-{number:04}"),
                at.format("%Y-%m-%dT%H:%M:%S").to_string(),
            );
            let text = format!("remind them of {token}");
            let target = ["--channel", place.platform, "--to", chat];
            let job = ["cron", "add", "-m", &text, "--at", &at, "-d"];
            let added = self.home.run(&[&job[..], &target].concat()).await;
            assert_eq!(added.code, 0, "{}", added.stderr);
            judge.reminder(*place, token);
        }
    }

    /// Begins a failure, and waits until it is felt.
    pub(super) async fn begin_fault(&mut self, fault: PlannedFault) {
        match fault {
            PlannedFault::Of(name, fault) => {
                let refused = self.log_count(REFUSED);
                self.platform_mut(name).begin(fault).await.unwrap();
                if fault == Fault::Revoked {
                    // A poll that is still open would deliver messages, and their answers would
                    // fail for good.
                    self.wait_for_log(REFUSED, refused).await;
                }
            }
            PlannedFault::ModelSlow => self.model.set_slow(true),
            PlannedFault::ModelBroken => self.model.fail(2),
            PlannedFault::Killed => {}
        }
    }

    pub(super) async fn end_fault(&mut self, fault: PlannedFault) {
        match fault {
            PlannedFault::Of(name, fault) => self.platform_mut(name).end(fault).await.unwrap(),
            PlannedFault::ModelSlow => self.model.set_slow(false),
            PlannedFault::ModelBroken | PlannedFault::Killed => {}
        }
        if fault.kills() {
            self.kill().await;
        }
    }

    /// Sends a message that needs an answer.
    pub(super) fn say(&mut self, judge: &mut Judge, message: Message) {
        let token = format!("q-{:04}", message.number);
        let place = message.place;
        let noise = place.needs_mention.then(|| judge.noise());
        let platform = self.platform_mut(place.platform);
        for said in platform.say(place, &token, noise.as_deref()) {
            judge.said(place, said);
        }
    }

    /// Returns everything that was shown in a chat, in order.
    pub(super) fn shown(&self, place: Place) -> Vec<String> {
        self.platform(place.platform).shown(place)
    }

    /// Waits until everything is answered in the chats that `is_meant` selects.
    pub(super) async fn answered(&self, judge: &Judge, is_meant: impl Fn(Place) -> bool) {
        self.settle(judge, is_meant, false).await;
    }

    /// Waits until the day is over: everything is answered, and nothing is in progress.
    pub(super) async fn finish(&self, judge: &Judge) {
        self.settle(judge, |_| true, true).await;
        self.at_rest().await;
    }

    /// Waits until nothing is in progress.
    pub(super) async fn at_rest(&self) {
        self.wait("everything to be settled", async |world| {
            let open = world.ledger().await.into_iter();
            let open =
                open.filter(|entry| matches!(entry["state"].as_str(), Some("pending" | "sending")));
            open.map(|entry| entry.to_string()).collect()
        })
        .await;
    }

    async fn settle(&self, judge: &Judge, is_meant: impl Fn(Place) -> bool, with_reminders: bool) {
        let looks = AtomicUsize::new(0);
        self.wait("answers", async |world| {
            let open = judge.unanswered(world, &BTreeSet::new(), &is_meant, with_reminders);
            if open.is_empty()
                || looks.fetch_add(1, Ordering::Relaxed) % INBOX_INTERVAL != INBOX_INTERVAL - 1
            {
                return open;
            }
            let uncertain = uncertain_tokens(&world.ledger().await);
            judge.unanswered(world, &uncertain, &is_meant, with_reminders)
        })
        .await;
    }

    /// Waits until nothing is missing.
    async fn wait(&self, what: &str, missing: impl AsyncFn(&Self) -> Vec<String>) {
        let begun = std::time::Instant::now();
        loop {
            let missing = missing(self).await;
            if missing.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < TIMEOUT,
                "waited in vain for {what}: {missing:#?}\n{}",
                last_lines(&self.home.read("logs/gateway.log"))
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns every entry of the inbox, as `nanobot inbox` lists it.
    pub(super) async fn ledger(&self) -> Vec<Value> {
        let listed = self
            .home
            .run(&["inbox", "--all", "--json", "--limit", "1000"])
            .await;
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        serde_json::from_str(&listed.stdout).unwrap()
    }

    /// Returns the protocol violations on all connections.
    pub(super) fn violations(&self) -> Vec<String> {
        let platforms = self.platforms.iter();
        let of_platforms = platforms.flat_map(|platform| platform.violations());
        let of_model = self.model.server().violations();
        of_model.into_iter().chain(of_platforms).collect()
    }

    pub(super) async fn end(mut self) {
        let gateway = self.gateway.take().unwrap();
        gateway.signal(Signal::SIGTERM);
        let (rest, code) = gateway.end().await;
        assert_eq!(code, Some(0), "{rest}");
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(60))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}
