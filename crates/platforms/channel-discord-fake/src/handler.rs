//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::multipart;
use nanobot_testkit::http::{Request, Response, ResponseStep};
use serde_json::{Value, json};

use crate::account::{APPLICATION_ID, TOKEN};
use crate::fault::Fault;
use crate::guild::{application, me};
use crate::refusal::{RestError, RestResult, response};
use crate::sending::Upload;
use crate::state::{Call, DiscordState};

const HTML: &str = "<!DOCTYPE html><html><body>upstream error</body></html>";

/// The calls that the fake knows, named as in [`Call::method`].
#[derive(Clone, Debug, PartialEq, Eq)]
enum Method {
    GetMe,
    GetGateway,
    GetApplication,
    GetChannel(u64),
    CreateDirectChannel,
    GetMessage(u64, u64),
    GetMessages(u64, Vec<(String, String)>),
    CreateMessage(u64),
    EditMessage(u64, u64),
    DeleteMessage(u64, u64),
    Typing(u64),
    CreateReaction(u64, u64, String),
    DeleteReaction(u64, u64, String),
    GetCommands,
    SetCommands,
    InteractionCallback {
        interaction: u64,
        token: String,
        tells_more: bool,
    },
}

impl Method {
    fn of(request: &Request, path: &str) -> Option<Self> {
        let id = |text: &str| text.parse::<u64>().ok();
        let pieces: Vec<&str> = path.split('/').collect();
        Some(match (request.method.as_str(), pieces.as_slice()) {
            ("GET", ["users", "@me"]) => Self::GetMe,
            ("GET", ["gateway", "bot"] | ["gateway"]) => Self::GetGateway,
            ("GET", ["oauth2", "applications", "@me"] | ["applications", "@me"]) => {
                Self::GetApplication
            }
            ("POST", ["users", "@me", "channels"]) => Self::CreateDirectChannel,
            ("GET", ["channels", channel]) => Self::GetChannel(id(channel)?),
            ("GET", ["channels", channel, "messages"]) => {
                Self::GetMessages(id(channel)?, request.query())
            }
            ("POST", ["channels", channel, "messages"]) => Self::CreateMessage(id(channel)?),
            ("POST", ["channels", channel, "typing"]) => Self::Typing(id(channel)?),
            (verb @ ("GET" | "PATCH" | "DELETE"), ["channels", channel, "messages", message]) => {
                let place = (id(channel)?, id(message)?);
                match verb {
                    "GET" => Self::GetMessage(place.0, place.1),
                    "PATCH" => Self::EditMessage(place.0, place.1),
                    _ => Self::DeleteMessage(place.0, place.1),
                }
            }
            (
                verb @ ("PUT" | "DELETE"),
                [
                    "channels",
                    channel,
                    "messages",
                    message,
                    "reactions",
                    emoji,
                    "@me",
                ],
            ) => {
                let emoji = (*emoji).to_owned();
                match verb {
                    "PUT" => Self::CreateReaction(id(channel)?, id(message)?, emoji),
                    _ => Self::DeleteReaction(id(channel)?, id(message)?, emoji),
                }
            }
            ("GET", ["applications", application, "commands"])
                if id(application)? == APPLICATION_ID =>
            {
                Self::GetCommands
            }
            ("PUT", ["applications", application, "commands"])
                if id(application)? == APPLICATION_ID =>
            {
                Self::SetCommands
            }
            ("POST", ["interactions", interaction, token, "callback"]) => {
                let tells_more = request
                    .query()
                    .iter()
                    .any(|(key, value)| key == "with_response" && value != "0");
                Self::InteractionCallback {
                    interaction: id(interaction)?,
                    token: (*token).to_owned(),
                    tells_more,
                }
            }
            _ => return None,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::GetMe => "getMe",
            Self::GetGateway => "getGateway",
            Self::GetApplication => "getApplication",
            Self::GetChannel(_) => "getChannel",
            Self::CreateDirectChannel => "createDirectChannel",
            Self::GetMessage(..) => "getMessage",
            Self::GetMessages(..) => "getMessages",
            Self::CreateMessage(_) => "createMessage",
            Self::EditMessage(..) => "editMessage",
            Self::DeleteMessage(..) => "deleteMessage",
            Self::Typing(_) => "typing",
            Self::CreateReaction(..) => "createReaction",
            Self::DeleteReaction(..) => "deleteReaction",
            Self::GetCommands => "getCommands",
            Self::SetCommands => "setCommands",
            Self::InteractionCallback { .. } => "interactionCallback",
        }
    }
}

pub(crate) async fn handle(state: Watched<DiscordState>, request: Request) -> Response {
    let path = request.decoded_path();
    if let Some(rest) = path.strip_prefix("/attachments/") {
        return state.change(|state| state.download(rest));
    }
    let Some(path) = path.strip_prefix("/api/v10/") else {
        return response(&Err(RestError::unknown_route()));
    };
    let Some(method) = Method::of(&request, path) else {
        return response(&Err(RestError::unknown_route()));
    };
    let (body, uploads) = body_of(&request);
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    let (fault, outcome) = state.change(|state| {
        let call = Call {
            method: method.name().to_owned(),
            path: path.to_owned(),
            body: body.clone(),
            files: uploads.len(),
        };
        let fault = state.calls.note(call);
        let is_refused = fault
            .as_ref()
            .is_some_and(|fault| fault.refusal().is_some());
        let outcome = (!is_refused).then(|| {
            state.authorize(&request, &method)?;
            state.call(&method, &body, uploads)
        });
        (fault, outcome)
    });
    if let Some(refusal) = fault.as_ref().and_then(Fault::refusal) {
        return refusal;
    }
    let answer = response(&outcome.unwrap_or(Ok(Value::Null)));
    match fault {
        Some(Fault::DropAfterEffect) => Response::headless(vec![ResponseStep::Reset]),
        Some(Fault::HangAfterEffect) => Response::headless(vec![ResponseStep::Hang]),
        Some(Fault::LastOfAllowance(seconds)) => answer
            .with_header("x-ratelimit-remaining", "0")
            .with_header("x-ratelimit-reset-after", seconds.to_string()),
        _ => answer
            .with_header("x-ratelimit-remaining", "4")
            .with_header("x-ratelimit-reset-after", "1.0"),
    }
}

/// Returns the JSON and the files of a request.
fn body_of(request: &Request) -> (Value, Vec<Upload>) {
    let content_type = request.header("content-type").unwrap_or_default();
    let Some(boundary) = multipart::boundary(content_type) else {
        return (request.json(), Vec::new());
    };
    let (mut body, mut uploads) = (Value::Null, Vec::new());
    for part in multipart::parts(&request.body, boundary) {
        match part.file_name {
            Some(name) => {
                uploads.push(Upload {
                    field: part.field,
                    name,
                    mime: part.mime,
                    bytes: part.bytes,
                });
            }
            None if part.field == "payload_json" => {
                body = serde_json::from_slice(&part.bytes).unwrap_or_default();
            }
            None => {}
        }
    }
    (if body.is_null() { json!({}) } else { body }, uploads)
}

impl Fault {
    /// Returns the response that replaces the call, or `None` if the call is carried out.
    fn refusal(&self) -> Option<Response> {
        match self {
            Self::RetryAfter { seconds, is_global } => {
                let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": is_global});
                let response = Response::json(429, &body)
                    .with_header("retry-after", seconds.ceil().to_string());
                // This header tells a rate limit of Discord from one of a proxy.
                let response = response.with_header("via", "1.1 google");
                Some(if *is_global {
                    response.with_header("x-ratelimit-global", "true")
                } else {
                    response
                })
            }
            Self::Status(status, code, message) => Some(response(&Err(RestError::new(
                *status,
                *code,
                message.as_str(),
            )))),
            Self::Page(status) => Some(Response::bytes(*status, "text/html", HTML)),
            Self::Hang => Some(Response::headless(vec![ResponseStep::Hang])),
            Self::Drop => Some(Response::headless(vec![ResponseStep::Reset])),
            Self::DropAfterEffect | Self::HangAfterEffect | Self::LastOfAllowance(_) => None,
        }
    }
}

impl DiscordState {
    fn authorize(&self, request: &Request, method: &Method) -> Result<(), RestError> {
        // An interaction response carries the interaction's token and may come from any program.
        if matches!(method, Method::InteractionCallback { .. }) {
            return Ok(());
        }
        if !request
            .header("user-agent")
            .is_some_and(|agent| agent.starts_with("DiscordBot ("))
        {
            return Err(RestError::new(403, 40_333, "internal network error"));
        }
        let is_known =
            request.header("authorization") == Some(&format!("Bot {TOKEN}")) && !self.is_revoked;
        if is_known {
            Ok(())
        } else {
            Err(RestError::unauthorized())
        }
    }

