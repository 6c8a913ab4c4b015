//! The authorization server.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use super::{Addresses, Code, State, metadata};
use crate::http::{Request, Response};

/// The fields of a request. None may be there twice.
type Fields = BTreeMap<String, String>;

/// The error of a refusal and its reason.
type Refusal = (&'static str, &'static str);

pub(super) fn answer(
    state: &mut State,
    addresses: Option<&Addresses>,
    request: &Request,
) -> Response {
    let Some(addresses) = addresses else {
        return Response::json(503, &Value::Null);
    };
    let answered = match (request.method.as_str(), request.path()) {
        ("GET", "/.well-known/oauth-authorization-server") => {
            return Response::json(200, &metadata(state, &addresses.issuer));
        }
        ("POST", "/register") => register(state, &request.json()),
        ("GET", "/authorize") => authorize(state, addresses, request),
        ("POST", "/token") => token(state, addresses, request),
        _ => return Response::json(404, &Value::Null),
    };
    answered.unwrap_or_else(|(error, reason)| {
        state.journal.push(format!("refused: {reason}"));
        Response::json(400, &json!({"error": error, "error_description": reason}))
    })
}

fn check(holds: bool, error: &'static str, reason: &'static str) -> Result<(), Refusal> {
    holds.then_some(()).ok_or((error, reason))
}

fn is_loopback_callback(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| {
        url.scheme() == "http"
            && url.host_str() == Some("127.0.0.1")
            && url.port().is_some()
            && url.fragment().is_none()
    })
}

fn register(state: &mut State, wish: &Value) -> Result<Response, Refusal> {
    let invalid = "invalid_client_metadata";
    check(state.registers, invalid, "no registration")?;
    check(
        wish["token_endpoint_auth_method"] == "none",
        invalid,
        "not a public client",
    )?;
    check(
        wish["response_types"] == json!(["code"]),
        invalid,
        "response types",
    )?;
    let grants = json!(["authorization_code", "refresh_token"]);
    check(wish["grant_types"] == grants, invalid, "grant types")?;
    let redirect = wish.pointer("/redirect_uris/0").and_then(Value::as_str);
    let redirect = redirect.unwrap_or_default();
    check(
        is_loopback_callback(redirect),
        "invalid_redirect_uri",
        "redirect address",
    )?;
    let id = state.next("client");
    state.clients.insert(id.clone(), Some(redirect.to_owned()));
    state.journal.push("register".to_owned());
    let registered = json!({
        "client_id": id, "redirect_uris": [redirect], "token_endpoint_auth_method": "none",
    });
    Ok(Response::json(201, &registered))
}

fn fields(pairs: impl Iterator<Item = (String, String)>) -> Result<Fields, Refusal> {
    let mut fields = Fields::new();
    for (name, value) in pairs {
        let is_first = fields.insert(name, value).is_none();
        check(is_first, "invalid_request", "a field is there twice")?;
    }
    Ok(fields)
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map(String::as_str).unwrap_or_default()
}

fn authorize(
    state: &mut State,
    addresses: &Addresses,
    request: &Request,
) -> Result<Response, Refusal> {
    let invalid = "invalid_request";
    let fields = fields(request.query().into_iter())?;
    let field = |name| field(&fields, name);
    let (client, redirect) = (field("client_id"), field("redirect_uri"));
    let known = state.clients.get(client);
    let is_known = known.is_some_and(|known| match known {
        Some(known) => known == redirect,
        None => is_loopback_callback(redirect),
    });
    check(is_known, invalid, "client or redirect address")?;
    check(field("response_type") == "code", invalid, "response type")?;
    check(field("state").len() >= 32, invalid, "state")?;
    check(
        field("code_challenge_method") == "S256",
        invalid,
        "challenge method",
    )?;
    check(field("code_challenge").len() == 43, invalid, "challenge")?;
    check(
        field("resource") == addresses.resource,
        "invalid_target",
        "resource",
    )?;
    check(field("scope") == "tools", "invalid_scope", "scope")?;
    let code = Code {
        client: client.to_owned(),
        redirect: redirect.to_owned(),
        challenge: field("code_challenge").to_owned(),
        is_used: false,
    };
    let name = state.next("code");
    state.codes.insert(name.clone(), code);
    state.journal.push("authorize".to_owned());
    let answer = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("code", name.as_str()),
            ("state", field("state")),
            ("iss", &addresses.issuer),
        ])
        .finish();
    let location = format!("{redirect}?{answer}");
    Ok(Response::bytes(302, "text/plain", "").with_header("location", location))
}

