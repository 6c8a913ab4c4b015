//! WebSocket: two clients with a chat each.

use std::collections::BTreeMap;

use async_trait::async_trait;
use nanobot_testkit::ReservedPort;
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ChatFake, Fault, Place, question};
use crate::friend::Friend;

const ROOMS: [Place; 2] = [
    Place::of("websocket", "room-0"),
    Place::of("websocket", "room-1"),
];

#[derive(Debug)]
pub(crate) struct WebSocketChats {
    friends: [Friend; 2],
    crowd: BTreeMap<u32, Friend>,
    /// Reserves the port between two gateways.
    port: ReservedPort,
}

impl WebSocketChats {
    pub(crate) fn start() -> Result<Self, FakeError> {
        let port = ReservedPort::new()?;
        Ok(Self {
            friends: ROOMS.map(|room| friend_at(&port, room.chat)),
            crowd: BTreeMap::new(),
            port,
        })
    }

    fn friend(&self, place: Place) -> &Friend {
        let [first, second] = &self.friends;
        if place == ROOMS[1] { second } else { first }
    }
}

#[async_trait]
impl ChatFake for WebSocketChats {
    fn name(&self) -> &'static str {
        "websocket"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "port": self.port.number(), "websocketRequiresToken": false, "allowFrom": ["*"],
            "streaming": false,
        })
    }

    fn places(&self) -> Vec<Place> {
        ROOMS.to_vec()
    }

    fn faults(&self) -> Vec<Fault> {
        vec![Fault::Cuts]
    }

    fn reminded(&self) -> Option<(Place, String)> {
        Some((ROOMS[0], ROOMS[0].chat.to_owned()))
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        if fault != Fault::Cuts {
            return Err(FakeError::NoSuchFault(self.name(), fault));
        }
        self.friends.iter().for_each(Friend::cut);
        Ok(())
    }

    async fn end(&mut self, _fault: Fault) -> Result<(), FakeError> {
        self.friends.iter().for_each(Friend::cut);
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, _noise: Option<&str>) -> Vec<String> {
        self.friend(place).say(token, &question(token));
        vec![token.to_owned()]
    }

    fn add_crowd(&mut self, count: u32) {
        for number in 0..count {
            let friend = friend_at(&self.port, &format!("crowd-{number}"));
            self.crowd.insert(number, friend);
        }
    }

    fn crowd_says(&self, number: u32, token: &str) {
        if let Some(friend) = self.crowd.get(&number) {
            friend.say(token, &question(token));
        }
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.friend(place).received()
    }

    fn calls(&self) -> Vec<String> {
        Vec::new()
    }

    fn violations(&self) -> Vec<String> {
        Vec::new()
    }
}

fn friend_at(port: &ReservedPort, chat: &str) -> Friend {
    let address = port.address();
    Friend::at(format!(
        "ws://{address}/?client_id=friend-of-{chat}&chat_id={chat}"
    ))
}
