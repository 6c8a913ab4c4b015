//! Slack: a direct chat, and a channel where every mention begins a thread.

use async_trait::async_trait;
use nanobot_channel_slack_fake::{self as slack, SlackFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, Thread, question};

const DIRECT: Place = Place::of("slack", "direct");
const ROOM: Place = Place::group_with_threads("slack", "C0ROOM");

#[derive(Debug)]
pub(crate) struct SlackChats {
    fake: SlackFake,
    repeats: bool,
}

impl SlackChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        Ok(Self {
            fake: SlackFake::start().await?,
            repeats: false,
        })
    }

    fn fail_send(&self, fault: slack::Fault) {
        self.fake.fail_next("chat.postMessage", fault);
    }
}

#[async_trait]
impl ChatFake for SlackChats {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "botToken": slack::BOT_TOKEN, "appToken": slack::APP_TOKEN,
            "apiBase": self.fake.api_base(), "allowFrom": ["U0ANN"], "streaming": false,
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![DIRECT, ROOM]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::Down,
            Fault::Silent,
            Fault::Busy,
            Fault::CutsSends,
            Fault::Repeats,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, ann().direct()))
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(slack::Fault::RetryAfter(PAUSE));
                self.fail_send(slack::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(slack::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            _ => return Err(FakeError::NoSuchFault(self.name(), fault)),
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back().await?,
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == ROOM {
            if let Some(noise) = noise {
                self.fake.push(slack::Incoming::to(ROOM.chat, &ann, noise));
            }
            let text = format!("<@{}> {text}", slack::BOT_USER);
            self.fake.push(slack::Incoming::to(ROOM.chat, &ann, &text))
        } else {
            self.fake.push(slack::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        vec![token.to_owned()]
    }

    fn begin_thread(&mut self) -> Option<Thread> {
        let said = slack::Incoming::to(ROOM.chat, &ann(), "plants");
        let id = self.fake.push_silently(said).ts;
        Some(Thread {
            platform: self.name(),
            session: Some(format!("slack:{}:{id}", ROOM.chat)),
            id,
        })
    }

    fn say_in(&mut self, thread: &Thread, token: &str) {
        let text = format!("<@{}> {}", slack::BOT_USER, question(token));
        let asked = slack::Incoming::to(ROOM.chat, &ann(), &text);
        self.fake.push(asked.in_thread(&thread.id));
    }

    fn shown_in(&self, thread: &Thread) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.filter(|sent| sent.thread.as_ref() == Some(&thread.id))
            .map(|sent| sent.text)
            .collect()
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let person = crowd(number);
        self.fake
            .push(slack::Incoming::direct(&person, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            ROOM => self.fake.texts_in(ROOM.chat),
            _ => self.fake.texts_in(&ann().direct()),
        }
    }

    fn calls(&self) -> Vec<String> {
        self.fake
            .calls()
            .into_iter()
            .map(|call| call.method)
            .collect()
    }

    fn violations(&self) -> Vec<String> {
        self.fake.complaints()
    }
}

fn ann() -> slack::Person {
    slack::Person::new("U0ANN", "ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> slack::Person {
    slack::Person::new(&format!("U0CROWD{number}"), &format!("crowd{number}"))
}