fn token(state: &mut State, addresses: &Addresses, request: &Request) -> Result<Response, Refusal> {
    let kind = request.header("content-type").unwrap_or_default();
    let is_form = kind == "application/x-www-form-urlencoded";
    check(is_form, "invalid_request", "content type")?;
    check(request.query().is_empty(), "invalid_request", "a query")?;
    let fields = fields(form_urlencoded::parse(&request.body).into_owned())?;
    let client = client(state, request, &fields)?;
    let resource = field(&fields, "resource");
    check(resource == addresses.resource, "invalid_target", "resource")?;
    match field(&fields, "grant_type") {
        "authorization_code" => redeem(state, &client, &fields)?,
        "refresh_token" => {
            let token = field(&fields, "refresh_token");
            if !state.refresh.remove(token) {
                // A thief may have used it.
                state.end_login();
                return Err(("invalid_grant", "refresh token"));
            }
            state.journal.push("refresh".to_owned());
        }
        _ => return Err(("unsupported_grant_type", "grant type")),
    }
    let (access, refresh) = (state.next("access"), state.next("refresh"));
    state.access.insert(access.clone());
    state.refresh.insert(refresh.clone());
    let tokens = json!({
        "access_token": access, "token_type": "Bearer", "expires_in": state.life,
        "refresh_token": refresh, "scope": "tools",
    });
    Ok(Response::json(200, &tokens).with_header("cache-control", "no-store"))
}

/// Returns the client of a request after a check of its secret.
fn client(state: &State, request: &Request, fields: &Fields) -> Result<String, Refusal> {
    let header = request
        .header("authorization")
        .and_then(|header| header.strip_prefix("Basic "));
    let Some(header) = header else {
        let id = field(fields, "client_id");
        let is_public = state.clients.contains_key(id) && !state.secrets.contains_key(id);
        check(is_public, "invalid_client", "client")?;
        return Ok(id.to_owned());
    };
    let pair = STANDARD
        .decode(header)
        .ok()
        .and_then(|pair| String::from_utf8(pair).ok());
    let pair = pair.unwrap_or_default();
    let (id, secret) = pair.split_once(':').unwrap_or_default();
    let is_right = state.secrets.get(id).is_some_and(|known| known == secret);
    check(is_right, "invalid_client", "client secret")?;
    Ok(id.to_owned())
}

fn redeem(state: &mut State, client: &str, fields: &Fields) -> Result<(), Refusal> {
    let refused = "invalid_grant";
    let code = state
        .codes
        .get_mut(field(fields, "code"))
        .ok_or((refused, "code"))?;
    if std::mem::replace(&mut code.is_used, true) {
        state.end_login();
        return Err((refused, "second use of a code"));
    }
    check(code.client == client, refused, "client of the code")?;
    let redirect = field(fields, "redirect_uri");
    check(
        code.redirect == redirect,
        refused,
        "redirect address of the code",
    )?;
    let verifier = field(fields, "code_verifier");
    check(
        (43..=128).contains(&verifier.len()),
        refused,
        "length of the verifier",
    )?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    check(code.challenge == challenge, refused, "verifier")?;
    state.journal.push("code".to_owned());
    Ok(())
}
