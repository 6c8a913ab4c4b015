//! WhatsApp: a private chat, and a group where the account is mentioned.

use async_trait::async_trait;
use nanobot_channel_whatsapp_fake::{self as whatsapp, WhatsAppFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, question};

const DIRECT: Place = Place::of("whatsapp", "direct");
const GROUP: Place = Place::group("whatsapp", "120363041234567890@g.us");

#[derive(Debug)]
pub(crate) struct WhatsAppChats {
    fake: WhatsAppFake,
    repeats: bool,
}

impl WhatsAppChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = WhatsAppFake::start().await?;
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    fn fail_sends(&self, faults: &[whatsapp::Fault]) {
        for fault in faults {
            self.fake.fail_next("send", fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for WhatsAppChats {
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

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
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
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Reconnects => self.fake.reconnect(),
            Fault::Revoked => self.fake.link(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == GROUP {
            if let Some(noise) = noise {
                self.fake
                    .push(whatsapp::Incoming::to(GROUP.chat, &ann, noise));
            }
            let asked = whatsapp::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(whatsapp::Incoming::direct(&ann, &text))
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
            .push(whatsapp::Incoming::direct(&person, &question(token)));
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

fn ann() -> whatsapp::Person {
    whatsapp::Person::new("4915112345678", "Ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> whatsapp::Person {
    whatsapp::Person::new(&format!("49151{number:08}"), "Somebody")
}