    fn call(&mut self, method: &Method, body: &Value, uploads: Vec<Upload>) -> RestResult {
        match method {
            Method::GetMe => Ok(me()),
            Method::GetApplication => Ok(application()),
            Method::GetGateway => {
                let (remaining, reset_after) = self.session_starts;
                Ok(json!({
                    "url": self.gateway_url, "shards": self.shards,
                    "session_start_limit": {
                        "total": 1000, "remaining": remaining, "reset_after": reset_after, "max_concurrency": 1,
                    },
                }))
            }
            Method::GetChannel(channel) => self
                .channel_json(*channel)
                .ok_or_else(RestError::unknown_channel),
            Method::CreateDirectChannel => {
                let user = body.get("recipient_id").and_then(crate::sending::id_of);
                let known = self
                    .direct
                    .iter()
                    .find(|(_, person)| Some(person.id) == user)
                    .map(|(channel, _)| *channel);
                known
                    .and_then(|channel| self.channel_json(channel))
                    .ok_or_else(|| RestError::new(400, 50_007, "Cannot send messages to this user"))
            }
            Method::GetMessage(channel, message) => {
                self.check_place(*channel)?;
                let message = self
                    .messages
                    .get(message)
                    .filter(|found| found.channel == *channel && !found.is_deleted);
                message
                    .map(|message| self.message_json(message))
                    .ok_or_else(RestError::unknown_message)
            }
            Method::GetMessages(channel, query) => self.history(*channel, query),
            Method::CreateMessage(channel) => self.create_message(*channel, body, uploads),
            Method::EditMessage(channel, message) => self.edit_message(*channel, *message, body),
            Method::DeleteMessage(channel, message) => {
                self.check_place(*channel)?;
                self.delete(*channel, *message);
                Ok(Value::Null)
            }
            Method::Typing(channel) => self.check_place(*channel).map(|()| Value::Null),
            Method::CreateReaction(channel, message, emoji) => {
                self.react(*channel, *message, emoji, true)
            }
            Method::DeleteReaction(channel, message, emoji) => {
                self.react(*channel, *message, emoji, false)
            }
            Method::GetCommands => Ok(self.commands.clone()),
            Method::SetCommands => self.set_commands(body),
            Method::InteractionCallback {
                interaction,
                token,
                tells_more,
            } => {
                let kind = self.answer(*interaction, token, body)?;
                let told = json!({"interaction": {"id": interaction.to_string(), "type": 2}, "resource": {"type": kind}});
                Ok(if *tells_more { told } else { Value::Null })
            }
        }
    }

    fn download(&mut self, rest: &str) -> Response {
        let call = Call {
            method: "download".to_owned(),
            path: rest.to_owned(),
            body: Value::Null,
            files: 0,
        };
        let fault = self.calls.note(call);
        if let Some(refusal) = fault.as_ref().and_then(Fault::refusal) {
            return refusal;
        }
        let id = rest.split('/').nth(1).and_then(|id| id.parse().ok());
        let file = id.and_then(|id: u64| self.files.get(&id));
        match file {
            Some(file) => {
                let mime = file.mime.as_deref().unwrap_or("application/octet-stream");
                Response::bytes(200, mime, file.bytes.clone())
            }
            None => Response::bytes(404, "text/plain", "This content is no longer available."),
        }
    }
}
