//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use crate::account::BOT_ID;
use crate::api::{ApiError, ApiResult, Outcome};
use crate::fault::Fault;
use crate::params::Params;
use crate::route::{self, Auth, Body, Route};
use crate::state::{Call, MatrixState};
use crate::sync::{self, SyncCall};

/// A response, or a sync that may have to wait for one.
#[derive(Debug)]
pub(crate) enum Served {
    Done(Response),
    Waits(Box<SyncCall>, Option<Fault>),
}

pub(crate) async fn handle(state: Watched<MatrixState>, request: Request) -> Response {
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    match state.change(|state| state.serve(&request)) {
        Served::Done(response) => response,
        Served::Waits(call, fault) => {
            let answer = match sync::wait(&state, &call).await {
                Ok(body) => Response::json(200, &body),
                Err(error) => error.response(),
            };
            match fault {
                Some(fault) => fault.afterwards(answer),
                None => answer,
            }
        }
    }
}

impl MatrixState {
    pub(crate) fn serve(&mut self, request: &Request) -> Served {
        let Some((route, variables)) = route::find(&request.method, request.path()) else {
            self.complain(format!(
                "{} {}: unknown call",
                request.method,
                request.path()
            ));
            return Served::Done(ApiError::of_code("M_UNRECOGNIZED").response());
        };
        match self.call(route, variables, request) {
            Ok(served) => served,
            Err(error) => {
                self.complaints.extend(error.complaint(route.name));
                Served::Done(error.response())
            }
        }
    }

    fn call(
        &mut self,
        route: &Route,
        variables: Vec<String>,
        request: &Request,
    ) -> Result<Served, ApiError> {
        let (user, device) = self.caller(route, request)?;
        self.check_headers(route, request);
        let params = Params::read(route, variables, request);
        let is_watched = user.is_empty() || user == BOT_ID;
        let fault = if is_watched {
            self.note(route, params.as_ref().ok(), &device)
        } else {
            None
        };
        let params = Params {
            user,
            device,
            ..params?
        };
        if let Some(instead) = fault.as_ref().and_then(Fault::instead) {
            return Ok(Served::Done(instead));
        }
        let answer = match self.checked_call(route, &params) {
            Ok(Outcome::Sync(call)) => return Ok(Served::Waits(call, fault)),
            Ok(Outcome::Json(body)) => Response::json(200, &body),
            Ok(Outcome::Whole(response)) => response,
            Err(error) => {
                self.complaints.extend(error.complaint(route.name));
                error.response()
            }
        };
        Ok(Served::Done(match fault {
            Some(fault) => fault.afterwards(answer),
            None => answer,
        }))
    }

    fn note(&mut self, route: &Route, params: Option<&Params>, device: &str) -> Option<Fault> {
        let path = params.map(|params| params.path.clone());
        let query = params.map(|params| params.query.clone());
        let body = params.map(|params| params.body.clone());
        let is_empty = body.as_ref().is_none_or(serde_json::Map::is_empty);
        self.calls.note(Call {
            method: route.name.to_owned(),
            path: path.unwrap_or_default(),
            query: Value::Object(query.unwrap_or_default()),
            body: match body {
                Some(body) if !is_empty => Value::Object(body),
                _ => Value::Null,
            },
            device: device.to_owned(),
            at: Instant::now(),
        })
    }

    /// Returns the user and the device of the token.
    fn caller(&mut self, route: &Route, request: &Request) -> Result<(String, String), ApiError> {
        if route.auth == Auth::Nothing {
            return Ok(Default::default());
        }
        if request.query().iter().any(|(key, _)| key == "access_token") {
            self.complain(format!("{}: the token is in the address", route.name));
        }
        let header = request.header("authorization").unwrap_or_default();
        let Some(token) = header.strip_prefix("Bearer ") else {
            return Err(ApiError::of_code("M_MISSING_TOKEN").clumsy());
        };
        self.user_of(token)
    }

    fn check_headers(&mut self, route: &Route, request: &Request) {
        let content_type = request.header("content-type").unwrap_or_default();
        let is_json = content_type.starts_with("application/json");
        let needs_json = matches!(route.body, Body::Fields(_) | Body::Object);
        if needs_json && !is_json {
            self.complain(format!("{}: the body is not application/json", route.name));
        }
        if matches!(route.body, Body::Nothing) && !request.body.is_empty() {
            self.complain(format!(
                "{}: a body that the call does not need",
                route.name
            ));
        }
    }

