//! Calls of the HTTP API.
//!
//! Every call is a POST with JSON. An answer is an envelope of a code and the data; of the data
//! only what is needed is read.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value, json};
use nanobot_channel_kit::Rest;
use nanobot_channel_kit::call::retry_after;
use nanobot_channel_kit::http::ProxyMode;
use reqwest::Method;
use serde_json::json;

use crate::config::BASE_URL;
use crate::error::{CallError, from_code, from_status};
use crate::target::Target;
use crate::wire::{Batch, Directory, PanelPage, id_at, read_panels, read_sessions, text_at};
use crate::{MochatConfig, Secret};

/// The header that carries the token.
const TOKEN_HEADER: &str = "X-Claw-Token";
/// The code of success.
const SUCCESS: i64 = 200;
/// Largest number of messages that Mochat returns of a panel.
const PANEL_LIMIT: usize = 100;

/// Largest estimated memory of the content of a message that is not only text, in bytes.
const CONTENT_MEMORY: usize = 128 << 10;

/// The API and the token to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    token: Secret,
    watch_limit: usize,
}

impl Api {
    /// Creates the API by its configuration. Does no I/O.
    pub(crate) fn new(
        config: &MochatConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = ProxyMode::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?;
        let rest = Rest::new(&config.base_url, BASE_URL, proxy, config.request_timeout());
        let rest = rest.map_err(|error| match error {
            ChannelError::Config { key, message } if key == "apiBase" => ChannelError::Config {
                key: "baseUrl".to_owned(),
                message,
            },
            error => error,
        })?;
        Ok(Self {
            rest: rest.redacting(&config.claw_token),
            token: config.claw_token.clone(),
            watch_limit: config.watch_limit,
        })
    }

    /// Lists the sessions, and the text panels if they are asked for.
    pub(crate) async fn directory(&self, has_panels: bool) -> Result<Directory, CallError> {
        let sessions = self.call("sessions/list", &json!({})).await?;
        let panels = if has_panels {
            read_panels(&self.call("groups/get", &json!({})).await?)
        } else {
            Vec::new()
        };
        Ok(Directory {
            sessions: read_sessions(&sessions),
            panels,
        })
    }

    /// Returns the events of a session after a position. If there are none, it waits for some. If
    /// they are too large to be read at once, the first is read alone.
    pub(crate) async fn watch(
        &self,
        session: &str,
        cursor: u64,
        patience: Duration,
    ) -> Result<Batch, CallError> {
        let watched = self.watch_some(session, cursor, patience, self.watch_limit);
        match watched.await {
            Err(CallError::Misunderstood(why)) => {
                tracing::debug!(session, why, "events are asked for one at a time");
                let batch = self.watch_some(session, cursor, patience, 1).await?;
                Ok(Batch {
                    is_cut: true,
                    ..batch
                })
            }
            watched => watched,
        }
    }

    async fn watch_some(
        &self,
        session: &str,
        cursor: u64,
        patience: Duration,
        limit: usize,
    ) -> Result<Batch, CallError> {
        let body = json!({
            "sessionId": session, "cursor": cursor, "limit": limit,
            "timeoutMs": u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        });
        let data = self.call_for("sessions/watch", &body, patience).await?;
        Ok(Batch {
            target: session.to_owned(),
            ..Batch::read(&data).unwrap_or_default()
        })
    }

    /// Returns the newest messages of a panel.
    pub(crate) async fn panel_page(&self, panel: &str) -> Result<PanelPage, CallError> {
        let body = json!({"panelId": panel, "limit": self.watch_limit.min(PANEL_LIMIT)});
        let data = self.call("groups/panels/messages", &body).await?;
        Ok(PanelPage::read(&data))
    }

    /// Sends a text. Returns its id, if Mochat tells it.
    pub(crate) async fn send(
        &self,
        target: &Target,
        text: &str,
        reply_to: Option<&str>,
        group: Option<&str>,
    ) -> Result<Option<String>, CallError> {
        let (path, key) = match target {
            Target::Session(_) => ("sessions/send", "sessionId"),
            Target::Panel(_) => ("groups/panels/send", "panelId"),
        };
        let mut body = json!({"content": text});
        let is_panel = matches!(target, Target::Panel(_));
        let fields = [
            (key, Some(target.id())),
            ("replyTo", reply_to),
            ("groupId", group.filter(|_| is_panel)),
        ];
        for (key, value) in fields {
            if let (Some(value), Some(members)) = (value, body.as_object_mut()) {
                members.insert(key.to_owned(), value.into());
            }
        }
        let data = self.call(path, &body).await?;
        let message = data.get("message").unwrap_or(&data);
        Ok(id_at(message, &["messageId", "_id"]))
    }

    async fn call(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call_for(path, body, Duration::ZERO).await
    }

    /// Makes a call that may take longer by `patience`, and returns the data of the answer.
    async fn call_for(
        &self,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<Value, CallError> {
        let path = format!("api/claw/{path}");
        let request = self.rest.request(Method::POST, &path)?.json(body);
        let request = request
            .header(TOKEN_HEADER, self.token.expose_exact())
            .timeout(self.rest.timeout() + patience);
        let answer = self.rest.answer(request).await?;
        let pause = retry_after(&answer.headers);
        // One message must not make the others unreadable.
        let body = json::prune(&answer.body, "content", CONTENT_MEMORY);
        let mut envelope: Value = match self.rest.read(&body) {
            Err(_) if !answer.status.is_success() => {
                return Err(from_status(answer.status, pause));
            }
            envelope => envelope?,
        };
        let code = envelope.get("code").and_then(Value::as_i64);
        let text = self.rest.scrub(&text_at(&envelope, &["message", "name"]));
        match code {
            Some(SUCCESS) if answer.status.is_success() => Ok(envelope
                .get_mut("data")
                .map(Value::take)
                .unwrap_or_default()),
            Some(code) if code != SUCCESS => Err(from_code(code, &text, pause)),
            // An answer of Mochat's form that was cut to the status.
            _ if !answer.status.is_success() => {
                if text.is_empty() {
                    return Err(from_status(answer.status, pause));
                }
                Err(from_code(answer.status.as_u16().into(), &text, pause))
            }
            _ if envelope.is_object() => Ok(envelope),
            _ => Err(CallError::Misunderstood("it is no object".to_owned())),
        }
    }
}
