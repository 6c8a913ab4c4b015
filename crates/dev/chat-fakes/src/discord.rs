//! Discord: a direct chat, and a channel of a server where the bot is mentioned.

use async_trait::async_trait;
use nanobot_channel_discord_fake::{self as discord, DiscordFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, PAUSE, Place, Thread, question};

const DIRECT: Place = Place::of("discord", "direct");
const ROOM: Place = Place::group("discord", "room");

#[derive(Debug)]
pub(crate) struct DiscordChats {
    fake: DiscordFake,
}

impl DiscordChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = DiscordFake::start().await?;
        Ok(Self { fake })
    }

    fn fail_send(&self, fault: discord::Fault) {
        self.fake.fail_next("createMessage", fault);
    }
}

#[async_trait]
impl ChatFake for DiscordChats {
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

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(),
            Fault::Busy => {
                self.fail_send(discord::Fault::retry_after(PAUSE.into()));
                self.fail_send(discord::Fault::unavailable());
            }
            Fault::CutsSends => self.fail_send(discord::Fault::DropAfterEffect),
            Fault::Reconnects => self.fake.order(discord::Order::Reconnect),
            _ => return Err(FakeError::NoSuchFault(self.name(), fault)),
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back().await?,
            Fault::Silent => self.fake.recover(),
            Fault::Reconnects => self.fake.cut(),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String> {
        let (ann, text) = (ann(), question(token));
        if place == ROOM {
            let room = discord::CHANNELS[0];
            if let Some(noise) = noise {
                self.fake
                    .push(discord::Incoming::in_channel(room, &ann, noise));
            }
            let text = format!("<@{}> {text}", discord::BOT_ID);
            self.fake
                .push(discord::Incoming::in_channel(room, &ann, &text));
        } else {
            self.fake.push(discord::Incoming::direct(&ann, &text));
        }
        vec![token.to_owned()]
    }

    fn begin_thread(&mut self) -> Option<Thread> {
        let room = discord::CHANNELS[0];
        let id = self.fake.start_thread(room);
        Some(Thread {
            platform: self.name(),
            id: id.to_string(),
            session: Some(format!("discord:{room}:thread:{id}")),
        })
    }

    fn say_in(&mut self, thread: &Thread, token: &str) {
        let text = format!("<@{}> {}", discord::BOT_ID, question(token));
        let channel = thread.id.parse().unwrap_or_default();
        self.fake
            .push(discord::Incoming::in_channel(channel, &ann(), &text));
    }

    fn shown_in(&self, thread: &Thread) -> Vec<String> {
        self.fake.texts_in(thread.id.parse().unwrap_or_default())
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let person = crowd(number);
        self.fake
            .push(discord::Incoming::direct(&person, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.fake.texts_in(if place == ROOM {
            discord::CHANNELS[0]
        } else {
            self.fake.direct_channel(&ann())
        })
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

fn ann() -> discord::Person {
    discord::Person::new(7, "ann")
}

/// Returns a person of the crowd.
fn crowd(number: u32) -> discord::Person {
    discord::Person::new(1_000 + u64::from(number), &format!("crowd{number}"))
}
