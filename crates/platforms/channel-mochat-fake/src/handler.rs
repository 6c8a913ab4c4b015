//! Turns a request into a call, applies the scripted faults and returns the response.

use std::time::Duration;

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::Value;

use crate::account::CLAW_TOKEN;
use crate::api::{ApiError, ApiResult, refusal, success};
use crate::fault::Fault;
use crate::long_poll::{self, LongPoll};
use crate::params::Params;
use crate::route::{self, Route};
use crate::state::MochatState;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Served {
    Done(Response),
    /// A long poll, and the fault of its answer.
    Waits(LongPoll, Option<Fault>),
}

pub(crate) async fn handle(state: Watched<MochatState>, request: Request) -> Response {
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    match state.change(|state| state.serve(&request)) {
        Served::Done(response) => response,
        Served::Waits(poll, fault) => {
            let answer = match long_poll::wait(&state, &poll).await {
                Ok(data) => success(&data),
                Err(error) => refusal(&error),
            };
            match fault {
                Some(fault) => fault.afterwards(answer),
                None => answer,
            }
        }
    }
}

impl MochatState {
    pub(crate) fn serve(&mut self, request: &Request) -> Served {
        let path = request.decoded_path();
        let known =
            route::find(&path).filter(|_| request.method == "POST" && path.starts_with('/'));
        let Some(route) = known else {
            self.complain(&format!("{} {path}: unknown call", request.method));
            return Served::Done(refusal(&ApiError::new(404)));
        };
        if let Err(error) = self.check_token(route, request) {
            return Served::Done(refusal(&error));
        }
        let params = match read_params(request) {
            Ok(params) => params,
            Err(error) => return Served::Done(self.refuse(route, &error)),
        };
        if !request.query().is_empty() {
            self.complain(&format!("{}: parameters in the address", route.name));
        }
        let fault = self.note(route.name, Value::Object(params.0.clone()));
        if let Some(instead) = fault.as_ref().and_then(Fault::instead) {
            return Served::Done(instead);
        }
        let checked = self.check(route, &params);
        if route.name == "sessions.watch" && checked.is_ok() {
            return match self.begin_long_poll(&params) {
                Ok(poll) => Served::Waits(poll, fault),
                Err(error) => Served::Done(self.refuse(route, &error)),
            };
        }
        let answer = match checked.and_then(|()| self.call(route, &params)) {
            Ok(data) => success(&data),
            Err(error) => self.refuse(route, &error),
        };
        Served::Done(match fault {
            Some(fault) => fault.afterwards(answer),
            None => answer,
        })
    }

    fn check_token(&mut self, route: &Route, request: &Request) -> Result<(), ApiError> {
        if request.header("authorization").is_some() {
            self.complain(&format!(
                "{}: a header that the call does not need",
                route.name
            ));
        }
        let is_right = request.header("x-claw-token") == Some(CLAW_TOKEN);
        if is_right && !self.is_revoked {
            Ok(())
        } else {
            Err(ApiError::new(401))
        }
    }

    fn refuse(&mut self, route: &Route, error: &ApiError) -> Response {
        self.complaints.extend(error.complaint(route.name));
        refusal(error)
    }

    fn check(&mut self, route: &Route, params: &Params) -> Result<(), ApiError> {
        for name in params.check(route)? {
            self.complain(&format!("{}: unknown parameter {name}", route.name));
        }
        Ok(())
    }

    fn call(&mut self, route: &Route, params: &Params) -> ApiResult {
        match route.name {
            "sessions.list" => Ok(self.list_sessions(params)),
            "groups.get" => self.read_group(params),
            "panels.messages" => self.read_panel(params),
            "sessions.send" => self.send_to_session(params),
            "panels.send" => self.send_to_panel(params),
            other => Err(ApiError::malformed(format!("{other} is no call"))),
        }
    }

    fn begin_long_poll(&mut self, params: &Params) -> Result<LongPoll, ApiError> {
        let session = params.text("sessionId").to_owned();
        self.check_chat(&session, true)?;
        let cursor = params.number("cursor").unwrap_or_default();
        self.show_cursor(&session, cursor)?;
        Ok(LongPoll {
            session,
            cursor,
            limit: params.limit(crate::subscribe::USUAL_LIMIT),
            time: Duration::from_millis(params.number("timeoutMs").unwrap_or_default()),
            ended: self.ended_watches,
        })
    }
}