    fn checked_call(&mut self, route: &Route, params: &Params) -> ApiResult {
        for name in params.check(route)? {
            self.complain(format!("{}: unknown parameter {name}", route.name));
        }
        (route.run)(self, params)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::account::BOT_TOKEN;
    use crate::probe::{Probe, ROOM, text};

    fn path(transaction: &str) -> String {
        format!("rooms/{ROOM}/send/m.room.message/{transaction}")
    }

    #[test]
    fn malformed_calls_are_refused_and_recorded() {
        let mut probe = Probe::new();
        let typing = format!("rooms/{ROOM}/typing/{BOT_ID}");
        let table = [
            ("PUT", path("1"), json!([]), "M_BAD_JSON"),
            ("PUT", typing.clone(), json!({}), "M_MISSING_PARAM"),
            ("PUT", typing, json!({"typing": "yes"}), "M_INVALID_PARAM"),
            (
                "GET",
                "sync?since=5".to_owned(),
                Value::Null,
                "M_INVALID_PARAM",
            ),
            (
                "GET",
                "sync?since=s999".to_owned(),
                Value::Null,
                "M_INVALID_PARAM",
            ),
            (
                "GET",
                "sync?timeout=-1".to_owned(),
                Value::Null,
                "M_INVALID_PARAM",
            ),
            (
                "GET",
                format!("rooms/{ROOM}/messages"),
                Value::Null,
                "M_MISSING_PARAM",
            ),
            ("GET", "nothing".to_owned(), Value::Null, "M_UNRECOGNIZED"),
            ("GET", path("1"), Value::Null, "M_UNRECOGNIZED"),
        ];
        for (method, path, body, code) in table {
            assert_eq!(probe.code(method, &path, &body), code, "{path} {body}");
            assert_eq!(probe.complaints().len(), 1, "{path} {body}");
        }
        // Unknown parameters are ignored, but recorded.
        probe.get("sync?waits=yes");
        assert_eq!(probe.complaints(), ["sync: unknown parameter waits"]);
    }

    #[test]
    fn calls_need_a_valid_token() {
        let mut probe = Probe::new();
        probe.token = "wrong".to_owned();
        assert_eq!(
            probe.code("GET", "account/whoami", &Value::Null),
            "M_UNKNOWN_TOKEN"
        );
        assert_eq!(
            probe.code("GET", "/_matrix/client/versions", &Value::Null),
            ""
        );
        probe.token = BOT_TOKEN.to_owned();
        assert_eq!(probe.get("account/whoami")["user_id"], json!(BOT_ID));
        probe.state.is_revoked = true;
        assert_eq!(
            probe.code("GET", "account/whoami", &Value::Null),
            "M_UNKNOWN_TOKEN"
        );
        assert_eq!(probe.state.calls.of("whoami").len(), 1);
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn faults_apply_to_one_call_of_the_bot() {
        let mut probe = Probe::new();
        let table = [
            (Fault::RateLimited, 429, json!("M_LIMIT_EXCEEDED"), 0),
            (Fault::RateLimitedFor(3), 429, json!("M_LIMIT_EXCEEDED"), 0),
            (Fault::Error("M_FORBIDDEN"), 403, json!("M_FORBIDDEN"), 0),
            (
                Fault::ErrorWith(418, "M_ODD", "odd".to_owned()),
                418,
                json!("M_ODD"),
                0,
            ),
            (Fault::Status(502), 502, json!(null), 0),
            (Fault::Answer(200, json!({"errcode": 5})), 200, json!(5), 0),
            (Fault::WebPage, 200, json!(null), 0),
            (
                Fault::ErrorAfterEffect("M_UNKNOWN"),
                500,
                json!("M_UNKNOWN"),
                1,
            ),
        ];
        for (fault, _, _, _) in &table {
            probe.state.calls.fail_next("send", fault.clone());
        }
        let mut people = Probe::new().by_ann();
        people.state.calls.fail_next("send", Fault::RateLimited);
        people.call("PUT", &path("1"), &text("x"));
        for (number, (fault, status, code, sent)) in table.into_iter().enumerate() {
            let path = path(&format!("tx{number}"));
            let (answered, body) = probe.request("PUT", &path, &text("x"));
            assert_eq!((answered, &body["errcode"]), (status, &code), "{fault:?}");
            assert_eq!(probe.state.sent.len(), sent, "{fault:?}");
        }
        probe.call("PUT", &path("last"), &text("x"));
        let limit = Fault::RateLimitedFor(3).instead().unwrap();
        let header = ("Retry-After".to_owned(), "3".to_owned());
        assert!(limit.headers.contains(&header), "{limit:?}");
        let [nanobot_testkit::http::ResponseStep::Bytes(body)] = limit.steps.as_slice() else {
            panic!("{limit:?}");
        };
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["retry_after_ms"], json!(3000));
    }
}
