//! Identity of this program at an authorization server: configured, or registered for one login
//! (RFC 7591).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use nanobot_redact::{Secret, serialize_exposed};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::{Url, form_urlencoded};

use super::fetch::{Body, Fetcher};
use super::metadata::Issuer;
use crate::McpError;
use crate::config::McpOAuthConfig;

/// A client of an authorization server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OAuthClient {
    pub(super) id: String,
    /// Empty for a client without one.
    #[serde(default, serialize_with = "serialize_exposed")]
    pub(super) secret: Secret,
    pub(super) method: AuthMethod,
}

/// How a client proves its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum AuthMethod {
    /// It has no secret: PKCE protects the exchange.
    None,
    /// By HTTP basic authentication.
    Basic,
    /// By a field of the request.
    Post,
}

impl OAuthClient {
    /// Returns the configured client, or registers one.
    ///
    /// # Errors
    /// Returns [`McpError::Authorization`] if there is neither.
    pub(super) async fn of(
        config: &McpOAuthConfig,
        issuer: &Issuer,
        fetcher: &Fetcher,
        redirect: &str,
        scopes: &str,
    ) -> Result<Self, McpError> {
        let id = config.client_id.trim();
        if id.is_empty() {
            return register(issuer, fetcher, redirect, scopes).await;
        }
        let secret = Secret::new(config.client_secret.clone());
        let methods = issuer.token_endpoint_auth_methods_supported.as_deref();
        let has = |wanted: &str| methods.unwrap_or_default().iter().any(|one| one == wanted);
        let method = match secret.expose().is_empty() {
            true => AuthMethod::None,
            false if !has("client_secret_basic") && has("client_secret_post") => AuthMethod::Post,
            false => AuthMethod::Basic,
        };
        Ok(Self {
            id: id.to_owned(),
            secret,
            method,
        })
    }

    /// Adds the proof of identity to a request.
    pub(super) fn authenticate<'a>(
        &'a self,
        fields: &mut Vec<(&'a str, &'a str)>,
        headers: &mut HeaderMap,
    ) {
        if self.method != AuthMethod::Basic {
            fields.push(("client_id", &self.id));
        }
        match self.method {
            AuthMethod::None => {}
            AuthMethod::Post => fields.push(("client_secret", self.secret.expose())),
            AuthMethod::Basic => {
                let encode = |text: &str| -> String {
                    form_urlencoded::byte_serialize(text.as_bytes()).collect()
                };
                let pair = format!("{}:{}", encode(&self.id), encode(self.secret.expose()));
                let value = format!("Basic {}", STANDARD.encode(pair));
                if let Ok(mut value) = HeaderValue::try_from(value) {
                    value.set_sensitive(true);
                    headers.insert(header::AUTHORIZATION, value);
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    #[serde(default)]
    client_secret: Secret,
    token_endpoint_auth_method: Option<String>,
}

async fn register(
    issuer: &Issuer,
    fetcher: &Fetcher,
    redirect: &str,
    scopes: &str,
) -> Result<OAuthClient, McpError> {
    let failed = |text: &str| McpError::Authorization(crate::session::short(text));
    let endpoint: &Url = issuer.registration_endpoint.as_ref().ok_or_else(|| {
        failed("the authorization server registers no clients; configure oauth.clientId")
    })?;
    let mut wish = json!({
        "client_name": "nanobot",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    if let (Some(wish), false) = (wish.as_object_mut(), scopes.is_empty()) {
        wish.insert("scope".to_owned(), scopes.into());
    }
    let answer = fetcher
        .send(endpoint, Body::Json(&wish), HeaderMap::new())
        .await?;
    if !answer.status.is_success() {
        let (status, error) = answer.refusal();
        let text = format!("the authorization server refused to register: {status} {error}");
        return Err(failed(&text));
    }
    let registered: Registration = serde_json::from_value(answer.body)
        .map_err(|error| failed(&format!("the registration is unusable: {error}")))?;
    let has_secret = !registered.client_secret.expose().is_empty();
    let method = match (has_secret, registered.token_endpoint_auth_method.as_deref()) {
        (false, _) | (true, Some("none")) => AuthMethod::None,
        (true, Some("client_secret_post")) => AuthMethod::Post,
        (true, _) => AuthMethod::Basic,
    };
    Ok(OAuthClient {
        id: registered.client_id,
        secret: registered.client_secret,
        method,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_proved_in_one_place() {
        let client = |method| OAuthClient {
            id: "a:b".to_owned(),
            secret: Secret::new("s c"),
            method,
        };
        for (method, fields, authorization) in [
            (AuthMethod::None, vec![("client_id", "a:b")], None),
            (
                AuthMethod::Post,
                vec![("client_id", "a:b"), ("client_secret", "s c")],
                None,
            ),
            // "a%3Ab:s+c"
            (AuthMethod::Basic, vec![], Some("Basic YSUzQWI6cytj")),
        ] {
            let (client, mut found, mut headers) = (client(method), Vec::new(), HeaderMap::new());
            client.authenticate(&mut found, &mut headers);
            let header = headers
                .get(header::AUTHORIZATION)
                .map(|value| value.to_str().unwrap());
            assert_eq!((found, header), (fields, authorization), "{method:?}");
        }
    }
}
