//! DingTalk: a private chat, and a group where the robot is mentioned.

use async_trait::async_trait;
use nanobot_channel_dingtalk_fake::{self as dingtalk, DingTalkFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, Place, question};

const DIRECT: Place = Place::of("dingtalk", "direct");
const GROUP: Place = Place::of("dingtalk", "cidGroup==");

pub(super) struct DingTalkDay {
    fake: DingTalkFake,
    repeats: bool,
}

impl DingTalkDay {
    pub(super) async fn start() -> Self {
        let fake = DingTalkFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Self {
            fake,
            repeats: false,
        }
    }

    /// Lets the next send fail, in a private chat and in a group.
    fn fail_send(&self, fault: &dingtalk::Fault) {
        for method in ["robot.private", "robot.group"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for DingTalkDay {
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

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&dingtalk::Fault::RateLimited);
                self.fail_send(&dingtalk::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&dingtalk::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.disconnect(),
            _ => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Reconnects => self.fake.cut(),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == GROUP {
            let noise = judge.noise();
            self.fake
                .push(dingtalk::Incoming::to(GROUP.chat, &ann, &noise));
            let asked = dingtalk::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_robot())
        } else {
            self.fake.push(dingtalk::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
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

fn ann() -> dingtalk::Person {
    dingtalk::Person::new("ann", "Ann")
}
