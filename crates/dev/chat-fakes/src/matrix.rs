//! Matrix: a direct room, and a room in which the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_matrix_fake::{self as matrix, MatrixFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, Thread, question};

const DIRECT: Place = Place::of("matrix", "direct");
const ROOM: Place = Place::group("matrix", "!room:fake.test");

#[derive(Debug)]
pub(crate) struct MatrixChats {
    fake: MatrixFake,
    repeats: bool,
}

impl MatrixChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = MatrixFake::start().await?;
        fake.add_person(&ann());
        fake.add_room(ROOM.chat, &[ann(), matrix::Person::new("bob")]);
        Ok(Self {
            fake,
            repeats: false,
        })
    }

    fn fail_sends(&self, faults: &[matrix::Fault]) {
        for fault in faults {
            self.fake.fail_next("send", fault.clone());
        }
    }
}

#[async_trait]
impl ChatFake for MatrixChats {
    fn name(&self) -> &'static str {
        "matrix"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "homeserver": self.fake.url(), "userId": matrix::BOT_ID,
            "accessToken": matrix::BOT_TOKEN, "allowFrom": [ann().user_id], "reactEmoji": "",
            "streaming": false,
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![DIRECT, ROOM]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::Down,
            Fault::Silent,
            Fault::Busy,
            Fault::Broken,
            Fault::CutsSends,
            Fault::Repeats,
            Fault::Cuts,
            Fault::Revoked,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((DIRECT, ann().direct()))
    }

    /// Messages from before the first sync are history.
    fn log_when_ready(&self) -> Option<&'static str> {
        Some("receiving from the homeserver")
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        use matrix::Fault as F;
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => self.fail_sends(&[F::RateLimitedFor(PAUSE), F::Status(503)]),
            Fault::Broken => self.fail_sends(&[F::Status(502), F::Drop]),
            Fault::CutsSends => self.fail_sends(&[F::DropAfterEffect]),
            Fault::Repeats => self.repeats = true,
            Fault::Cuts => self.fake.cut(),
            Fault::Revoked => {
                self.fake.revoke_credentials();
                self.fake.end_syncs();
            }
            Fault::Reconnects => {
                return Err(FakeError::NoSuchFault(self.name(), fault));
            }
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back().await?,
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Revoked => self.fake.restore_credentials(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        let pushed = if place == ROOM {
            if let Some(noise) = noise {
                self.fake.push(matrix::Incoming::to(ROOM.chat, &ann, noise));
            }
            let asked = matrix::Incoming::to(ROOM.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(matrix::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        vec![token.to_owned()]
    }

    fn begin_thread(&mut self) -> Option<Thread> {
        let said = matrix::Incoming::to(ROOM.chat, &ann(), "plants");
        Some(Thread {
            platform: self.name(),
            id: self.fake.push(said).event_id,
            session: None,
        })
    }

    fn say_in(&mut self, thread: &Thread, token: &str) {
        let asked = matrix::Incoming::to(ROOM.chat, &ann(), &question(token));
        let asked = asked.mentioning_bot();
        self.fake.push(asked.in_thread(&thread.id, &thread.id));
    }

    fn shown_in(&self, thread: &Thread) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.filter(|sent| sent.thread.as_ref() == Some(&thread.id))
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
            .push(matrix::Incoming::direct(&person, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            ROOM => self.fake.texts_in(ROOM.chat),
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

fn ann() -> matrix::Person {
    matrix::Person::new("ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> matrix::Person {
    matrix::Person::new(&format!("crowd{number}"))
}
