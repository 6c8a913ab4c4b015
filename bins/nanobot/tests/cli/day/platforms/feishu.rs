//! Feishu: a direct chat, and a group where every mention begins a topic.

use async_trait::async_trait;
use nanobot_channel_feishu_fake::{self as feishu, FeishuFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, PAUSE, Place, question};

const DIRECT: Place = Place::of("feishu", "direct");
const GROUP: Place = Place::with_threads("feishu", "oc_group");

pub(super) struct FeishuDay {
    fake: FeishuFake,
    repeats: bool,
}

impl FeishuDay {
    pub(super) async fn start() -> Self {
        let fake = FeishuFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Self {
            fake,
            repeats: false,
        }
    }

    /// Lets the next send fail, in a direct chat and in a topic.
    fn fail_send(&self, fault: &feishu::Fault) {
        for method in ["message.create", "message.reply"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for FeishuDay {
    fn name(&self) -> &'static str {
        "feishu"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "appId": feishu::APP_ID, "appSecret": feishu::APP_SECRET,
            "apiBase": self.fake.base_url(), "allowFrom": [ann().open_id], "streaming": false,
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
            Fault::Cuts,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, ann().open_id))
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&feishu::Fault::RateLimited(PAUSE));
                self.fail_send(&feishu::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&feishu::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Cuts => self.fake.cut(),
            _ => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Cuts => self.fake.close(),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == GROUP {
            let noise = judge.noise();
            self.fake
                .push(feishu::Incoming::to(GROUP.chat, &ann, &noise));
            let text = format!("@_user_1 {text}");
            let asked = feishu::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(feishu::Incoming::direct(&ann, &text))
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

fn ann() -> feishu::Person {
    feishu::Person::new("ou_ann", "Ann")
}
