//! Events for the app, sent in envelopes until each is acknowledged.

use nanobot_testkit::json::set;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::{BOT_USER, TEAM};
use crate::incoming::{Incoming, Person};
use crate::model::{AppEvent, Download, Out, Pushed, Sent, StoredMessage};
use crate::state::SlackState;

/// Maximum number of retries of an event.
const RETRIES: u32 = 3;

impl SlackState {
    pub(crate) fn push(&mut self, incoming: Incoming, sends_event: bool) -> Pushed {
        let Incoming {
            channel,
            person,
            text,
            thread,
            subtype,
            files,
        } = incoming;
        self.add_person(&person);
        if !self.channels.contains_key(&channel) {
            let name = channel.to_ascii_lowercase();
            self.add_channel(&channel, &name, true);
        }
        let ts = self.next_ts();
        let parent = thread.as_ref().and_then(|thread| {
            Some(
                self.channels
                    .get(&channel)?
                    .messages
                    .get(thread)?
                    .user
                    .clone(),
            )
        });
        let mut event = json!({
            "user": person.id, "text": text, "ts": ts, "event_ts": ts, "team": TEAM, "channel": channel,
            "client_msg_id": format!("00000000-0000-0000-0000-{:012}", self.next()),
        });
        if let Some(thread) = &thread {
            set(&mut event, "thread_ts", thread.as_str());
            set(&mut event, "parent_user_id", parent);
        }
        if let Some(subtype) = &subtype {
            set(&mut event, "subtype", subtype.as_str());
        }
        let files: Vec<Value> = files
            .into_iter()
            .map(|file| self.add_download(file))
            .collect();
        if !files.is_empty() {
            set(&mut event, "files", files.clone());
        }
        if let Some(known) = self.channels.get_mut(&channel) {
            let message = StoredMessage {
                user: person.id,
                text: text.clone(),
                thread,
                subtype,
                files,
                ..StoredMessage::default()
            };
            known.messages.insert(ts.clone(), message);
        }
        if !sends_event {
            return Pushed {
                channel,
                ts,
                events: Vec::new(),
            };
        }
        let is_direct = channel.starts_with('D');
        let mut events = Vec::new();
        if !is_direct && text.contains(&format!("<@{BOT_USER}>")) {
            let mut mention = event.clone();
            set(&mut mention, "type", "app_mention");
            events.push(self.queue_event("events_api", mention));
        }
        set(&mut event, "type", "message");
        set(
            &mut event,
            "channel_type",
            if is_direct { "im" } else { "channel" },
        );
        events.push(self.queue_event("events_api", event));
        Pushed {
            channel,
            ts,
            events,
        }
    }

    fn add_download(&mut self, file: crate::incoming::IncomingFile) -> Value {
        let id = format!("F0{}", self.next());
        let slug: String = file
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let address = format!("{}/files-pri/{TEAM}-{id}/download/{slug}", self.base);
        let json = json!({
            "id": id, "name": file.name, "title": file.name, "mimetype": file.mime, "size": file.size,
            "is_external": false, "url_private": address, "url_private_download": address,
        });
        self.downloads.insert(
            id,
            Download {
                mime: file.mime,
                bytes: file.bytes,
            },
        );
        json
    }

