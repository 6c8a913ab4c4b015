//! WeCom: a private chat, and a group where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_wecom_fake::{self as wecom, Pushed, WeComFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, Place, question};

const DIRECT: Place = Place::of("wecom", "direct");
const GROUP: Place = Place::of("wecom", "wrGroup");

pub(super) struct WeComDay {
    fake: WeComFake,
    /// What was said.
    said: Vec<Pushed>,
    repeats: bool,
}

impl WeComDay {
    pub(super) async fn start() -> Self {
        let fake = WeComFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        // What WeCom does with messages to a bot that is away is not known.
        fake.keep_messages();
        Self {
            fake,
            said: Vec::new(),
            repeats: false,
        }
    }

    /// WeCom repeats nothing, so a message that was on its way over a connection that broke is lost.
    /// The judge does not know which ones were, so all are sent again.
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
impl DayPlatform for WeComDay {
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

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&wecom::Fault::RateLimited);
                self.fail_send(&wecom::Fault::Error(-1));
            }
            Fault::CutsSends => self.fail_send(&wecom::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.close(),
            Fault::Cuts => self.fake.cut(),
            _ => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            _ => {}
        }
        self.repeat_all();
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == GROUP {
            let noise = judge.noise();
            // WeCom delivers mentions of the bot only.
            self.fake
                .push(wecom::Incoming::to(GROUP.chat, &ann, &noise));
            let asked = wecom::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(wecom::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        self.said.push(pushed);
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            GROUP => self.fake.texts_in(GROUP.chat),
            _ => self.fake.texts_in(&ann().direct()),
        }
    }

    fn violations(&self) -> Vec<String> {
        self.fake.complaints()
    }
}

fn ann() -> wecom::Person {
    wecom::Person::new("ann")
}
