//! Logins and logouts of the operator.

use std::sync::Arc;
use std::time::Duration;

use nanobot_redact::Secret;
use reqwest::Url;
use tokio::time::Instant;
use url::form_urlencoded;
use uuid::Uuid;

use super::callback::{Callback, CallbackPage};
use super::copilot::DeviceCode;
use super::store::Grant;
use super::{Access, SignInError, codex, copilot, grok};
use crate::{HttpClients, ProviderSettings, Selection, SignIn};

/// Time from the beginning of a login in the browser to its end.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A login that waits for the operator. It is one attempt: the first answer ends it.
#[derive(Debug)]
pub struct PendingLogin {
    access: Access,
    deadline: Instant,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Browser {
        address: String,
        callback: Callback,
        state: Secret,
        verifier: Secret,
    },
    Device(DeviceCode),
}

/// Begins the login at a provider.
///
/// # Errors
/// Returns [`SignInError`] if the provider has no login, or its login server does not answer.
pub async fn begin_login(
    selection: &Selection,
    settings: &ProviderSettings,
    http: Arc<HttpClients>,
) -> Result<PendingLogin, SignInError> {
    let access = access(selection, settings, http)?;
    let (life, step) = match access.sign_in {
        SignIn::Codex => {
            // Another login server may accept any port.
            let is_own = access.server.as_str().trim_end_matches('/') == codex::SERVER;
            let port = if is_own { codex::CALLBACK_PORT } else { 0 };
            let step = browser(codex::PAGE, port, |redirect, state, verifier| {
                codex::authorization(&access.server, redirect, state, verifier)
            });
            (TIME_LIMIT, step.await)
        }
        SignIn::Grok => {
            let nonce = random();
            let step = browser(grok::PAGE, 0, |redirect, state, verifier| {
                grok::authorization(&access.server, redirect, state, nonce.expose(), verifier)
            });
            (TIME_LIMIT, step.await)
        }
        SignIn::Copilot => {
            let code = copilot::device_code(&access.http, &access.server).await?;
            (code.life(), Step::Device(code))
        }
    };
    Ok(PendingLogin {
        access,
        deadline: Instant::now() + life,
        step,
    })
}

/// Begins a login in the browser. `authorization` returns its address for a redirect address, a
/// state and a verifier.
async fn browser(
    page: CallbackPage,
    port: u16,
    authorization: impl FnOnce(&str, &str, &Secret) -> Url,
) -> Step {
    let callback = Callback::listen(page, port).await;
    let (state, verifier) = (random(), random());
    let address = authorization(&callback.address(), state.expose(), &verifier);
    Step::Browser {
        address: address.to_string(),
        callback,
        state,
        verifier,
    }
}

/// Removes the tokens of a provider. Returns `true` if there were some.
///
/// # Errors
/// Returns [`SignInError`] if the provider has no login, or the tokens cannot be removed.
pub async fn logout(
    selection: &Selection,
    settings: &ProviderSettings,
    http: Arc<HttpClients>,
) -> Result<bool, SignInError> {
    let access = access(selection, settings, http)?;
    access.file.lock().await?.remove().await
}

fn access(
    selection: &Selection,
    settings: &ProviderSettings,
    http: Arc<HttpClients>,
) -> Result<Access, SignInError> {
    let http = settings.http(&selection.name, http);
    let found = http.and_then(|http| Access::of(selection, settings, http));
    found.map_err(|error| SignInError::None(error.to_string()))
}

impl PendingLogin {
    /// Returns the address that the operator opens in a browser.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.step {
            Step::Browser { address, .. } => address,
            Step::Device(code) => &code.verification_uri,
        }
    }

    /// Returns the code to enter at the address, if there is one.
    #[must_use]
    pub fn user_code(&self) -> Option<&str> {
        match &self.step {
            Step::Browser { .. } => None,
            Step::Device(code) => Some(&code.user_code),
        }
    }

    /// `true` if the browser's last page cannot reach this program, so that its address has to be
    /// pasted.
    #[must_use]
    pub fn must_be_pasted(&self) -> bool {
        matches!(&self.step, Step::Browser { callback, .. } if callback.is_taken())
    }

    /// Waits for the browser's answer, or for its address or code from `pasted`, and stores the
    /// tokens. A future that ends with `None` is ignored, and so is `pasted` for a login with a code
    /// to enter. Dropping it ends the login.
    ///
    /// # Errors
    /// Returns [`SignInError`] if the answer is not to this login, the login was refused or not
    /// completed in time, or the tokens cannot be stored.
    pub async fn finish(
        self,
        pasted: impl Future<Output = Option<String>>,
    ) -> Result<(), SignInError> {
        let grant = tokio::time::timeout_at(self.deadline, self.grant(pasted)).await;
        let grant = grant.unwrap_or_else(|_elapsed| Err(failed("it was not completed in time")))?;
        self.access.file.lock().await?.write(&grant).await
    }

    async fn grant(
        &self,
        pasted: impl Future<Output = Option<String>>,
    ) -> Result<Grant, SignInError> {
        let Access { http, server, .. } = &self.access;
        Ok(match &self.step {
            Step::Device(code) => copilot::wait(http, server, code).await?,
            Step::Browser {
                callback,
                state,
                verifier,
                ..
            } => {
                let code = code(&answer(callback, pasted).await, state)?;
                let redirect = callback.address();
                match self.access.sign_in {
                    SignIn::Grok => {
                        grok::exchange(http, server, &redirect, &code, verifier).await?
                    }
                    _ => codex::exchange(http, server, &redirect, &code, verifier).await?,
                }
            }
        })
    }
}