    pub(crate) fn push_event(&mut self, event: &Value) -> Pushed {
        let text = |key: &str| {
            event
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (channel, ts) = (text("channel"), text("ts"));
        Pushed {
            channel,
            ts,
            events: vec![self.queue_event("events_api", event.clone())],
        }
    }

    pub(crate) fn press(
        &mut self,
        channel: &str,
        ts: &str,
        person: &Person,
        value: &str,
    ) -> Option<Pushed> {
        let message = self
            .channels
            .get(channel)?
            .messages
            .get(ts)
            .filter(|message| !message.is_deleted)?;
        let rows = message
            .blocks
            .as_array()?
            .iter()
            .filter_map(|block| block.get("elements")?.as_array());
        let mut action = rows
            .flatten()
            .find(|element| element.get("value").and_then(Value::as_str) == Some(value))?
            .clone();
        let message = message.json(ts, false);
        let at = self.next_ts();
        set(&mut action, "action_ts", at.as_str());
        let payload = json!({
            "type": "block_actions", "team": {"id": TEAM, "domain": "test"}, "api_app_id": "A0APP",
            "user": {"id": person.id, "username": person.name, "team_id": TEAM}, "trigger_id": at,
            "channel": {"id": channel, "name": "somewhere"}, "message": message, "actions": [action],
            "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false},
        });
        self.add_person(person);
        Some(Pushed {
            channel: channel.to_owned(),
            ts: at,
            events: vec![self.queue_event("interactive", payload)],
        })
    }

    pub(crate) fn slash(
        &mut self,
        channel: &str,
        person: &Person,
        command: &str,
        text: &str,
    ) -> Pushed {
        self.add_person(person);
        if !self.channels.contains_key(channel) {
            self.add_channel(channel, &channel.to_ascii_lowercase(), true);
        }
        let at = self.next_ts();
        let name = if channel.starts_with('D') {
            "directmessage"
        } else {
            "somewhere"
        };
        let payload = json!({
            "team_id": TEAM, "team_domain": "test", "channel_id": channel, "channel_name": name,
            "user_id": person.id, "user_name": person.name, "command": command, "text": text,
            "api_app_id": "A0APP", "response_url": format!("{}/commands/{at}", self.base), "trigger_id": at,
        });
        Pushed {
            channel: channel.to_owned(),
            ts: at,
            events: vec![self.queue_event("slash_commands", payload)],
        }
    }

    fn queue_event(&mut self, kind: &'static str, content: Value) -> usize {
        let payload = if kind == "events_api" {
            json!({
                "token": "verification", "team_id": TEAM, "api_app_id": "A0APP", "type": "event_callback",
                "event_id": format!("Ev0{}", self.next()), "event_time": chrono::Utc::now().timestamp(), "event": content,
                "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": true}],
            })
        } else {
            content
        };
        self.events.push(AppEvent {
            kind,
            payload,
            is_acknowledged: false,
            deliveries: 0,
            retries: 0,
            reason: "",
            is_waiting: true,
        });
        self.dispatch();
        self.events.len() - 1
    }

    /// Puts waiting events into envelopes, one connection after another.
    pub(crate) fn dispatch(&mut self) {
        let open: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, open)| !open.is_leaving)
            .map(|(number, _)| *number)
            .collect();
        if open.is_empty() {
            return;
        }
        for number in 0..self.events.len() {
            let Some(event) = self.events.get_mut(number).filter(|event| event.is_waiting) else {
                continue;
            };
            event.is_waiting = false;
            event.deliveries += 1;
            let id = format!("envelope-{}", self.envelopes.len());
            let mut frame = json!({
                "envelope_id": id, "type": event.kind, "payload": event.payload,
                "accepts_response_payload": event.kind == "slash_commands",
            });
            if event.kind == "events_api" {
                set(&mut frame, "retry_attempt", event.retries);
                set(&mut frame, "retry_reason", event.reason);
            }
            let Some(connection) = open.get(number % open.len()).copied() else {
                continue;
            };
            let sent = Sent {
                event: number,
                connection,
                at: Instant::now(),
                is_over: false,
            };
            self.envelopes.insert(id, sent);
            if let Some(open) = self.connections.get_mut(&connection) {
                open.outbox.push_back(Out::Text(frame.to_string()));
            }
        }
    }

    pub(crate) fn repeat(&mut self, pushed: &Pushed) {
        for number in &pushed.events {
            if let Some(event) = self.events.get_mut(*number) {
                event.is_waiting = true;
                event.is_acknowledged = false;
                event.retries += 1;
                event.reason = "timeout";
            }
        }
        self.dispatch();
    }

    /// Handles a frame from the client.
    pub(crate) fn handle_reply(&mut self, connection: usize, text: &str) {
        let reply: Value = serde_json::from_str(text).unwrap_or_default();
        let Some(id) = reply.get("envelope_id").and_then(Value::as_str) else {
            self.complaints.push(format!("no acknowledgement: {text}"));
            return;
        };
        match self
            .envelopes
            .get_mut(id)
            .filter(|sent| sent.connection == connection)
        {
            Some(sent) => {
                sent.is_over = true;
                let event = self.events.get_mut(sent.event);
                if let Some(event) = event {
                    event.is_acknowledged = true;
                    event.is_waiting = false;
                }
            }
            None => self.complaints.push(format!(
                "an envelope that this connection did not get: {text}"
            )),
        }
    }

    /// Returns the time at which the oldest envelope of a connection times out.
    pub(crate) fn deadline(&self, connection: usize) -> Option<Instant> {
        let waiting = self
            .envelopes
            .values()
            .filter(|sent| sent.connection == connection && !sent.is_over);
        waiting.map(|sent| sent.at + self.acknowledge_timeout).min()
    }

    /// Sends events again that were not acknowledged in time.
    pub(crate) fn expire_envelopes(&mut self) {
        let (now, acknowledge_timeout) = (Instant::now(), self.acknowledge_timeout);
        self.end_envelopes(|sent| sent.at + acknowledge_timeout <= now);
    }

    fn end_envelopes(&mut self, is_over: impl Fn(&Sent) -> bool) {
        for sent in self.envelopes.values_mut().filter(|sent| !sent.is_over) {
            if !is_over(sent) {
                continue;
            }
            sent.is_over = true;
            let Some(event) = self.events.get_mut(sent.event) else {
                continue;
            };
            // Only Events API payloads are retried.
            if !event.is_acknowledged && event.kind == "events_api" && event.retries < RETRIES {
                event.retries += 1;
                event.reason = "timeout";
                event.is_waiting = true;
            }
        }
        self.dispatch();
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        self.connections.remove(&connection);
        self.end_envelopes(|sent| sent.connection == connection);
    }

    pub(crate) fn push_frame(&mut self, text: &str) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(Out::Text(text.to_owned()));
        }
    }

    pub(crate) fn disconnect(&mut self, reason: &str) {
        let frame =
            json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}});
        for open in self.connections.values_mut() {
            open.outbox.push_back(Out::Text(frame.to_string()));
            open.outbox.push_back(Out::Close);
            open.is_leaving = true;
        }
    }

    pub(crate) fn cut(&mut self) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(Out::Drop);
            open.is_leaving = true;
        }
    }

    pub(crate) fn ping(&mut self) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(Out::Ping);
        }
    }

    pub(crate) fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        pushed.events.iter().all(|number| {
            self.events
                .get(*number)
                .is_some_and(|event| event.is_acknowledged)
        })
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        pushed
            .events
            .iter()
            .filter_map(|number| self.events.get(*number))
            .map(|event| event.deliveries)
            .sum()
    }
}
