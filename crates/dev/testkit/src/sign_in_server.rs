//! The login servers of model vendors, as strict as the real ones: the authorization codes with PKCE
//! of ChatGPT and xAI, and GitHub's device code with the exchange for a token of Copilot.
//!
//! Refresh tokens are rotated, and one that is used twice ends the login, as at the vendors.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use crate::TestkitError;
use crate::http::{Request, Response, Server};
use crate::sync::Watched;

/// A vendor's client with authorization codes.
struct CodeClient {
    id: &'static str,
    scope: &'static str,
    /// Beginning and end of the redirect address, with a port between them.
    redirect: [&'static str; 2],
    /// Further fields of an authorization, with their values.
    fields: &'static [(&'static str, &'static str)],
    needs_nonce: bool,
}

const CODEX: CodeClient = CodeClient {
    id: "app_EMoamEEZ73f0CkXaXp7hrann",
    scope: "openid profile email offline_access",
    redirect: ["http://localhost:", "/auth/callback"],
    fields: &[
        ("originator", "nanobot"),
        ("id_token_add_organizations", "true"),
        ("codex_cli_simplified_flow", "true"),
    ],
    needs_nonce: false,
};

const GROK: CodeClient = CodeClient {
    id: "b1a00492-073a-47ea-816f-4c329264a828",
    scope: "openid profile email offline_access grok-cli:access api:access",
    redirect: ["http://127.0.0.1:", "/callback"],
    fields: &[("referrer", "nanobot")],
    needs_nonce: true,
};

const COPILOT_CLIENT: &str = "Iv1.b507a08c87ecfe98";
/// Lifetime of access tokens, in seconds, unless a test changes it.
const LIFE: u64 = 3600;

/// A running login server; it stops on drop.
#[derive(Debug)]
pub struct SignInServer {
    server: Server,
    state: Watched<State>,
}

#[derive(Debug)]
struct State {
    life: u64,
    api: Option<String>,
    /// Answers to questions for a device token, before the token.
    progress: Vec<Value>,
    /// The answer to all requests for tokens, in place of the real one.
    fault: Option<Response>,
    /// Authorization codes, with the client, the challenge and the redirect address that they
    /// belong to.
    codes: BTreeMap<String, [String; 3]>,
    refresh: BTreeSet<String>,
    devices: BTreeSet<String>,
    access: BTreeSet<String>,
    issued: usize,
    journal: Vec<String>,
}

impl State {
    fn issue(&mut self, kind: &str) -> String {
        self.issued += 1;
        // Long and varied enough to be a secret.
        format!("{kind}-q7Xz-{:04}", self.issued)
    }

    /// Returns a token with the account in its claims, as ChatGPT issues them.
    fn access_token(&mut self) -> String {
        let number = self.issue("jwt");
        let claims = json!({
            "jti": number,
            "https://api.openai.com/auth": {"chatgpt_account_id": "account-1"},
        });
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let token = format!("e30.{claims}.c2ln");
        self.access.insert(token.clone());
        token
    }

