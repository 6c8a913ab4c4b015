//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, json_response, refusal, success};
use crate::params::Params;
use crate::route::{self, Route};
use crate::state::{Call, FeishuState};

/// A successful outcome.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The member `data` of the answer.
    Data(Value),
    /// The whole answer.
    Whole(Value),
    File(Response),
}

pub(crate) async fn handle(state: Watched<FeishuState>, request: Request) -> Response {
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    state.change(|state| state.serve(&request))
}

impl FeishuState {
    pub(crate) fn serve(&mut self, request: &Request) -> Response {
        let log = self.next();
        let path = request.decoded_path();
        let Some((route, ids)) = route::find(&request.method, &path) else {
            self.complaints
                .push(format!("{} {path}: unknown call", request.method));
            return Response::bytes(404, "text/plain", "404 page not found");
        };
        if let Err(error) = self.check_token(route, request) {
            return refusal(&error, log);
        }
        let params = match Params::read(route, ids, request) {
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
        if let Some(instead) = fault.as_ref().and_then(|fault| fault.instead(log)) {
            return instead;
        }
        let answer = match self.checked_call(route, &params) {
            Ok(Outcome::Data(data)) => success(&data, log),
            Ok(Outcome::Whole(body)) => json_response(200, &body),
            Ok(Outcome::File(response)) => response,
            Err(error) => self.refuse(route, &error, log),
        };
        match fault {
            Some(fault) => fault.afterwards(answer, log),
            None => answer,
        }
    }

    fn check_token(&self, route: &Route, request: &Request) -> Result<(), ApiError> {
        if route.scope.is_none() {
            return Ok(());
        }
        let header = request.header("authorization").unwrap_or_default();
        match header.strip_prefix("Bearer ") {
            None | Some("") => Err(ApiError::new(99991661)),
            Some(token) if !self.is_valid_token(token) => Err(ApiError::new(99991663)),
            Some(_) => Ok(()),
        }
    }

    fn refuse(&mut self, route: &Route, error: &ApiError, log: u64) -> Response {
        self.complaints.extend(error.complaint(route.name));
        refusal(error, log)
    }

    fn checked_call(&mut self, route: &Route, params: &Params) -> Result<Outcome, ApiError> {
        if let Some(scope) = route
            .scope
            .filter(|scope| self.denied_scopes.contains(*scope))
        {
            return Err(ApiError::of_scope(scope));
        }
        for name in params.check(route)? {
            let complaint = format!("{}: unknown parameter {name}", route.name);
            self.complaints.push(complaint);
        }
        let data = match route.name {
            "token" => return self.issue_token(params),
            "ws.endpoint" => return self.offer_connection(params),
            "bot.info" => return Ok(self.describe_bot()),
            "resource.get" => return self.download(params),
            "message.create" => self.create_message(params),
            "message.reply" => self.reply(params),
            "message.get" => self.show_message(params),
            "message.update" => self.update_message(params),
            "message.patch" => self.patch_message(params),
            "message.delete" => self.delete_message(params),
            "reaction.create" => self.add_reaction(params),
            "reaction.list" => self.list_reactions(params),
            "reaction.delete" => self.delete_reaction(params),
            "image.create" => self.upload_image(params),
            "file.create" => self.upload_file(params),
            "card.create" => self.create_card(params),
            "card.update" => self.update_card(params),
            "card.settings" => self.set_card(params),
            "card.content" => self.stream_text(params),
            other => Err(ApiError::because(10002, other)),
        };
        data.map(Outcome::Data)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fault::Fault;
    use crate::probe::Probe;

    const MESSAGES: &str = "/open-apis/im/v1/messages?receive_id_type=chat_id";

    #[test]
    fn malformed_calls_are_refused_and_recorded() {
        let mut probe = Probe::new();
        let whole = json!({"receive_id": "oc_1", "msg_type": "text", "content": "{}"});
        let with = |key: &str, value: Value| {
            let mut body = whole.clone();
            body[key] = value;
            body
        };
        let calls = [
            ("POST", "/open-apis/im/v1/messages", whole.clone(), 99992402),
            (
                "POST",
                MESSAGES,
                with("content", json!({"text": "x"})),
                99992402,
            ),
            ("POST", MESSAGES, with("msg_type", Value::Null), 99992402),
            ("POST", MESSAGES, json!([]), 99992402),
            ("POST", MESSAGES, with("uuid", json!(7)), 99992402),
        ];
        for (index, (verb, target, body, code)) in calls.iter().enumerate() {
            assert_eq!(probe.code(verb, target, body), *code, "{body}");
            assert_eq!(probe.state.complaints.len(), index + 1);
        }
        assert_eq!(
            probe.code("GET", "/open-apis/im/v1/chats", &json!({})),
            u64::MAX
        );
        probe.state.complaints.clear();
        // Unknown parameters are ignored, but recorded.
        assert_eq!(
            probe.code("POST", MESSAGES, &with("reply", json!("om_1"))),
            230034
        );
        let complaints = ["message.create: unknown parameter reply"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn calls_need_a_valid_token_and_the_permission() {
        let mut probe = Probe::new();
        let info = "/open-apis/bot/v3/info";
        assert_eq!(probe.code("GET", info, &json!({})), 0);
        probe.state.denied_scopes.insert("im:message".to_owned());
        assert_eq!(probe.code("POST", MESSAGES, &json!({})), 99991672);
        assert_eq!(probe.code("GET", info, &json!({})), 0);
        probe.state.tokens.clear();
        assert_eq!(probe.code("GET", info, &json!({})), 99991663);
        probe.renew_token();
        assert_eq!(probe.code("GET", info, &json!({})), 0);
        probe.state.advanced = std::time::Duration::from_secs(7200);
        assert_eq!(probe.code("GET", info, &json!({})), 99991663);
        assert_eq!(probe.state.calls.of("bot.info").len(), 3);
        assert_eq!(probe.state.calls.of("message.create").len(), 1);
    }

    #[test]
    fn faults_replace_one_call() {
        let mut probe = Probe::new();
        let info = "/open-apis/bot/v3/info";
        let strange = Fault::Answer(200, json!({"code": 7}));
        for fault in [
            strange,
            Fault::RateLimited(1),
            Fault::Error(230020),
            Fault::Hang,
        ] {
            probe.state.calls.fail_next("bot.info", fault);
        }
        let codes = [7, 99991400, 230020, u64::MAX, 0];
        for code in codes {
            assert_eq!(probe.code("GET", info, &json!({})), code);
        }
    }
}
