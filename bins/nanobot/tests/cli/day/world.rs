//! The platforms, the model, and a gateway that is started, killed and started again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nanobot_channel_discord_fake::{self as discord, DiscordFake};
use nanobot_channel_email_fake::{self as mail, MailFake};
use nanobot_channel_slack_fake::{self as slack, SlackFake};
use nanobot_channel_telegram_fake::{self as telegram, TelegramFake};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply, ReservedPort};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::friend::Friend;
use super::judge::{DONE, Judge, tokens, uncertain_tokens};
use super::script::{Message, Place, PlannedFault};
use crate::gateway::Running;
use crate::support::{DEADLINE, Home};

/// A group on Telegram.
const GROUP: i64 = -1_001_234_567_890;
/// A channel on Slack.
const SLACK_ROOM: &str = "C0ROOM";
/// Log text for credentials that the platform refuses.
const REFUSED: &str = "refuses the credentials";
/// Maximum time for any single wait.
const TIMEOUT: Duration = DEADLINE;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of checks for each check of the inbox.
const INBOX_INTERVAL: usize = 20;
/// Time between setting a reminder and its due time, in seconds: setting it may be slow.
const SET_BEFORE: u64 = 25;
/// Pause that platforms ask for, in seconds.
const PAUSE: u32 = 1;

/// Behaviour of the model.
#[derive(Debug, Default)]
struct Mood {
    is_slow: AtomicBool,
    failures: AtomicUsize,
}

pub(super) struct World {
    home: Home,
    gateway: Option<Running>,
    model: ModelServer,
    mood: Arc<Mood>,
    telegram: TelegramFake,
    discord: DiscordFake,
    slack: SlackFake,
    mail: MailFake,
    friends: [Friend; 2],
    /// Reserves the WebSocket port between two gateways.
    port: ReservedPort,
    repeats: bool,
    slack_repeats: bool,
    send_noise: u32,
}

impl World {
    /// Starts everything except the gateway.
    pub(super) async fn open() -> Self {
        let mood = Arc::new(Mood::default());
        let mind = Arc::clone(&mood);
        let model = ModelServer::answering(move |request| answer(&mind, request))
            .await
            .unwrap();
        let port = ReservedPort::new().unwrap();
        let friend = |index| {
            Friend::at(format!(
                "ws://{}/?client_id=friend-{index}&chat_id=room-{index}",
                port.address()
            ))
        };
        let world = Self {
            home: Home::new(),
            gateway: None,
            model,
            mood,
            telegram: TelegramFake::start().await.unwrap(),
            discord: DiscordFake::start().await.unwrap(),
            slack: SlackFake::start().await.unwrap(),
            mail: MailFake::start().await.unwrap(),
            friends: [friend(0), friend(1)],
            port,
            repeats: false,
            slack_repeats: false,
            send_noise: 0,
        };
        world.configure();
        world
    }

