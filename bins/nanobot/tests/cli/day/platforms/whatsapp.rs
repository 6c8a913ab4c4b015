//! WhatsApp: a private chat, and a group where the account is mentioned.

use async_trait::async_trait;
use nanobot_channel_whatsapp_fake::{self as whatsapp, WhatsAppFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, PAUSE, Place, question};

const DIRECT: Place = Place::of("whatsapp", "direct");
const GROUP: Place = Place::of("whatsapp", "120363041234567890@g.us");

pub(super) struct WhatsAppDay {
    fake: WhatsAppFake,
    repeats: bool,
}

impl WhatsAppDay {
    pub(super) async fn start() -> Self {
        let fake = WhatsAppFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Self {
            fake,
            repeats: false,
        }
    }

    fn fail_sends(&self, faults: &[whatsapp::Fault]) {
        for fault in faults {
            self.fake.fail_next("send", fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for WhatsAppDay {
    fn name(&self) -> &'static str {
        "whatsapp"
    }

    /// No bridge is installed in the home, so the channel uses the one at `bridgeUrl`.
    fn section(&self) -> Value {
        json!({
            "enabled": true, "bridgeUrl": self.fake.url(), "bridgeToken": self.fake.token(),
            "allowFrom": [ann().number], "requestTimeout": 10,
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
            Fault::Broken,
            Fault::CutsSends,
            Fault::Repeats,
            Fault::Reconnects,
            Fault::Cuts,
            Fault::Revoked,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, ann().direct()))
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => self.fail_sends(&[
                whatsapp::Fault::RateLimitedFor(PAUSE.into()),
                whatsapp::Fault::error("not_connected"),
            ]),
            Fault::Broken => {
                self.fail_sends(&[whatsapp::Fault::error("failed"), whatsapp::Fault::Drop]);
            }
            Fault::CutsSends => self.fail_sends(&[
                whatsapp::Fault::DropAfterEffect,
                whatsapp::Fault::ErrorAfterEffect("unknown_outcome".to_owned()),
            ]),
            Fault::Repeats => self.repeats = true,
            // The bridge loses WhatsApp for the hour; messages wait there.
            Fault::Reconnects => self.fake.disconnect("connection lost", true),
            Fault::Cuts => self.fake.cut(),
            Fault::Revoked => self.fake.unlink(),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Reconnects => self.fake.reconnect(),
            Fault::Revoked => self.fake.link(),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == GROUP {
            let noise = judge.noise();
            self.fake
                .push(whatsapp::Incoming::to(GROUP.chat, &ann, &noise));
            let asked = whatsapp::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(whatsapp::Incoming::direct(&ann, &text))
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

fn ann() -> whatsapp::Person {
    whatsapp::Person::new("4915112345678", "Ann")
}
