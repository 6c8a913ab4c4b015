//! Feishu: a direct chat, and a group where every mention begins a topic.

use async_trait::async_trait;
use nanobot_channel_feishu_fake::{self as feishu, FeishuFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, Thread, question};

const DIRECT: Place = Place::of("feishu", "direct");
const GROUP: Place = Place::group_with_threads("feishu", "oc_group");

#[derive(Debug)]
pub(crate) struct FeishuChats {
    fake: FeishuFake,
    repeats: bool,
}

impl FeishuChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = FeishuFake::start().await?;
        fake.add_person(&ann());
        fake.add_group(GROUP.chat, true);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    /// Lets the next send fail, in a direct chat and in a topic.
    fn fail_send(&self, fault: &feishu::Fault) {
        for method in ["message.create", "message.reply"] {
            self.fake.fail_next(method, fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for FeishuChats {
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

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(&feishu::Fault::RateLimited(PAUSE));
                self.fail_send(&feishu::Fault::Status(503));
            }
            Fault::CutsSends => self.fail_send(&feishu::Fault::DropAfterEffect),
            Fault::Repeats => self.repeats = true,
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
            Fault::Cuts => self.fake.close(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == GROUP {
            if let Some(noise) = noise {
                self.fake
                    .push(feishu::Incoming::to(GROUP.chat, &ann, noise));
            }
            let text = format!("@_user_1 {text}");
            let asked = feishu::Incoming::to(GROUP.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(feishu::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        vec![token.to_owned()]
    }

    fn begin_thread(&mut self) -> Option<Thread> {
        let said = feishu::Incoming::to(GROUP.chat, &ann(), "plants");
        let id = self.fake.push_silently(said).message_id;
        Some(Thread {
            platform: self.name(),
            session: Some(format!("feishu:{}:{id}", GROUP.chat)),
            id,
        })
    }

    fn say_in(&mut self, thread: &Thread, token: &str) {
        let text = format!("@_user_1 {}", question(token));
        let asked = feishu::Incoming::to(GROUP.chat, &ann(), &text).mentioning_bot();
        self.fake.push(asked.in_thread_of(&thread.id));
    }

    fn shown_in(&self, thread: &Thread) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.filter(|sent| sent.root_id.as_ref() == Some(&thread.id) && sent.thread_id.is_some())
            .map(|sent| sent.text)
            .collect()
    }

    fn add_crowd(&mut self, count: u32) {
        for number in 0..count {
            self.fake.add_person(&crowd(number));
        }
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let person = crowd(number);
        self.fake
            .push(feishu::Incoming::direct(&person, &question(token)));
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

fn ann() -> feishu::Person {
    feishu::Person::new("ou_ann", "Ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> feishu::Person {
    feishu::Person::new(&format!("ou_crowd{number}"), "Somebody")
}
