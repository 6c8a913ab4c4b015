//! Discovery: the metadata of the resource (RFC 9728) and of its authorization server (RFC 8414).
//!
//! Decision: metadata that is not about the thing it was asked for is refused, because one server
//! could otherwise obtain tokens for another one. A server without resource metadata, as before the
//! specification of 2025-06-18, is its own issuer at its origin. PKCE with S256 is required.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::challenge::parameter;
use super::fetch::{Body, Fetcher};
use crate::McpError;

/// What a login needs to know about a server.
#[derive(Debug)]
pub(super) struct Discovery {
    pub(super) issuer: Issuer,
    /// The resource parameter (RFC 8707).
    pub(super) resource: String,
    /// Scopes that the server asks for, separated by blanks; empty without any.
    pub(super) scopes: String,
}

/// Metadata of an authorization server.
#[derive(Debug, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    /// `true` if answers name their issuer (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Metadata of a resource.
#[derive(Debug, Deserialize)]
struct Resource {
    resource: Url,
    #[serde(default)]
    authorization_servers: Vec<Url>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Asks a server how it is authorized. `headers` are those that the operator configured for it.
///
/// # Errors
/// Returns [`McpError::Authorization`] if the server does not say it, or what it says is
/// contradictory, and [`McpError::Url`] if it names an address that is refused.
pub(super) async fn discover(fetcher: &Fetcher, headers: HeaderMap) -> Result<Discovery, McpError> {
    let challenge = challenge(fetcher, headers).await?;
    let wanted = |name| challenge.as_deref().and_then(|all| parameter(all, name));
    let found = match wanted("resource_metadata") {
        Some(address) => {
            let address = Url::parse(&address);
            let address = address.map_err(|_unusable| failed("its resource_metadata is no URL"))?;
            let found = fetcher.document(&address).await?;
            Some(found.ok_or_else(|| failed("its resource metadata does not exist"))?)
        }
        None => {
            first(
                fetcher,
                well_known(fetcher.server(), "oauth-protected-resource"),
            )
            .await?
        }
    };
    let Some(found) = found else {
        let origin = fetcher
            .server()
            .join("/")
            .unwrap_or_else(|_| fetcher.server().clone());
        let mut resource = fetcher.server().clone();
        resource.set_fragment(None);
        return Ok(Discovery {
            issuer: issuer(fetcher, &origin).await?,
            resource: resource.into(),
            scopes: wanted("scope").unwrap_or_default(),
        });
    };
    let spelled = found
        .get("resource")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let resource: Resource = read(found, "resource metadata")?;
    if !covers(&resource.resource, fetcher.server()) {
        return Err(failed("its resource metadata is about another resource"));
    }
    let at = resource.authorization_servers.first();
    let at = at.ok_or_else(|| failed("its resource metadata names no authorization server"))?;
    Ok(Discovery {
        issuer: issuer(fetcher, at).await?,
        resource: spelled.unwrap_or_default(),
        scopes: wanted("scope").unwrap_or_else(|| resource.scopes_supported.join(" ")),
    })
}

/// Sends a request without a token and returns the challenge, if the server has one.
async fn challenge(fetcher: &Fetcher, headers: HeaderMap) -> Result<Option<String>, McpError> {
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "nanobot", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let mut with_types = headers.clone();
    let accepted = http::HeaderValue::from_static("application/json, text/event-stream");
    with_types.insert(http::header::ACCEPT, accepted);
    let answer = fetcher
        .send(
            fetcher.server(),
            Body::Json(&initialize),
            with_types.clone(),
        )
        .await?;
    if answer.challenge.is_some() {
        return Ok(answer.challenge);
    }
    // The older transport accepts no POST at its address.
    let answer = fetcher
        .send(fetcher.server(), Body::None, with_types)
        .await?;
    Ok(answer.challenge)
}

async fn issuer(fetcher: &Fetcher, at: &Url) -> Result<Issuer, McpError> {
    let mut places = well_known(at, "oauth-authorization-server");
    places.truncate(1);
    places.extend(well_known(at, "openid-configuration").into_iter().take(1));
    let path = at.path().trim_end_matches('/');
    if !path.is_empty() {
        places.extend(
            at.join(&format!("{path}/.well-known/openid-configuration"))
                .ok(),
        );
    }
    let found = first(fetcher, places).await?;
    let found = found.ok_or_else(|| failed("it names no authorization server"))?;
    let issuer: Issuer = read(found, "authorization server metadata")?;
    if issuer.issuer.trim_end_matches('/') != at.as_str().trim_end_matches('/') {
        return Err(failed(
            "the authorization server metadata is of another issuer",
        ));
    }
    if !issuer
        .code_challenge_methods_supported
        .iter()
        .any(|one| one == "S256")
    {
        return Err(failed(
            "the authorization server does not support PKCE with S256",
        ));
    }
    if !fetcher.is_for_people(&issuer.authorization_endpoint) {
        return Err(failed("the authorization endpoint is not safe to open"));
    }
    Ok(issuer)
}

/// Returns the addresses of a well-known document: with the path of `url`, and without it.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let with_path = url.join(&format!("/.well-known/{name}{path}"));
    let without = url.join(&format!("/.well-known/{name}"));
    let mut places: Vec<Url> = with_path.into_iter().chain(without).collect();
    for place in &mut places {
        place.set_query(None);
        place.set_fragment(None);
    }
    places.dedup();
    places
}

/// Returns the first document that exists.
async fn first(fetcher: &Fetcher, places: Vec<Url>) -> Result<Option<Value>, McpError> {
    for place in places {
        if let Some(found) = fetcher.document(&place).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// `true` if a resource is the server or a part of its path.
fn covers(resource: &Url, server: &Url) -> bool {
    let (resource_path, path) = (resource.path().trim_end_matches('/'), server.path());
    let rest = path.strip_prefix(resource_path);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read<T: serde::de::DeserializeOwned>(document: Value, what: &str) -> Result<T, McpError> {
    serde_json::from_value(document)
        .map_err(|error| failed(&format!("the {what} is unusable: {error}")))
}

fn failed(text: &str) -> McpError {
    McpError::Authorization(crate::session::short(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_the_server_or_a_part_of_its_path() {
        let server = Url::parse("https://mcp.example/team/mcp?x=1").unwrap();
        for (resource, expected) in [
            ("https://mcp.example/team/mcp", true),
            ("https://mcp.example/team/", true),
            ("https://mcp.example", true),
            ("https://mcp.example/te", false),
            ("https://mcp.example/team/mcp/more", false),
            ("https://mcp.example:8443/team/mcp", false),
            ("http://mcp.example/team/mcp", false),
            ("https://evil.example/team/mcp", false),
        ] {
            let found = covers(&Url::parse(resource).unwrap(), &server);
            assert_eq!(found, expected, "{resource}");
        }
    }

    #[test]
    fn well_known_documents_are_between_host_and_path() {
        for (url, expected) in [
            ("https://a.example", vec!["https://a.example/.well-known/x"]),
            (
                "https://a.example/",
                vec!["https://a.example/.well-known/x"],
            ),
            (
                "https://a.example/b/c/?d=e#f",
                vec![
                    "https://a.example/.well-known/x/b/c",
                    "https://a.example/.well-known/x",
                ],
            ),
        ] {
            let found = well_known(&Url::parse(url).unwrap(), "x");
            assert_eq!(
                found.iter().map(Url::as_str).collect::<Vec<_>>(),
                expected,
                "{url}"
            );
        }
    }
}
