//! Matrix: a direct room, and a room in which the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_matrix_fake::{self as matrix, MatrixFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, PAUSE, Place, question};

const DIRECT: Place = Place::of("matrix", "direct");
const ROOM: Place = Place::of("matrix", "!room:fake.test");

pub(super) struct MatrixDay {
    fake: MatrixFake,
    repeats: bool,
}

impl MatrixDay {
    pub(super) async fn start() -> Self {
        let fake = MatrixFake::start().await.unwrap();
        fake.add_person(&ann());
        fake.add_room(ROOM.chat, &[ann(), matrix::Person::new("bob")]);
        Self {
            fake,
            repeats: false,
        }
    }

    fn fail_sends(&self, faults: &[matrix::Fault]) {
        for fault in faults {
            self.fake.fail_next("send", fault.clone());
        }
    }
}

#[async_trait]
impl DayPlatform for MatrixDay {
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

    async fn begin(&mut self, fault: Fault) {
        use matrix::Fault as F;
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
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
            Fault::Reconnects => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.recover(),
            Fault::Repeats => self.repeats = false,
            Fault::Revoked => self.fake.restore_credentials(),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        let pushed = if place == ROOM {
            let noise = judge.noise();
            self.fake
                .push(matrix::Incoming::to(ROOM.chat, &ann, &noise));
            let asked = matrix::Incoming::to(ROOM.chat, &ann, &text);
            self.fake.push(asked.mentioning_bot())
        } else {
            self.fake.push(matrix::Incoming::direct(&ann, &text))
        };
        if self.repeats {
            self.fake.repeat(&pushed);
        }
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        match place {
            ROOM => self.fake.texts_in(ROOM.chat),
            _ => self.fake.texts_in(&ann().direct()),
        }
    }

    fn violations(&self) -> Vec<String> {
        self.fake.complaints()
    }
}

fn ann() -> matrix::Person {
    matrix::Person::new("ann")
}
