//! WebSocket: two clients with a chat each.

use async_trait::async_trait;
use nanobot_testkit::ReservedPort;
use serde_json::{Value, json};

use super::friend::Friend;
use crate::day::judge::Judge;
use crate::day::platform::{DayPlatform, Fault, Place, question};

const ROOMS: [Place; 2] = [
    Place::of("websocket", "room-0"),
    Place::of("websocket", "room-1"),
];

pub(super) struct WebSocketDay {
    friends: [Friend; 2],
    /// Reserves the port between two gateways.
    port: ReservedPort,
}

impl WebSocketDay {
    pub(super) fn start() -> Self {
        let port = ReservedPort::new().unwrap();
        let friends = ROOMS.map(|room| {
            let (address, chat) = (port.address(), room.chat);
            Friend::at(format!(
                "ws://{address}/?client_id=friend-of-{chat}&chat_id={chat}"
            ))
        });
        Self { friends, port }
    }

    fn friend(&self, place: Place) -> &Friend {
        &self.friends[usize::from(place == ROOMS[1])]
    }
}

#[async_trait]
impl DayPlatform for WebSocketDay {
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

    async fn begin(&mut self, _fault: Fault) {
        self.friends.iter().for_each(Friend::cut);
    }

    async fn end(&mut self, _fault: Fault) {
        self.friends.iter().for_each(Friend::cut);
    }

    fn say(&mut self, place: Place, token: String, judge: &mut Judge) {
        self.friend(place).say(&token, &question(&token));
        judge.said(place, token);
    }

    fn shown(&self, place: Place) -> Vec<String> {
        self.friend(place).received()
    }

    fn violations(&self) -> Vec<String> {
        Vec::new()
    }
}
