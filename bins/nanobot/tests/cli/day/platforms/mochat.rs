//! Mochat: a session, and a panel where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_mochat_fake::{self as mochat, MochatFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, Place, question};

const DIRECT: Place = Place::of("mochat", "direct");
const PANEL: Place = Place::of("mochat", "panel1");

pub(super) struct MochatDay {
    fake: MochatFake,
    repeats: bool,
}

impl MochatDay {
    pub(super) async fn start() -> Self {
        let fake = MochatFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_panel(PANEL.chat);
        Self {
            fake,
            repeats: false,
        }
    }

    /// Lets the next send fail, in a session and in a panel.
    fn fail_send(&self, fault: &mochat::Fault) {
        for method in ["sessions.send", "panels.send"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for MochatDay {
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

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&mochat::Fault::RateLimited);
                self.fail_send(&mochat::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&mochat::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
            Fault::Reconnects => self.fake.disconnect(),
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
        let pushed = if place == PANEL {
            let noise = judge.noise();
            self.fake
                .push(mochat::Incoming::to(PANEL.chat, &ann, &noise));
            let asked = mochat::Incoming::to(PANEL.chat, &ann, &text);
            self.fake.push(asked.mentioning_robot())
        } else {
            self.fake.push(mochat::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            PANEL => self.fake.texts_in(PANEL.chat),
            _ => self.fake.texts_in(&ann().direct()),
        }
    }

    fn violations(&self) -> Vec<String> {
        self.fake.complaints()
    }
}

fn ann() -> mochat::Person {
    mochat::Person::new("ann", "Ann")
}