    fn tokens(&mut self) -> Response {
        let (access, refresh) = (self.access_token(), self.issue("refresh"));
        self.refresh.insert(refresh.clone());
        Response::json(
            200,
            &json!({
                "access_token": access,
                "refresh_token": refresh,
                "id_token": "e30.e30.c2ln",
                "expires_in": self.life,
                "token_type": "Bearer",
            }),
        )
    }
}

impl SignInServer {
    /// Starts the server.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(State {
            life: LIFE,
            api: None,
            progress: Vec::new(),
            fault: None,
            codes: BTreeMap::new(),
            refresh: BTreeSet::new(),
            devices: BTreeSet::new(),
            access: BTreeSet::new(),
            issued: 0,
            journal: Vec::new(),
        });
        let shared = state.clone();
        let server = Server::start(move |request| {
            let response = shared.change(|state| answer(state, &request));
            async { response }
        });
        Ok(Self {
            server: server.await?,
            state,
        })
    }

    /// Returns the address, for `loginBase`.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Sets the lifetime of tokens that are issued from now on, in seconds.
    pub fn set_life(&self, life: u64) {
        self.state.change(|state| state.life = life);
    }

    /// Sets the address of the API that the exchange names.
    pub fn set_api(&self, api: impl Into<String>) {
        self.state.change(|state| state.api = Some(api.into()));
    }

    /// Sets the errors with which the next questions for a device token are answered.
    pub fn set_progress(&self, errors: impl IntoIterator<Item = Value>) {
        let errors = errors.into_iter().collect();
        self.state.change(|state| state.progress = errors);
    }

    /// Sets the answer to all requests for tokens; `None` for the real one.
    pub fn set_fault(&self, answer: Option<Response>) {
        self.state.change(|state| state.fault = answer);
    }

    /// Ends all logins: no token is accepted any more.
    pub fn end_logins(&self) {
        self.state.change(|state| {
            state.access.clear();
            state.refresh.clear();
        });
    }

    /// Makes access tokens invalid before their end. They can be renewed.
    pub fn revoke_access(&self) {
        self.state.change(|state| state.access.clear());
    }

    /// `true` for the value of an `Authorization` header with a valid token.
    #[must_use]
    pub fn accepts(&self, authorization: &str) -> bool {
        let token = authorization.strip_prefix("Bearer ").unwrap_or_default();
        self.state.read(|state| state.access.contains(token))
    }

    /// Returns the tokens and codes that were issued and are valid.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.state.read(|state| {
            let all = state.access.iter().chain(&state.refresh);
            all.cloned().collect()
        })
    }

    /// Returns the steps so far: `authorize`, `code`, `refresh`, `device`, `poll`, `exchange`,
    /// `fault`, and `refused: REASON`.
    #[must_use]
    pub fn journal(&self) -> Vec<String> {
        self.state.read(|state| state.journal.clone())
    }
}

fn answer(state: &mut State, request: &Request) -> Response {
    if let Some(fault) = state.fault.clone().filter(|_| request.method == "POST") {
        state.journal.push("fault".to_owned());
        return fault;
    }
    let answered = match (request.method.as_str(), request.path()) {
        ("GET", "/oauth/authorize") => authorize(state, request, &CODEX),
        ("POST", "/oauth/token") => token(state, request, &CODEX),
        ("GET", "/oauth2/authorize") => authorize(state, request, &GROK),
        ("POST", "/oauth2/token") => token(state, request, &GROK),
        ("POST", "/login/device/code") => device_code(state, request),
        ("POST", "/login/oauth/access_token") => device_token(state, request),
        ("GET", "/copilot_internal/v2/token") => exchange(state, request),
        (method, path) => Err(refusal(404, &format!("nothing at {method} {path}"))),
    };
    answered.unwrap_or_else(|(status, reason)| {
        state.journal.push(format!("refused: {reason}"));
        Response::json(status, &json!({"error": reason}))
    })
}

type Refusal = (u16, String);

fn refusal(status: u16, reason: &str) -> Refusal {
    (status, reason.to_owned())
}

fn require(holds: bool, reason: &str) -> Result<(), Refusal> {
    if holds {
        Ok(())
    } else {
        Err(refusal(400, reason))
    }
}

fn authorize(
    state: &mut State,
    request: &Request,
    client: &CodeClient,
) -> Result<Response, Refusal> {
    let fields: BTreeMap<String, String> = request.query().into_iter().collect();
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    require(field("client_id") == client.id, "unknown client")?;
    require(field("response_type") == "code", "response_type")?;
    require(field("code_challenge_method") == "S256", "no PKCE")?;
    require(field("code_challenge").len() == 43, "no challenge")?;
    require(field("state").len() >= 32, "a short state")?;
    let has_nonce = !client.needs_nonce || field("nonce").len() >= 32;
    require(has_nonce, "a short nonce")?;
    require(field("scope") == client.scope, "scope")?;
    for (name, value) in client.fields {
        require(field(name) == *value, name)?;
    }
    let redirect = field("redirect_uri");
    let [before, after] = client.redirect;
    let port = redirect.strip_prefix(before);
    let port = port.and_then(|rest| rest.strip_suffix(after));
    let is_here = port.is_some_and(|port| port.parse::<u16>().is_ok());
    require(is_here, "redirect_uri")?;
    let code = state.issue("code");
    let bound = [client.id, field("code_challenge"), redirect].map(str::to_owned);
    state.codes.insert(code.clone(), bound);
    state.journal.push("authorize".to_owned());
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs([("code", code.as_str()), ("state", field("state"))]);
    let location = format!("{redirect}?{}", query.finish());
    Ok(Response::bytes(302, "text/plain", Vec::new()).with_header("location", location))
}

