//! The token endpoint of the mailbox's OAuth provider.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::json;
use url::form_urlencoded;

use crate::state::MailState;
use crate::tokens::{CLIENT_ID, CLIENT_SECRET};

/// Answers a token request.
pub(crate) fn answer(state: &Watched<MailState>, request: &Request) -> Response {
    let is_form = request
        .header("content-type")
        .is_some_and(|kind| kind == "application/x-www-form-urlencoded");
    if request.method != "POST" || request.path() != "/token" || !is_form {
        state.change(|state| {
            state
                .violations
                .push(format!("{} {}", request.method, request.target));
        });
        return Response::json(404, &json!({}));
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(&request.body).into_owned().collect();
    let field = |name: &str| {
        form.iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let refused = |status, error: &str, why: &str| {
        Response::json(status, &json!({"error": error, "error_description": why}))
    };
    if field("grant_type").as_deref() != Some("refresh_token") {
        return refused(400, "unsupported_grant_type", "only refresh_token");
    }
    if field("client_id").as_deref() != Some(CLIENT_ID)
        || field("client_secret").as_deref() != Some(CLIENT_SECRET)
    {
        return refused(401, "invalid_client", "The OAuth client was not found.");
    }
    state.change(|state| {
        let provider = &mut state.provider;
        if provider.refresh.is_none() || field("refresh_token") != provider.refresh {
            return refused(400, "invalid_grant", "Token has been expired or revoked.");
        }
        provider.given += 1;
        let token = format!("Access-token-of-the-fake.{}", provider.given);
        provider.valid.insert(token.clone());
        let mut answer =
            json!({"access_token": token, "expires_in": provider.lasts, "token_type": "Bearer"});
        if provider.rotates {
            let next = format!("Refresh-token-of-the-fake {}", provider.given);
            if let Some(keys) = answer.as_object_mut() {
                keys.insert("refresh_token".to_owned(), next.as_str().into());
            }
            provider.refresh = Some(next);
        }
        Response::json(200, &answer)
    })
}
