//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, json_response, refusal};
use crate::params::Params;
use crate::route::{self, Access, Host, Route};
use crate::state::{Call, DingTalkState};

/// The header that carries the token of the open API.
const TOKEN_HEADER: &str = "x-acs-dingtalk-access-token";

/// A successful outcome.
#[derive(Debug)]
pub(crate) enum Outcome {
    Json(Value),
    File(Response),
}

pub(crate) async fn handle(
    state: Watched<DingTalkState>,
    host: Host,
    request: Request,
) -> Response {
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    state.change(|state| state.serve(host, &request))
}

impl DingTalkState {
    pub(crate) fn serve(&mut self, host: Host, request: &Request) -> Response {
        let log = self.next();
        let path = request.decoded_path();
        let Some(route) = route::find(host, &request.method, &path) else {
            self.complaints
                .push(format!("{} {path}: unknown call", request.method));
            let error = ApiError::with_message("InvalidAction.NotFound", "the API does not exist");
            return refusal(&error.with_status(404), host, log);
        };
        if let Err(error) = self.check_token(route, request) {
            return refusal(&error, host, log);
        }
        let params = match Params::read(route, &path, request) {
            Ok(params) => params,
            Err(error) => return self.refuse(route, &error, log),
        };
        let fault = self.calls.note(Call {
            method: route.name.to_owned(),
            path,
            query: Value::Object(params.query.clone()),
            body: Value::Object(params.body.clone()),
            at: Instant::now(),
        });
        let instead = fault.as_ref().and_then(|fault| fault.instead(host, log));
        if let Some(instead) = instead {
            return instead;
        }
        let answer = match self.checked_call(route, &params) {
            Ok(Outcome::Json(body)) => json_response(200, &body),
            Ok(Outcome::File(response)) => response,
            Err(error) => self.refuse(route, &error, log),
        };
        match fault {
            Some(fault) => fault.afterwards(answer, host, log),
            None => answer,
        }
    }

    fn check_token(&mut self, route: &Route, request: &Request) -> Result<(), ApiError> {
        let header = request.header(TOKEN_HEADER);
        if route.access == Access::Open {
            if header.is_some() || request.header("authorization").is_some() {
                let complaint = format!("{}: a token that the call does not need", route.name);
                self.complaints.push(complaint);
            }
            return Ok(());
        }
        let query = request.query();
        let asked = query.iter().find(|(name, _)| name == "access_token");
        let token = match route.host {
            Host::Open => header.unwrap_or_default(),
            Host::Oapi => asked.map_or("", |(_, value)| value.as_str()),
        };
        if self.is_valid_token(token) {
            Ok(())
        } else {
            Err(ApiError::token(route.host))
        }
    }

    fn refuse(&mut self, route: &Route, error: &ApiError, log: u64) -> Response {
        self.complaints.extend(error.complaint(route.name));
        refusal(error, route.host, log)
    }

    fn checked_call(&mut self, route: &Route, params: &Params) -> Result<Outcome, ApiError> {
        if let Access::Scope(scope) = route.access
            && self.denied_scopes.contains(scope)
        {
            return Err(ApiError::of_scope(scope));
        }
        for name in params.check(route)? {
            let complaint = format!("{}: unknown parameter {name}", route.name);
            self.complaints.push(complaint);
        }
        let data = match route.name {
            "file.get" => return self.download(params),
            "token" => self.issue_token(params),
            "connection.open" => self.offer_connection(params),
            "robot.private" => self.send_private(params),
            "robot.group" => self.send_group(params),
            "session.send" => self.send_by_session(params),
            "file.url" => self.locate_file(params),
            "media.upload" => self.upload(params),
            "card.create" => self.create_card(params),
            "card.stream" => self.stream_card(params),
            "card.update" => self.update_card(params),
            other => Err(ApiError::because("unknownError", other)),
        };
        data.map(Outcome::Json)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use crate::account::CLIENT_ID;
    use crate::fault::Fault;
    use crate::probe::{GROUP, Probe};

    const SEND: &str = "/v1.0/robot/groupMessages/send";

    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.add_group(GROUP, true);
        probe
    }

    #[test]
    fn malformed_calls_are_refused_and_recorded() {
        let mut probe = probe();
        let values = json!({"content": "x"}).to_string();
        let whole = json!({
            "robotCode": CLIENT_ID, "openConversationId": GROUP, "msgKey": "sampleText",
            "msgParam": values,
        });
        let with = |key: &str, value| {
            let mut body = whole.clone();
            body[key] = value;
            body
        };
        let table = [
            (json!([]), "invalidParameter"),
            (with("msgKey", json!(null)), "MissingmsgKey"),
            (
                with("msgParam", json!({"content": "x"})),
                "invalidParameter",
            ),
            (
                with("openConversationId", json!(null)),
                "MissingopenConversationId",
            ),
            (with("robotCode", json!("other")), "robotCode.notExist"),
        ];
        for (index, (body, code)) in table.iter().enumerate() {
            assert_eq!(probe.code("POST", SEND, body), *code, "{body}");
            assert_eq!(probe.state.complaints.len(), index + 1);
        }
        assert_eq!(probe.code("GET", SEND, &whole), "InvalidAction.NotFound");
        probe.state.complaints.clear();
        // Unknown parameters are ignored, but recorded.
        assert_eq!(probe.code("POST", SEND, &with("at", json!("all"))), "");
        let complaints = ["robot.group: unknown parameter at"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn calls_need_a_valid_token() {
        let mut probe = probe();
        assert_eq!(probe.send_group("x").get("code"), None);
        probe.state.advanced = Duration::from_secs(7200);
        assert_eq!(probe.send_group("x")["code"], "InvalidAuthentication");
        assert_eq!(probe.state.calls.of("robot.group").len(), 1);
    }

    #[test]
    fn faults_apply_to_one_call() {
        let mut probe = probe();
        let faults = [
            Fault::RateLimited,
            Fault::error("ServiceUnavailable"),
            Fault::ErrorWith(400, "odd".to_owned(), "Odd".to_owned()),
            Fault::Answer(200, json!({"code": "strange"})),
            Fault::Hang,
            Fault::DropAfterEffect,
            Fault::ErrorAfterEffect("unknownError".to_owned()),
        ];
        for fault in faults {
            probe.state.calls.fail_next("robot.group", fault);
        }
        let codes = [
            json!("Forbidden.AccessDenied.QpsLimitForApi"),
            json!("ServiceUnavailable"),
            json!("odd"),
            json!("strange"),
            json!(null),
            json!(null),
            json!("unknownError"),
        ];
        for (index, code) in codes.into_iter().enumerate() {
            assert_eq!(probe.send_group("x")["code"], code);
            assert_eq!(probe.state.sent.len(), index.saturating_sub(4), "{code}");
        }
        probe.send_group("x");
        assert_eq!(probe.state.sent.len(), 3);
        let limit = Fault::RateLimitedFor(3);
        probe.state.calls.fail_next("media.upload", limit);
        let limited = probe.upload("file", "a.txt", b"x");
        assert_eq!(
            (&limited["errcode"], &limited["sub_code"]),
            (&json!(88), &json!("90018"))
        );
    }
}
