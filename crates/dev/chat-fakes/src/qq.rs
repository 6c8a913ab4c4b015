//! QQ: a private chat, and a group where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_qq_fake::{self as qq, QqFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, Place, question};

const DIRECT: Place = Place::of("qq", "direct");
const GROUP: Place = Place::group("qq", "0123456789ABCDEF0123456789ABCDEF");

/// Active messages a month, more than a day needs.
const ACTIVE_MESSAGES: usize = 1000;

#[derive(Debug)]
pub(crate) struct QqChats {
    fake: QqFake,
    repeats: bool,
}

impl QqChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = QqFake::start().await?;
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        fake.limit_active_messages(ACTIVE_MESSAGES);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    /// Lets the next send fail, in a private chat and in a group.
    fn fail_send(&self, fault: &qq::Fault) {
        for method in ["user.send", "group.send"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for QqChats {
    fn name(&self) -> &'static str {
        "qq"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "appId": qq::APP_ID, "secret": qq::CLIENT_SECRET,
            "apiBase": self.fake.base_url(), "tokenUrl": self.fake.token_url(),
            "allowFrom": [ann().openid],
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![DIRECT, GROUP]
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
        Some((DIRECT, format!("c2c:{}", ann().openid)))
    }

    /// QQ delivers nothing from before a session.
    fn log_when_ready(&self) -> Option<&'static str> {
        Some("session with QQ")
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&qq::Fault::RateLimited);
                self.fail_send(&qq::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&qq::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.reconnect(),
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
        let pushed = if place == GROUP {
            if let Some(noise) = noise {
                self.fake
                    .push(qq::Incoming::to_group(GROUP.chat, &ann, noise));
            }
            let asked = qq::Incoming::to_group(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(qq::Incoming::direct(&ann, &text))
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
            .push(qq::Incoming::direct(&person, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            GROUP => self.fake.texts_in(GROUP.chat),
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

fn ann() -> qq::Person {
    qq::Person::new("ann", "Ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> qq::Person {
    qq::Person::new(&format!("crowd{number}"), "Somebody")
}
