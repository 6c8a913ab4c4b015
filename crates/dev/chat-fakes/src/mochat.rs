//! Mochat: a session, and a panel where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_mochat_fake::{self as mochat, MochatFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, Place, question};

const DIRECT: Place = Place::of("mochat", "direct");
const PANEL: Place = Place::group("mochat", "panel1");

#[derive(Debug)]
pub(crate) struct MochatChats {
    fake: MochatFake,
    repeats: bool,
}

impl MochatChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = MochatFake::start().await?;
        fake.add_person(&ann());
        fake.add_panel(PANEL.chat);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    /// Lets the next send fail, in a session and in a panel.
    fn fail_send(&self, fault: &mochat::Fault) {
        for method in ["sessions.send", "panels.send"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for MochatChats {
    fn name(&self) -> &'static str {
        "mochat"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "clawToken": mochat::CLAW_TOKEN, "agentUserId": mochat::BOT_USER_ID,
            "baseUrl": self.fake.base_url(), "socketUrl": self.fake.socket_url(),
            "sessions": ["*"], "panels": ["*"], "allowFrom": ["ann"],
            "replyDelayMode": "off", "mention": {"requireInGroups": true},
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![DIRECT, PANEL]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::Down,
            Fault::Silent,
            Fault::Busy,
            Fault::CutsSends,
            Fault::Repeats,
            Fault::Reconnects,
            Fault::Cuts,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, ann().direct()))
    }

    /// What is older than the first connection counts as read.
    fn log_when_ready(&self) -> Option<&'static str> {
        Some("receiving from Mochat")
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&mochat::Fault::RateLimited);
                self.fail_send(&mochat::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&mochat::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.disconnect(),
            Fault::Cuts => self.fake.cut(),
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
        let pushed = if place == PANEL {
            if let Some(noise) = noise {
                self.fake
                    .push(mochat::Incoming::to(PANEL.chat, &ann, noise));
            }
            let asked = mochat::Incoming::to(PANEL.chat, &ann, &text);
            self.fake.push(asked.mentioning_robot())
        } else {
            self.fake.push(mochat::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        vec![token.to_owned()]
    }

    fn add_crowd(&mut self, count: u32) {
        for number in 0..count {
            self.fake.add_person(&crowd(number));
        }
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let person = crowd(number);
        self.fake
            .push(mochat::Incoming::direct(&person, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            PANEL => self.fake.texts_in(PANEL.chat),
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

fn ann() -> mochat::Person {
    mochat::Person::new("ann", "Ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> mochat::Person {
    mochat::Person::new(&format!("crowd{number}"), "Somebody")
}
