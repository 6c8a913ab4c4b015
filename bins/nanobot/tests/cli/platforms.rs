//! What all platforms have in common, through one gateway with a channel on each.

mod commands;
mod pairing;
mod progress;
mod sessions;
mod threads;

use nanobot_chat_fakes::{ANSWER_PREFIX, ChatFake, PLATFORMS, Place};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, until};

/// A home with a channel on every platform.
struct World {
    home: Home,
    model: ModelServer,
    fakes: Vec<Box<dyn ChatFake>>,
}

impl World {
    /// `change` may change the sections of all channels.
    async fn new(model: ModelServer, change: impl FnOnce(&mut Value)) -> Self {
        let fakes = nanobot_chat_fakes::start().await.unwrap();
        let mut channels = json!({});
        for fake in &fakes {
            channels[fake.name()] = fake.section();
        }
        change(&mut channels);
        let home = Home::new();
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
            "channels": channels,
        }));
        Self { home, model, fakes }
    }

    /// Changes the configuration.
    fn reconfigure(&self, change: impl FnOnce(&mut Value)) {
        let mut config = serde_json::from_str(&self.home.read("config.json")).unwrap();
        change(&mut config);
        self.home.configure(&config);
    }

    /// Starts the gateway, and waits until all channels receive.
    async fn start(&self) -> Running {
        let gateway = Running::start(&self.home).await;
        let lines: Vec<_> = self
            .fakes
            .iter()
            .filter_map(|fake| fake.log_when_ready())
            .collect();
        until("all channels receive", async || {
            let log = self.home.read("logs/gateway.log");
            lines.iter().all(|line| log.contains(line))
        })
        .await;
        gateway
    }

    /// Ends the gateway, and checks that every platform was used as its rules require.
    async fn end(&self, gateway: Running) {
        self.end_with(gateway, "").await;
    }

    /// Like [`Self::end`]; one violation is expected.
    async fn end_with(&self, gateway: Running, expected: &str) {
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.end().await.1, Some(0));
        for fake in &self.fakes {
            let mut violations = fake.violations();
            violations.retain(|violation| violation != expected);
            assert!(violations.is_empty(), "{}: {violations:?}", fake.name());
        }
    }

    fn fake(&self, platform: &str) -> &dyn ChatFake {
        let mut fakes = self.fakes.iter();
        &**fakes.find(|fake| fake.name() == platform).unwrap()
    }

    /// Returns a chat by its platform and its name there.
    fn place(&self, platform: &str, chat: &str) -> Place {
        let mut places = self.fake(platform).places().into_iter();
        places.find(|place| place.chat == chat).unwrap()
    }

    /// Returns a direct chat on each platform.
    fn direct_chats(&self) -> Vec<Place> {
        let first =
            |fake: &dyn ChatFake| fake.places().into_iter().find(|place| !place.needs_mention);
        PLATFORMS
            .into_iter()
            .map(|platform| first(self.fake(platform)).unwrap())
            .collect()
    }

    fn say(&mut self, place: Place, token: &str) {
        let mut fakes = self.fakes.iter_mut();
        let fake = fakes.find(|fake| fake.name() == place.platform).unwrap();
        fake.say(place, token, None);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.fake(place.platform).shown(place)
    }

    /// Waits until a chat shows a text, and returns the message with it.
    async fn sees(&self, place: Place, text: &str) -> String {
        let find = || {
            self.shown(place)
                .into_iter()
                .find(|shown| shown.contains(text))
        };
        let what = format!("{} {} shows {text:?}", place.platform, place.chat);
        until(&what, async || find().is_some()).await;
        find().unwrap()
    }
}

/// Returns the token of a message.
fn token(number: usize) -> String {
    format!("q-{number:04}")
}

/// Returns the answer to a message: it names the token.
fn answer_to(token: &str) -> String {
    format!("{ANSWER_PREFIX} {token}")
}

/// Returns the token of the newest message.
fn asked_token(request: &ModelRequest) -> String {
    let asked = request.last_user_text();
    let at = asked.find("q-").unwrap_or(asked.len());
    asked.get(at..at + 6).unwrap_or_default().to_owned()
}

/// Answers the newest message.
fn answer(request: &ModelRequest) -> Reply {
    Reply::text(answer_to(&asked_token(request)))
}
