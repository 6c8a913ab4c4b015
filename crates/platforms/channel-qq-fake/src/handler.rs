//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use crate::account::APP_ID;
use crate::api::{ApiError, refusal, trace};
use crate::auth;
use crate::params::Params;
use crate::route::{self, Action, Route};
use crate::state::{Call, QqState};

/// A successful outcome.
#[derive(Debug)]
pub(crate) enum Outcome {
    Json(Value),
    /// An answer that is no JSON of the API.
    Whole(Response),
}

pub(crate) async fn handle(state: Watched<QqState>, request: Request) -> Response {
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    state.change(|state| state.serve(&request))
}

impl QqState {
    pub(crate) fn serve(&mut self, request: &Request) -> Response {
        let log = self.next();
        let path = request.decoded_path();
        let Some((route, target)) = route::find(&request.method, &path) else {
            self.complaints
                .push(format!("{} {path}: unknown call", request.method));
            let error = ApiError::with_message(404, "接口不存在").with_status(404);
            return refusal(&error, log);
        };
        if let Err(error) = self.check_token(route, request) {
            return self.refuse(route, &error, log);
        }
        let params = match Params::read(route, target, request) {
            Ok(params) => params,
            Err(error) => return self.refuse(route, &error, log),
        };
        let fault = self.calls.note(Call {
            method: route.name.to_owned(),
            target: params.target.clone(),
            query: Value::Object(params.query.clone()),
            body: Value::Object(params.body.clone()),
            path,
            at: Instant::now(),
        });
        let instead = fault.as_ref().and_then(|fault| fault.instead(log));
        if let Some(instead) = instead {
            return instead;
        }
        let answer = match self.checked_call(route, &params) {
            Ok(Outcome::Json(body)) => {
                Response::json(200, &body).with_header("X-Tps-trace-ID", trace(log))
            }
            Ok(Outcome::Whole(response)) => response,
            Err(error) => self.refuse(route, &error, log),
        };
        match fault {
            Some(fault) => fault.afterwards(answer, log),
            None => answer,
        }
    }

    fn check_token(&mut self, route: &Route, request: &Request) -> Result<(), ApiError> {
        let header = request.header("authorization");
        if !route.needs_token() {
            if header.is_some() {
                let complaint = format!("{}: a token that the call does not need", route.name);
                self.complaints.push(complaint);
            }
            return Ok(());
        }
        if !self.is_authorized(header.unwrap_or_default()) {
            return Err(ApiError::new(11_244));
        }
        if request.header("x-union-appid") != Some(APP_ID) {
            return Err(ApiError::because(11_241, "X-Union-Appid"));
        }
        Ok(())
    }

    fn refuse(&mut self, route: &Route, error: &ApiError, log: u64) -> Response {
        self.complaints.extend(error.complaint(route.name));
        refusal(error, log)
    }

    fn checked_call(&mut self, route: &Route, params: &Params) -> Result<Outcome, ApiError> {
        let unknown = params.check(route).map_err(|error| match route.action {
            Action::Token => ApiError::new(100_002),
            _ => error,
        })?;
        for name in unknown {
            let complaint = format!("{}: unknown parameter {name}", route.name);
            self.complaints.push(complaint);
        }
        let data = match route.action {
            Action::Download => return Ok(Outcome::Whole(self.download(params))),
            Action::Upload(kind) => return self.upload(kind, params),
            Action::Token => self.issue_token(params)?,
            Action::Me => auth::me(),
            Action::Gateway => self.gateway(false),
            Action::GatewayBot => self.gateway(true),
            Action::Send(kind) => self.send(kind, params)?,
        };
        Ok(Outcome::Json(data))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::fault::Fault;
    use crate::probe::{Probe, ann};

    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.rules.active_quota = 100;
        probe.state.add_person(&ann());
        probe
    }

    fn path() -> String {
        format!("/v2/users/{}/messages", ann().openid)
    }

    #[test]
    fn malformed_calls_are_refused_and_recorded() {
        let mut probe = probe();
        let table = [
            (json!([]), 11_255),
            (json!({"msg_type": "0", "content": "x"}), 11_255),
            (json!({"msg_type": 0, "content": 5}), 11_255),
            (
                json!({"msg_type": 0, "content": "x", "markdown": "y"}),
                11_255,
            ),
        ];
        for (index, (body, code)) in table.iter().enumerate() {
            assert_eq!(probe.code("POST", &path(), body), *code, "{body}");
            assert_eq!(probe.state.complaints.len(), index + 1);
        }
        assert_eq!(probe.code("GET", &path(), &Value::Null), 404);
        probe.state.complaints.clear();
        // Unknown parameters are ignored, but recorded.
        let odd = json!({"msg_type": 0, "content": "x", "at": "all"});
        assert_eq!(probe.code("POST", &path(), &odd), 0);
        let complaints = ["user.send: unknown parameter at"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn calls_need_a_valid_token_and_the_app() {
        let mut probe = probe();
        assert_eq!(probe.code("GET", "/users/@me", &Value::Null), 0);
        probe.app = "other".to_owned();
        assert_eq!(probe.code("GET", "/users/@me", &Value::Null), 11_241);
        probe.app = APP_ID.to_owned();
        probe.state.advanced = Duration::from_secs(7200);
        assert_eq!(probe.code("GET", "/users/@me", &Value::Null), 11_244);
        assert_eq!(probe.state.calls.of("me").len(), 1);
    }

    #[test]
    fn faults_apply_to_one_call() {
        let mut probe = probe();
        let faults = [
            Fault::RateLimited,
            Fault::Error(50_055_001),
            Fault::ErrorWith(400, 7, "Odd".to_owned()),
            Fault::Answer(200, json!({"code": 8})),
            Fault::Hang,
            Fault::DropAfterEffect,
            Fault::ErrorAfterEffect(500_000),
        ];
        for fault in faults {
            probe.state.calls.fail_next("user.send", fault);
        }
        let body = json!({"msg_type": 0, "content": "x"});
        for (index, code) in [22_009, 50_055_001, 7, 8, 0, 0, 500_000]
            .into_iter()
            .enumerate()
        {
            assert_eq!(probe.code("POST", &path(), &body), code);
            assert_eq!(probe.state.sent.len(), index.saturating_sub(4), "{code}");
        }
        probe.code("POST", &path(), &body);
        assert_eq!(probe.state.sent.len(), 3);
    }
}
