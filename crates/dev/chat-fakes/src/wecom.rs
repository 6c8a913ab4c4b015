//! WeCom: a private chat, and a group where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_wecom_fake::{self as wecom, Pushed, WeComFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, Place, question};

const DIRECT: Place = Place::of("wecom", "direct");
const GROUP: Place = Place::group("wecom", "wrGroup");

#[derive(Debug)]
pub(crate) struct WeComChats {
    fake: WeComFake,
    /// What was said.
    said: Vec<Pushed>,
    repeats: bool,
}

impl WeComChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = WeComFake::start().await?;
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        // What WeCom does with messages to a bot that is away is not known.
        fake.keep_messages();
        Ok(Self {
            fake,
            said: Vec::new(),
            repeats: false,
        })
    }

    /// WeCom repeats nothing, so a message that was on its way over a connection that broke is lost.
    /// Which ones were is unknown, so all are sent again.
    fn repeat_all(&self) {
        for said in &self.said {
            self.fake.repeat(said);
        }
    }

    /// Lets the next send fail, in a private chat and in a group.
    fn fail_send(&self, fault: &wecom::Fault) {
        for method in ["aibot_respond_msg", "aibot_send_msg"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for WeComChats {
    fn name(&self) -> &'static str {
        "wecom"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "botId": wecom::BOT_ID, "secret": wecom::SECRET,
            "wsUrl": self.fake.ws_url(), "allowFrom": ["ann"], "streaming": false,
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
        Some((DIRECT, "ann".to_owned()))
    }

    fn restarted(&mut self) {
        self.repeat_all();
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&wecom::Fault::RateLimited);
                self.fail_send(&wecom::Fault::Error(-1));
            }
            Fault::CutsSends => self.fail_send(&wecom::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.close(),
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
        self.repeat_all();
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == GROUP {
            // WeCom delivers mentions of the bot only.
            if let Some(noise) = noise {
                self.fake.push(wecom::Incoming::to(GROUP.chat, &ann, noise));
            }
            let asked = wecom::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(wecom::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        self.said.push(pushed);
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
            .push(wecom::Incoming::direct(&person, &question(token)));
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

fn ann() -> wecom::Person {
    wecom::Person::new("ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> wecom::Person {
    wecom::Person::new(&format!("crowd{number}"))
}
