//! DingTalk: a private chat, and a group where the robot is mentioned.

use async_trait::async_trait;
use nanobot_channel_dingtalk_fake::{self as dingtalk, DingTalkFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, Place, question};

const DIRECT: Place = Place::of("dingtalk", "direct");
const GROUP: Place = Place::group("dingtalk", "cidGroup==");

#[derive(Debug)]
pub(crate) struct DingTalkChats {
    fake: DingTalkFake,
    repeats: bool,
}

impl DingTalkChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = DingTalkFake::start().await?;
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    /// Lets the next send fail, in a private chat and in a group.
    fn fail_send(&self, fault: &dingtalk::Fault) {
        for method in ["robot.private", "robot.group"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for DingTalkChats {
    fn name(&self) -> &'static str {
        "dingtalk"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "clientId": dingtalk::CLIENT_ID, "clientSecret": dingtalk::CLIENT_SECRET,
            "apiBase": self.fake.base_url(), "oapiBase": self.fake.oapi_url(), "allowFrom": ["ann"],
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
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, "ann".to_owned()))
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&dingtalk::Fault::RateLimited);
                self.fail_send(&dingtalk::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&dingtalk::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.disconnect(),
            _ => return Err(FakeError::NoSuchFault(self.name(), fault)),
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back().await?,
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Reconnects => self.fake.cut(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == GROUP {
            if let Some(noise) = noise {
                self.fake
                    .push(dingtalk::Incoming::to(GROUP.chat, &ann, noise));
            }
            let asked = dingtalk::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_robot())
        } else {
            self.fake.push(dingtalk::Incoming::direct(&ann, &text))
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
            .push(dingtalk::Incoming::direct(&person, &question(token)));
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

fn ann() -> dingtalk::Person {
    dingtalk::Person::new("ann", "Ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> dingtalk::Person {
    dingtalk::Person::new(&format!("crowd{number}"), "Somebody")
}