fn read_params(request: &Request) -> Result<Params, ApiError> {
    let content_type = request.header("content-type").unwrap_or_default();
    match request.json() {
        Value::Object(body) if content_type.starts_with("application/json") => Ok(Params(body)),
        Value::Object(_) => Err(ApiError::malformed("the body is not application/json")),
        _ => Err(ApiError::malformed("the body is no JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::account::{CLAW_TOKEN, GROUP_ID};
    use crate::fault::Fault;
    use crate::probe::{PANEL, Probe, ann};

    const SEND: &str = "/api/claw/groups/panels/send";

    #[test]
    fn malformed_calls_are_refused_and_recorded() {
        let mut probe = Probe::new();
        let whole = json!({"panelId": PANEL, "content": "x", "groupId": GROUP_ID});
        let with = |key: &str, value| {
            let mut body = whole.clone();
            body[key] = value;
            body
        };
        let watch = json!({"sessionId": ann().direct(), "cursor": 1, "timeoutMs": 0, "limit": 1});
        let table = [
            (SEND, json!([])),
            (SEND, json!({"panelId": PANEL})),
            (SEND, with("content", json!("  "))),
            (SEND, with("content", json!({"text": "x"}))),
            (SEND, with("replyTo", json!(null))),
            ("/api/claw/sessions/watch", watch),
            ("/api/claw/sessions/watch", json!({"sessionId": "x"})),
            (
                "/api/claw/groups/panels/messages",
                json!({"panelId": PANEL, "limit": 101}),
            ),
        ];
        for (index, (path, body)) in table.iter().enumerate() {
            assert_eq!(probe.code(path, body), json!(400), "{body}");
            assert_eq!(probe.state.complaints.len(), index + 1, "{body}");
        }
        assert_eq!(probe.code("/api/claw/sessions/create", &json!({})), 404);
        probe.state.complaints.clear();
        // Unknown parameters are ignored, but recorded.
        probe.call(SEND, &with("media", json!([])));
        let complaints = ["panels.send: unknown parameter media"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn calls_need_a_valid_token() {
        let mut probe = Probe::new();
        let list = "/api/claw/sessions/list";
        assert_eq!(probe.request(list, "wrong", &json!({})).0, 401);
        assert_eq!(probe.request(list, CLAW_TOKEN, &json!({})).0, 200);
        probe.state.is_revoked = true;
        let refused = probe.request(list, CLAW_TOKEN, &json!({}));
        let body = json!({"code": 401, "name": "ClawError", "message": "Unauthorized"});
        assert_eq!(refused, (401, body));
        assert_eq!(probe.state.calls.of("sessions.list").len(), 1);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn faults_apply_to_one_call() {
        let mut probe = Probe::new();
        let table = [
            (Fault::RateLimited, 429, json!(429), 0),
            (Fault::Error(503), 503, json!(503), 0),
            (
                Fault::ErrorWith(200, 40_000, "odd".to_owned()),
                200,
                json!(40_000),
                0,
            ),
            (
                Fault::Answer(200, json!({"code": "strange"})),
                200,
                json!("strange"),
                0,
            ),
            (Fault::Status(502), 502, json!(null), 0),
            (Fault::WebPage, 200, json!(null), 0),
            (Fault::ErrorAfterEffect(500), 500, json!(500), 1),
        ];
        for (fault, _, _, _) in &table {
            probe.state.calls.fail_next("sessions.send", fault.clone());
        }
        for (fault, status, code, sent) in table {
            let (answered, body) = probe.send_to_session("x");
            assert_eq!((answered, &body["code"]), (status, &code), "{fault:?}");
            assert_eq!(probe.state.sent.len(), sent, "{fault:?}");
        }
        assert_eq!(probe.send_to_session("x").0, 200);
        let limit = Fault::RateLimitedFor(3).instead().unwrap();
        let header = ("Retry-After".to_owned(), "3".to_owned());
        assert!(limit.headers.contains(&header), "{limit:?}");
    }
}