    fn configure(&self) {
        let port = self.port.number();
        self.home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": self.model.base_url()}},
            "channels": {
                "sendProgress": false, "sendToolHints": false,
                "telegram": {
                    "enabled": true, "token": telegram::TOKEN, "apiBase": self.telegram.api_base(),
                    "allowFrom": ["7", "8"], "streaming": false, "pollTimeout": 1,
                },
                "discord": {
                    "enabled": true, "token": discord::TOKEN, "apiBase": self.discord.api_base(),
                    "allowFrom": ["7"], "streaming": false, "readReceiptEmoji": "", "workingEmoji": "",
                },
                "slack": {
                    "enabled": true, "botToken": slack::BOT_TOKEN, "appToken": slack::APP_TOKEN,
                    "apiBase": self.slack.api_base(), "allowFrom": ["U0ANN"], "streaming": false,
                },
                "websocket": {
                    "enabled": true, "port": port, "websocketRequiresToken": false, "allowFrom": ["*"],
                    "streaming": false,
                },
                "email": {
                    "enabled": true, "consentGranted": true, "allowFrom": ["ann@people.test", "bob@people.test"],
                    "imapHost": "127.0.0.1", "imapPort": self.mail.imap_port(), "imapUsername": mail::USER,
                    "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
                    "smtpHost": "127.0.0.1", "smtpPort": self.mail.smtp_port(), "smtpUsername": mail::USER,
                    "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>",
                    "pollIntervalSeconds": 5, "requestTimeout": 10, "authservId": "mx.bot.test",
                },
            },
        }));
    }

    /// Starts the gateway and waits until it receives from Discord, which does not deliver messages
    /// from before that in chats that were never used.
    pub(super) async fn begin(&mut self) {
        let sessions = self.discord_sessions();
        self.gateway = Some(Running::start(&self.home).await);
        self.wait("a session on Discord", async |world| {
            if world.discord_sessions() > sessions {
                Vec::new()
            } else {
                vec!["READY".to_owned()]
            }
        })
        .await;
    }

    /// Number of sessions on Discord that the gateways logged.
    fn discord_sessions(&self) -> usize {
        self.log_count("receiving from Discord")
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
    }

    /// Sets reminders that are due during the day.
    pub(super) async fn set_reminders(&self, judge: &mut Judge) {
        let ann = discord::Person::new(7, "ann");
        let places = [
            (
                Place::Discord,
                "discord",
                self.discord.direct_channel(&ann).to_string(),
            ),
            (Place::Slack, "slack", slack_ann().direct()),
            (Place::WebSocket(0), "websocket", "room-0".to_owned()),
        ];
        for number in 1..=6_u32 {
            let (place, channel, chat) = &places[number as usize % places.len()];
            let at = chrono::Local::now() + Duration::from_secs(SET_BEFORE + 5 * u64::from(number));
            let (token, at) = (
                format!("r-{number:04}"),
                at.format("%Y-%m-%dT%H:%M:%S").to_string(),
            );
            let text = format!("remind them of {token}");
            let arguments = [
                "cron",
                "add",
                "-m",
                &text,
                "--at",
                &at,
                "-d",
                "--channel",
                channel,
                "--to",
                chat,
            ];
            let added = self.home.run(&arguments).await;
            assert_eq!(added.code, 0, "{}", added.stderr);
            judge.reminder(*place, token);
        }
    }

    /// Starts a trouble that needs no waiting.
    pub(super) fn start_fault(&mut self, fault: PlannedFault) {
        use PlannedFault as T;
        match fault {
            T::TelegramSilent => self.telegram.server().stall(),
            T::TelegramBusy => {
                self.fail_telegram(&[
                    telegram::Fault::RetryAfter(PAUSE),
                    telegram::Fault::RetryAfter(PAUSE),
                ]);
            }
            T::TelegramBroken => {
                self.fail_telegram(&[telegram::Fault::bad_gateway(), telegram::Fault::Drop]);
            }
            T::TelegramCutsSends => self.fail_telegram(&[telegram::Fault::DropAfterEffect]),
            T::TelegramRepeats => self.repeats = true,
            T::DiscordSilent => self.discord.stall(),
            T::DiscordBusy => {
                self.discord
                    .fail_next("createMessage", discord::Fault::retry_after(PAUSE.into()));
                self.discord
                    .fail_next("createMessage", discord::Fault::unavailable());
            }
            T::DiscordCutsSends => self
                .discord
                .fail_next("createMessage", discord::Fault::DropAfterEffect),
            T::DiscordReconnects => self.discord.order(discord::Order::Reconnect),
            T::SlackSilent => self.slack.stall(),
            T::SlackBusy => {
                self.slack
                    .fail_next("chat.postMessage", slack::Fault::RetryAfter(PAUSE));
                self.slack
                    .fail_next("chat.postMessage", slack::Fault::Status(503));
            }
            T::SlackCutsSends => self
                .slack
                .fail_next("chat.postMessage", slack::Fault::DropAfterEffect),
            T::SlackRepeats => self.slack_repeats = true,
            T::WebSocketCuts => self.friends.iter().for_each(Friend::cut),
            T::MailSilent => self.mail.stall(true),
            T::MailCutsSends => self
                .mail
                .fail_next("CONTENT", mail::MailFault::CutAfterEffect),
            T::ModelSlow => self.mood.is_slow.store(true, Ordering::Relaxed),
            T::ModelBroken => self.mood.failures.store(2, Ordering::Relaxed),
            T::TelegramDown
            | T::TelegramRevoked
            | T::DiscordDown
            | T::SlackDown
            | T::MailDown
            | T::Killed => {}
        }
    }

    /// Takes a platform down and waits until it cannot be reached.
    pub(super) async fn begin_outage(&self, fault: PlannedFault) {
        match fault {
            PlannedFault::TelegramDown => self.telegram.server().go_down().await.unwrap(),
            PlannedFault::TelegramRevoked => {
                let before = self.log_count(REFUSED);
                self.telegram.revoke_token();
                self.telegram.end_poll();
                // A poll that is still open would deliver messages, and their answers would fail
                // for good.
                self.wait("the channel to notice", async |world| {
                    if world.log_count(REFUSED) > before {
                        Vec::new()
                    } else {
                        vec![REFUSED.to_owned()]
                    }
                })
                .await;
            }
            PlannedFault::DiscordDown => self.discord.go_down().await.unwrap(),
            PlannedFault::SlackDown => self.slack.go_down().await.unwrap(),
            PlannedFault::MailDown => self.mail.go_down().await.unwrap(),
            _ => {}
        }
    }

    pub(super) async fn end_fault(&mut self, fault: PlannedFault) {
        use PlannedFault as T;
        match fault {
            T::TelegramDown => self.telegram.server().come_back().await.unwrap(),
            T::TelegramSilent => self.telegram.server().recover(),
            T::TelegramRepeats => self.repeats = false,
            T::TelegramRevoked => {
                self.telegram.restore_token();
                self.kill().await;
            }
            T::DiscordDown => self.discord.come_back().await.unwrap(),
            T::DiscordSilent => self.discord.recover(),
            T::DiscordReconnects => self.discord.cut(),
            T::SlackDown => self.slack.come_back().await.unwrap(),
            T::SlackSilent => self.slack.recover(),
            T::SlackRepeats => self.slack_repeats = false,
            T::WebSocketCuts => self.friends.iter().for_each(Friend::cut),
            T::MailDown => self.mail.come_back().await.unwrap(),
            T::MailSilent => self.mail.stall(false),
            T::ModelSlow => self.mood.is_slow.store(false, Ordering::Relaxed),
            T::Killed => self.kill().await,
            T::TelegramBusy
            | T::TelegramBroken
            | T::TelegramCutsSends
            | T::DiscordBusy
            | T::DiscordCutsSends
            | T::SlackBusy
            | T::SlackCutsSends
            | T::MailCutsSends
            | T::ModelBroken => {}
        }
    }

    fn fail_telegram(&self, faults: &[telegram::Fault]) {
        for fault in faults {
            self.telegram.fail_next("sendMessage", fault.clone());
        }
    }

    /// Sends a message that needs an answer.
    pub(super) fn say(&mut self, judge: &mut Judge, message: Message) {
        let token = format!("q-{:04}", message.number);
        let text = format!("please look into {token}");
        match message.place {
            Place::Telegram(id) if self.repeats => {
                return self.repeat_on_telegram(judge, id, token);
            }
            Place::Telegram(id) => drop(
                self.telegram
                    .push(telegram::Incoming::private(&person(id), &text)),
            ),
            Place::TelegramGroup => {
                let send_noise = self.send_noise(judge);
                self.telegram
                    .push(telegram::Incoming::group(GROUP, &person(7), send_noise));
                let text = format!("@{} {text}", telegram::BOT_USERNAME);
                self.telegram
                    .push(telegram::Incoming::group(GROUP, &person(7), text));
            }
            Place::Discord | Place::DiscordRoom => self.say_on_discord(judge, message.place, &text),
            Place::Slack | Place::SlackRoom => self.say_on_slack(judge, message.place, &text),
            Place::WebSocket(index) => self.friends[index].say(&token, &text),
            Place::Mail(address) => drop(self.mail.push(letter(address, &token, &text))),
        }
        judge.said(message.place, token);
    }

    /// Returns the text of a message that is not for the assistant.
    fn send_noise(&mut self, judge: &mut Judge) -> String {
        self.send_noise += 1;
        let token = format!("n-{:04}", self.send_noise);
        let text = format!("between us: {token}");
        judge.ignored(token);
        text
    }

    /// Delivers one message three times, with an older one in between.
    fn repeat_on_telegram(&mut self, judge: &mut Judge, id: i64, token: String) {
        self.send_noise += 1;
        let older = format!("q-9{:03}", self.send_noise);
        let number = i64::from(50_000 + 2 * self.send_noise);
        let update = |message: i64, token: &str| {
            json!({
                "message_id": message, "date": chrono::Utc::now().timestamp(), "text": format!("please look into {token}"),
                "from": {"id": id, "is_bot": false, "first_name": "Somebody"}, "chat": {"id": id, "type": "private"},
            })
        };
        let (newer_update, older_update) = (update(number + 1, &token), update(number, &older));
        for content in [&newer_update, &newer_update, &older_update, &newer_update] {
            self.telegram
                .push_raw("message", content.clone())
                .expect("messages are wanted");
        }
        // In the order of their delivery.
        judge.said(Place::Telegram(id), token);
        judge.said(Place::Telegram(id), older);
    }

    fn say_on_discord(&mut self, judge: &mut Judge, place: Place, text: &str) {
        let (ann, room) = (discord::Person::new(7, "ann"), discord::CHANNELS[0]);
        if place == Place::Discord {
            self.discord.push(discord::Incoming::direct(&ann, text));
        } else {
            let send_noise = self.send_noise(judge);
            self.discord
                .push(discord::Incoming::in_channel(room, &ann, &send_noise));
            let text = format!("<@{}> {text}", discord::BOT_ID);
            self.discord
                .push(discord::Incoming::in_channel(room, &ann, &text));
        }
    }

    fn say_on_slack(&mut self, judge: &mut Judge, place: Place, text: &str) {
        let ann = slack_ann();
        let pushed = if place == Place::Slack {
            self.slack.push(slack::Incoming::direct(&ann, text))
        } else {
            let send_noise = self.send_noise(judge);
            self.slack
                .push(slack::Incoming::to(SLACK_ROOM, &ann, &send_noise));
            self.slack.push(slack::Incoming::to(
                SLACK_ROOM,
                &ann,
                &format!("<@{}> {text}", slack::BOT_USER),
            ))
        };
        if self.slack_repeats {
            self.slack.repeat(&pushed);
        }
    }

    /// Returns everything that was shown in a chat, in order.
    pub(super) fn shown(&self, place: Place) -> Vec<String> {
        let ann = discord::Person::new(7, "ann");
        match place {
            Place::Telegram(id) => self.telegram.texts_in(id),
            Place::TelegramGroup => self.telegram.texts_in(GROUP),
            Place::Discord => self.discord.texts_in(self.discord.direct_channel(&ann)),
            Place::DiscordRoom => self.discord.texts_in(discord::CHANNELS[0]),
            Place::Slack => self.slack.texts_in(&slack_ann().direct()),
            Place::SlackRoom => self.slack.texts_in(SLACK_ROOM),
            Place::WebSocket(index) => self.friends[index].received(),
            Place::Mail(address) => {
                let sent = self
                    .mail
                    .sent()
                    .into_iter()
                    .filter(|mail| mail.to.iter().any(|to| to.contains(address)));
                sent.map(|mail| words(&mail.raw)).collect()
            }
        }
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
        let fakes = [
            self.model.violations(),
            self.discord.complaints(),
            self.slack.complaints(),
            self.mail.violations(),
        ];
        fakes.concat()
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

fn person(id: i64) -> telegram::Person {
    telegram::Person::new(id, format!("Person {id}"), format!("person_{id}"))
}

fn slack_ann() -> slack::Person {
    slack::Person::new("U0ANN", "ann")
}

/// Returns a mail as the own mail server delivers it, with its report about the sender.
fn letter(from: &str, token: &str, text: &str) -> String {
    format!(
        "Return-Path: <{from}>\r\nAuthentication-Results: mx.bot.test; dkim=pass header.d=people.test;\r\n spf=pass \
         smtp.mailfrom=people.test\r\nFrom: {from}\r\nTo: bot@bot.test\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{token}@people.test>\r\nSubject: A question\r\n\r\n{text}\r\n"
    )
}

/// Returns the answer in a mail, or all of it if there is no answer.
fn words(raw: &str) -> String {
    raw.lines()
        .find(|line| line.starts_with(DONE))
        .unwrap_or(raw)
        .to_owned()
}

/// Answers as the model: names every token that it has not answered yet.
fn answer(mood: &Mood, request: &ModelRequest) -> Reply {
    let is_broken = mood
        .failures
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok();
    if is_broken {
        return Reply::error(503, "overloaded");
    }
    let messages = request.messages();
    let is_answer = |message: &Value| message["role"] == "assistant";
    let open = messages
        .iter()
        .rposition(is_answer)
        .map_or(0, |last| last + 1);
    let asked = messages
        .iter()
        .skip(open)
        .filter(|message| message["role"] == "user");
    let mut named: Vec<String> = Vec::new();
    for token in asked.flat_map(|message| tokens(&message["content"].to_string())) {
        if !named.contains(&token) {
            named.push(token);
        }
    }
    let reply = Reply::text(format!("{DONE} {}", named.join(" ")));
    if mood.is_slow.load(Ordering::Relaxed) {
        reply.with_delay(Duration::from_millis(700))
    } else {
        reply
    }
}
