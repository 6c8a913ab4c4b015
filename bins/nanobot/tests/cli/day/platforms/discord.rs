//! Discord: a direct chat, and a channel of a server where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_discord_fake::{self as discord, DiscordFake};
use serde_json::{Value, json};

use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, PAUSE, Place, question};

const DIRECT: Place = Place::of("discord", "direct");
const ROOM: Place = Place::of("discord", "room");

pub(super) struct DiscordDay {
    fake: DiscordFake,
}

impl DiscordDay {
    pub(super) async fn start() -> Self {
        let fake = DiscordFake::start().await.unwrap();
        Self { fake }
    }

    fn fail_send(&self, fault: discord::Fault) {
        self.fake.fail_next("createMessage", fault);
    }
}

#[async_trait]
impl DayPlatform for DiscordDay {
    fn name(&self) -> &'static str {
        "discord"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "token": discord::TOKEN, "apiBase": self.fake.api_base(),
            "allowFrom": ["7"], "streaming": false, "readReceiptEmoji": "", "workingEmoji": "",
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
            Fault::CutsSends,
            Fault::Reconnects,
        ]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        let chat = self.fake.direct_channel(&ann());
        Some((DIRECT, chat.to_string()))
    }

    /// Discord does not deliver messages from before a session in chats that were never used.
    fn log_when_ready(&self) -> Option<&'static str> {
        Some("receiving from Discord")
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.go_down().await.unwrap(),
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(discord::Fault::retry_after(PAUSE.into()));
                self.fail_send(discord::Fault::unavailable());
            }
            Fault::CutsSends => self.fail_send(discord::Fault::DropAfterEffect),
            Fault::Reconnects => self.fake.order(discord::Order::Reconnect),
            _ => unreachable!("not among its faults"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Down => self.fake.come_back().await.unwrap(),
            Fault::Silent => self.fake.recover(),
            Fault::Reconnects => self.fake.cut(),
            _ => {}
        }
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        let (ann, text) = (ann(), question(&token));
        if place == ROOM {
            let room = discord::CHANNELS[0];
            let noise = judge.noise();
            self.fake
                .push(discord::Incoming::in_channel(room, &ann, &noise));
            let text = format!("<@{}> {text}", discord::BOT_ID);
            self.fake
                .push(discord::Incoming::in_channel(room, &ann, &text));
        } else {
            self.fake.push(discord::Incoming::direct(&ann, &text));
        }
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.fake.texts_in(if place == ROOM {
            discord::CHANNELS[0]
        } else {
            self.fake.direct_channel(&ann())
        })
    }

    fn violations(&self) -> Vec<String> {
        self.fake.complaints()
    }
}

fn ann() -> discord::Person {
    discord::Person::new(7, "ann")
}