fn form(request: &Request) -> Result<BTreeMap<String, String>, Refusal> {
    let kind = request.header("content-type").unwrap_or_default();
    require(
        kind == "application/x-www-form-urlencoded",
        "the body is no form",
    )?;
    Ok(form_urlencoded::parse(&request.body).into_owned().collect())
}

fn token(state: &mut State, request: &Request, client: &CodeClient) -> Result<Response, Refusal> {
    let fields = form(request)?;
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    require(field("client_id") == client.id, "invalid_client")?;
    match field("grant_type") {
        "authorization_code" => {
            let found = state.codes.remove(field("code"));
            let found = found.ok_or_else(|| refusal(400, "invalid_grant"))?;
            let [owner, challenge, redirect] = found;
            require(owner == client.id, "invalid_grant")?;
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
            require(proof == challenge, "invalid_grant")?;
            require(field("redirect_uri") == redirect, "invalid_grant")?;
            state.journal.push("code".to_owned());
        }
        "refresh_token" => {
            let is_known = state.refresh.remove(field("refresh_token"));
            if !is_known {
                // A token that is used twice may be stolen.
                state.refresh.clear();
                return Err(refusal(401, "refresh_token_reused"));
            }
            state.journal.push("refresh".to_owned());
        }
        _ => return Err(refusal(400, "unsupported_grant_type")),
    }
    Ok(state.tokens())
}

fn device_code(state: &mut State, request: &Request) -> Result<Response, Refusal> {
    let fields = form(request)?;
    let has = |name: &str, value: &str| fields.get(name).is_some_and(|found| found == value);
    require(has("client_id", COPILOT_CLIENT), "unknown client")?;
    require(has("scope", "read:user"), "scope")?;
    let device = state.issue("device");
    state.devices.insert(device.clone());
    state.journal.push("device".to_owned());
    Ok(Response::json(
        200,
        &json!({
            "device_code": device,
            "user_code": "WDJB-MJHT",
            "verification_uri": "https://github.com/login/device",
            "expires_in": 900,
            "interval": 1,
        }),
    ))
}

fn device_token(state: &mut State, request: &Request) -> Result<Response, Refusal> {
    let fields = form(request)?;
    let has = |name: &str, value: &str| fields.get(name).is_some_and(|found| found == value);
    require(has("client_id", COPILOT_CLIENT), "unknown client")?;
    require(
        has("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        "unsupported_grant_type",
    )?;
    let device = fields.get("device_code").cloned().unwrap_or_default();
    require(state.devices.contains(&device), "incorrect_device_code")?;
    state.journal.push("poll".to_owned());
    if !state.progress.is_empty() {
        return Ok(Response::json(200, &state.progress.remove(0)));
    }
    state.devices.remove(&device);
    let token = state.issue("ghu");
    state.refresh.insert(token.clone());
    Ok(Response::json(
        200,
        &json!({"access_token": token, "token_type": "bearer", "scope": "read:user"}),
    ))
}

fn exchange(state: &mut State, request: &Request) -> Result<Response, Refusal> {
    let authorization = request.header("authorization").unwrap_or_default();
    let token = authorization.strip_prefix("token ").unwrap_or_default();
    if !state.refresh.contains(token) {
        return Err(refusal(401, "Bad credentials"));
    }
    require(request.header("editor-version").is_some(), "no editor")?;
    let short = state.issue("tid=copilot;exp=1");
    state.access.insert(short.clone());
    state.journal.push("exchange".to_owned());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Response::json(
        200,
        &json!({
            "token": short,
            "expires_at": now.as_secs() + state.life,
            "refresh_in": state.life / 2,
            "endpoints": {"api": state.api},
        }),
    ))
}
