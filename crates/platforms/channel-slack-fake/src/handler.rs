//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::{APP_TOKEN, BOT_TOKEN, BOT_USER, TEAM};
use crate::api::{ApiError, ApiResult, refusal, response};
use crate::fault::Fault;
use crate::params::{Method, Params, method};
use crate::state::{Call, SlackState};

/// The method that requires the app's token; all others require the bot's.
const OPEN: &str = "apps.connections.open";

pub(crate) async fn handle(state: Watched<SlackState>, request: Request) -> Response {
    let path = request.decoded_path();
    let token = request
        .header("authorization")
        .and_then(|header| header.strip_prefix("Bearer "))
        .unwrap_or_default();
    if let Some(name) = path.strip_prefix("/api/") {
        let Some(method) = method(name) else {
            return state.change(|state| state.refuse(&ApiError::because("unknown_method", name)));
        };
        // The call and its effect are one change: once a waiting test sees the call, the effect is
        // visible too.
        return state.change(|state| state.answer(method, token, &request));
    }
    state.change(|state| {
        let (kind, rest) = match (
            path.strip_prefix("/files-pri/"),
            path.strip_prefix("/upload/v1/"),
        ) {
            (Some(rest), _) => ("download", rest),
            (_, Some(rest)) => ("upload", rest),
            _ => return Response::bytes(404, "text/plain", "there is nothing"),
        };
        state.download_count += usize::from(kind == "download");
        if let Some(instead) = state.fault(kind).as_ref().and_then(Fault::instead) {
            return instead;
        }
        if kind == "upload" {
            state.upload(rest, &request)
        } else {
            state.download(rest, token == BOT_TOKEN)
        }
    })
}

impl SlackState {
    fn answer(&mut self, method: &Method, token: &str, request: &Request) -> Response {
        if let Err(error) = self.authorise(method.name, token) {
            return refusal(&error);
        }
        let params = match Params::of(method, request) {
            Ok(params) => params,
            Err(error) => return self.refuse(&error),
        };
        let values = Value::Object(params.0.clone());
        let fault = self.calls.note(Call {
            method: method.name.to_owned(),
            params: values,
            at: Instant::now(),
        });
        if let Some(instead) = fault.as_ref().and_then(Fault::instead) {
            return instead;
        }
        let outcome = self.call(method.name, &params);
        if let Some(afterwards) = fault.as_ref().and_then(Fault::afterwards) {
            return afterwards;
        }
        match &outcome {
            Err(error) => self.refuse(error),
            Ok(_) => response(&outcome),
        }
    }

    fn authorise(&self, name: &str, token: &str) -> Result<(), ApiError> {
        let (wanted, other) = if name == OPEN {
            (APP_TOKEN, BOT_TOKEN)
        } else {
            (BOT_TOKEN, APP_TOKEN)
        };
        match token {
            "" => Err(ApiError::new("not_authed")),
            token if token == other => Err(ApiError::new("not_allowed_token_type")),
            token if token != wanted => Err(ApiError::new("invalid_auth")),
            _ if self.is_revoked => Err(ApiError::new("token_revoked")),
            _ => Ok(()),
        }
    }

    fn refuse(&mut self, error: &ApiError) -> Response {
        self.complaints.extend(error.complaint());
        refusal(error)
    }

    fn call(&mut self, name: &str, params: &Params) -> ApiResult {
        match name {
            "auth.test" => Ok(json!({
                "url": "https://test.slack.com/", "team": "Test", "user": "nanobot", "team_id": TEAM,
                "user_id": BOT_USER, "bot_id": "B0BOT", "is_enterprise_install": false,
            })),
            OPEN => {
                let ticket = format!("ticket-{}", self.next());
                self.tickets.insert(ticket.clone());
                Ok(json!({"url": format!("{}/link/?ticket={ticket}&app_id=A0APP", self.socket)}))
            }
            "chat.postMessage" => self.post(params),
            "chat.update" => self.update(params),
            "chat.delete" => self.delete(params),
            "reactions.add" => self.react(params, true),
            "reactions.remove" => self.react(params, false),
            "conversations.open" => self.open_conversation(params),
            "conversations.list" => self.list_conversations(params),
            "conversations.history" => self.history(params),
            "conversations.replies" => self.replies(params),
            "users.list" => self.list_people(params),
            "files.getUploadURLExternal" => self.offer_upload(params),
            "files.completeUploadExternal" => self.complete_upload(params),
            other => Err(ApiError::because("unknown_method", other)),
        }
    }
}