/// The answer of a login in the browser.
enum LoginAnswer {
    /// The query of its last page.
    Query(String),
    /// A code alone, pasted.
    Code(String),
}

async fn answer(callback: &Callback, pasted: impl Future<Output = Option<String>>) -> LoginAnswer {
    let pasted = async {
        match pasted.await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        query = callback.query() => LoginAnswer::Query(query),
        line = pasted => parse_pasted(line.trim()),
    }
}

/// Reads what the operator pasted: the address of the last page, its query, or the code alone, with
/// the state after `#` or without it.
fn parse_pasted(line: &str) -> LoginAnswer {
    if let Some((_, query)) = line.split_once('?') {
        let query = query.split('#').next().unwrap_or_default();
        return LoginAnswer::Query(query.to_owned());
    }
    if line.contains("code=") {
        return LoginAnswer::Query(line.to_owned());
    }
    match line.split_once('#') {
        Some((code, state)) => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            let query = query.extend_pairs([("code", code), ("state", state)]);
            LoginAnswer::Query(query.finish())
        }
        None => LoginAnswer::Code(line.to_owned()),
    }
}

/// Checks an answer and returns its code. A code alone was pasted by the operator, and PKCE binds
/// it to this login.
fn code(answer: &LoginAnswer, state: &Secret) -> Result<Secret, SignInError> {
    let query = match answer {
        LoginAnswer::Query(query) => query,
        LoginAnswer::Code(code) if code.is_empty() => return Err(failed("the answer has no code")),
        LoginAnswer::Code(code) => return Ok(Secret::new(code.as_str())),
    };
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.into_owned())
    };
    if !state.is(value("state").unwrap_or_default().as_bytes()) {
        return Err(failed("the answer does not belong to this login"));
    }
    if let Some(error) = value("error") {
        let text: String = error
            .chars()
            .filter(|c| !c.is_control())
            .take(100)
            .collect();
        return Err(failed(&format!("it was refused: {text}")));
    }
    let code = value("code").filter(|code| !code.is_empty());
    code.map(Secret::new)
        .ok_or_else(|| failed("the answer has no code"))
}

/// Returns 64 hexadecimal digits with 244 random bits of the operating system.
fn random() -> Secret {
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    Secret::new(format!("{}{}", first.simple(), second.simple()))
}

fn failed(text: &str) -> SignInError {
    SignInError::Failed(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pasted_answer_is_an_address_a_query_or_a_code() {
        let state = Secret::new("s");
        let table = [
            (
                "http://localhost:1455/auth/callback?code=c&state=s",
                Ok("c"),
            ),
            (
                "http://localhost:1455/auth/callback?code=c&state=s#x",
                Ok("c"),
            ),
            ("code=c&state=s", Ok("c")),
            ("c#s", Ok("c")),
            ("c", Ok("c")),
            ("c#other", Err("does not belong")),
            (
                "http://localhost:1455/auth/callback?code=c",
                Err("does not belong"),
            ),
            ("http://x/?state=s", Err("no code")),
            (
                "http://x/?state=s&error=access_denied&code=c",
                Err("access_denied"),
            ),
            ("", Err("no code")),
        ];
        for (line, expected) in table {
            let found = code(&parse_pasted(line), &state);
            match expected {
                Ok(expected) => assert_eq!(found.unwrap().expose(), expected, "{line}"),
                Err(text) => assert!(found.unwrap_err().to_string().contains(text), "{line}"),
            }
        }
    }
}
