//! Telegram: two direct chats and a group.

use async_trait::async_trait;
use nanobot_channel_telegram_fake::{self as telegram, TelegramFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, Thread, question};

const ANN: Place = Place::of("telegram", "7");
const BOB: Place = Place::of("telegram", "8");
const GROUP: Place = Place::group("telegram", "-1001234567890");
/// A topic of the group.
const TOPIC: i64 = 7;

#[derive(Debug)]
pub(crate) struct TelegramChats {
    fake: TelegramFake,
    repeats: bool,
    /// Number of messages that were repeated.
    repeated: u32,
}

impl TelegramChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        Ok(Self {
            fake: TelegramFake::start().await?,
            repeats: false,
            repeated: 0,
        })
    }

    fn fail_sends(&self, faults: &[telegram::Fault]) {
        for fault in faults {
            self.fake.fail_next("sendMessage", fault.clone());
        }
    }

    /// Delivers one message three times, with an older one in between. Returns the tokens of both,
    /// in the order of their delivery.
    fn repeat(&mut self, place: Place, token: &str) -> Vec<String> {
        self.repeated += 1;
        let (id, older) = (id(place), format!("q-9{:03}", self.repeated));
        let number = i64::from(50_000 + 2 * self.repeated);
        let update = |message: i64, token: &str| {
            json!({
                "message_id": message, "date": chrono::Utc::now().timestamp(), "text": question(token),
                "from": {"id": id, "is_bot": false, "first_name": "Somebody"}, "chat": {"id": id, "type": "private"},
            })
        };
        let (newer_update, older_update) = (update(number + 1, token), update(number, &older));
        for content in [&newer_update, &newer_update, &older_update, &newer_update] {
            self.fake.push_raw("message", content.clone());
        }
        vec![token.to_owned(), older]
    }
}

#[async_trait]
impl ChatFake for TelegramChats {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "token": telegram::TOKEN, "apiBase": self.fake.api_base(),
            "allowFrom": ["7", "8"], "streaming": false, "pollTimeout": 1,
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![ANN, BOB, GROUP]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::Down,
            Fault::Silent,
            Fault::Busy,
            Fault::Broken,
            Fault::CutsSends,
            Fault::Repeats,
            Fault::Revoked,
        ]
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        use telegram::Fault as F;
        match fault {
            Fault::Down => self.fake.server().go_down().await?,
            Fault::Silent => self.fake.server().stall(),
            Fault::Busy => self.fail_sends(&[F::RetryAfter(PAUSE), F::RetryAfter(PAUSE)]),
            Fault::Broken => self.fail_sends(&[F::bad_gateway(), F::Drop]),
            Fault::CutsSends => self.fail_sends(&[F::DropAfterEffect]),
            Fault::Repeats => self.repeats = true,
            Fault::Revoked => {
                self.fake.revoke_token();
                self.fake.end_poll();
            }
            Fault::Reconnects | Fault::Cuts => {
                return Err(FakeError::NoSuchFault(self.name(), fault));
            }
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.server().come_back().await?,
            Fault::Silent => self.fake.server().recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Revoked => self.fake.restore_token(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let text = question(token);
        if place == GROUP {
            let (group, ann) = (id(GROUP), person(ANN));
            if let Some(noise) = noise {
                self.fake
                    .push(telegram::Incoming::group(group, &ann, noise));
            }
            let text = format!("@{} {text}", telegram::BOT_USERNAME);
            self.fake.push(telegram::Incoming::group(group, &ann, text));
        } else if self.repeats {
            return self.repeat(place, token);
        } else {
            let incoming = telegram::Incoming::private(&person(place), &text);
            self.fake.push(incoming);
        }
        vec![token.to_owned()]
    }

    fn begin_thread(&mut self) -> Option<Thread> {
        let said = telegram::Incoming::group(id(GROUP), &person(ANN), "plants");
        self.fake.push(said.in_topic(TOPIC));
        Some(Thread {
            platform: self.name(),
            id: TOPIC.to_string(),
            session: Some(format!("telegram:{}:topic:{TOPIC}", GROUP.chat)),
        })
    }

    fn say_in(&mut self, _thread: &Thread, token: &str) {
        let text = format!("@{} {}", telegram::BOT_USERNAME, question(token));
        let asked = telegram::Incoming::group(id(GROUP), &person(ANN), text);
        self.fake.push(asked.in_topic(TOPIC));
    }

    fn shown_in(&self, _thread: &Thread) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.filter(|sent| (sent.chat_id, sent.thread_id) == (id(GROUP), Some(TOPIC)))
            .map(|sent| sent.text)
            .collect()
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let name = format!("crowd_{number}");
        let person = telegram::Person::new(1_000 + i64::from(number), "Somebody", name);
        self.fake
            .push(telegram::Incoming::private(&person, question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.fake.texts_in(id(place))
    }

    fn calls(&self) -> Vec<String> {
        self.fake
            .calls()
            .into_iter()
            .map(|call| call.method)
            .collect()
    }

    fn violations(&self) -> Vec<String> {
        Vec::new()
    }
}

fn id(place: Place) -> i64 {
    match place {
        ANN => 7,
        BOB => 8,
        _ => -1_001_234_567_890,
    }
}

fn person(place: Place) -> telegram::Person {
    let id = id(place);
    telegram::Person::new(id, format!("Person {id}"), format!("person_{id}"))
}
