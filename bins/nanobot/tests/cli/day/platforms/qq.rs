//! QQ: a private chat, and a group where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_qq_fake::{self as qq, QqFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, Place, question};

const DIRECT: Place = Place::of("qq", "direct");
const GROUP: Place = Place::of("qq", "0123456789ABCDEF0123456789ABCDEF");

/// Active messages a month, more than a day needs.
const ACTIVE_MESSAGES: usize = 1000;

pub(super) struct QqDay {
    fake: QqFake,
    repeats: bool,
}

impl QqDay {
    pub(super) async fn start() -> Self {
        let fake = QqFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        fake.limit_active_messages(ACTIVE_MESSAGES);
        Self {
            fake,
            repeats: false,
        }
    }

    /// Lets the next send fail, in a private chat and in a group.
    fn fail_send(&self, fault: &qq::Fault) {
        for method in ["user.send", "group.send"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for QqDay {
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

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&qq::Fault::RateLimited);
                self.fail_send(&qq::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&qq::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.reconnect(),
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
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == GROUP {
            let noise = judge.noise();
            self.fake
                .push(qq::Incoming::to_group(GROUP.chat, &ann, &noise));
            let asked = qq::Incoming::to_group(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(qq::Incoming::direct(&ann, &text))
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

fn ann() -> qq::Person {
    qq::Person::new("ann", "Ann")
}
