//! Calls of the open API, and uploads through the older one.
//!
//! Of answers only what is needed is read: a message that was accepted must not look refused
//! because DingTalk added a field.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::retry_after;
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::{FILE_TIMEOUT, RestAnswer};
use nanobot_channel_kit::{Downloads, IpNet, Rest, TokenCache, lifetime};
use reqwest::multipart::Form;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::{API_BASE, OAPI_BASE};
use crate::error::{CallError, Refusal, from_code};
use crate::verdict::Verdict;
use crate::wire::MESSAGE_TOPIC;
use crate::{DingTalkConfig, Secret};

/// The header that carries the access token.
const TOKEN_HEADER: &str = "x-acs-dingtalk-access-token";

/// The two APIs and the credentials to use them with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    uploads: Rest,
    downloads: Downloads,
    /// The Client ID, which is the code of the robot, too.
    pub(crate) client_id: String,
    client_secret: Secret,
    token: TokenCache,
}

/// The address of a new connection. The ticket is as good as a token for a while.
#[derive(Debug, Deserialize)]
pub(crate) struct Connection {
    endpoint: String,
    ticket: Secret,
}

impl Connection {
    /// Returns the address with the ticket; `None` if the address is not usable.
    pub(crate) fn address(&self) -> Option<Url> {
        let mut address = Url::parse(&self.endpoint).ok()?;
        address
            .query_pairs_mut()
            .append_pair("ticket", self.ticket.expose_exact());
        Some(address)
    }
}

impl Api {
    /// Creates the API by its configuration. Does no I/O.
    pub(crate) fn new(
        config: &DingTalkConfig,
        shared_proxy: Option<&str>,
        opened: &[IpNet],
    ) -> Result<Self, ChannelError> {
        let own_proxy = config.proxy.as_ref().map(Secret::expose);
        let rest = |base: &str, example| {
            let proxy = ProxyMode::new(own_proxy, shared_proxy)?;
            let rest = Rest::new(base, example, proxy, config.request_timeout())?;
            Ok::<_, ChannelError>(rest.redacting(&config.client_secret))
        };
        let uploads = rest(config.oapi_base(), OAPI_BASE).map_err(|error| match error {
            ChannelError::Config { key, message } if key == "apiBase" => ChannelError::Config {
                key: "oapiBase".to_owned(),
                message,
            },
            error => error,
        })?;
        let downloads = Downloads::new(
            rest(config.api_base(), API_BASE)?,
            own_proxy.or(shared_proxy),
            opened,
        );
        Ok(Self {
            rest: rest(config.api_base(), API_BASE)?,
            downloads: downloads.with_origin(uploads.base()),
            uploads,
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            token: TokenCache::default(),
        })
    }

    /// Drops the clients and their connections: later requests open new ones.
    pub(crate) fn renew(&self) {
        self.rest.renew();
        self.uploads.renew();
        self.downloads.renew();
    }

    /// Makes a call and returns its answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, CallError> {
        let answer = self
            .authorized(|token| {
                let method = method.clone();
                async move {
                    let request = self.rest.request(method, path)?.json(body);
                    let request = request.header(TOKEN_HEADER, token.expose_exact());
                    self.judged(request, Some(&token)).await
                }
            })
            .await?;
        self.rest.read(&answer.body)
    }

    /// Uploads a form, which `form` creates for each attempt.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        kind: &str,
        form: impl Fn() -> Form,
    ) -> Result<T, CallError> {
        let answer = self.authorized(|token| {
            let form = form();
            async move {
                let mut address = self.uploads.address("media/upload")?;
                address
                    .query_pairs_mut()
                    .append_pair("access_token", token.expose_exact())
                    .append_pair("type", kind);
                let timeout = self.uploads.timeout() + FILE_TIMEOUT;
                let request = self.uploads.request_to(Method::POST, address)?;
                let request = request.timeout(timeout).multipart(form);
                self.judged(request, Some(&token)).await
            }
        });
        self.rest.read(&answer.await?.body)
    }

    /// Begins a download from an address that DingTalk gave. The token does not go along.
    pub(crate) async fn download(&self, address: Url) -> Result<Response, CallError> {
        self.downloads.begin(&self.rest, address).await
    }

    /// Asks for the address of a new connection.
    pub(crate) async fn open_connection(&self) -> Result<Connection, CallError> {
        let body = json!({
            "clientId": self.client_id, "clientSecret": self.client_secret.expose_exact(),
            "subscriptions": [{"type": "CALLBACK", "topic": MESSAGE_TOPIC}],
            "ua": concat!("nanobot/", env!("CARGO_PKG_VERSION")),
        });
        let path = "v1.0/gateway/connections/open";
        let request = self.rest.request(Method::POST, path)?.json(&body);
        let answer = self.judged(request, None).await?;
        self.rest.read(&answer.body)
    }

    /// Checks the credentials.
    pub(crate) async fn check_credentials(&self) -> Result<(), CallError> {
        self.fetch_token().await.map(drop)
    }

    /// Makes a call with a token, and once more with a new token if that was refused.
    async fn authorized<T, F>(&self, call: impl Fn(Secret) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        // Fetching a token changes nothing, so its failure is never ambiguous.
        let token = || async {
            let token = self.token.get(self.fetch_token()).await;
            token.map_err(CallError::unambiguous)
        };
        let first = token().await?;
        match call(first.clone()).await {
            Err(error) if error.is(Refusal::is_about_the_token) => {
                tracing::debug!(%error, "the access token was refused; a new one is fetched");
                self.token.drop_refused(&first).await;
                call(token().await?).await
            }
            outcome => outcome,
        }
    }

    async fn fetch_token(&self) -> Result<(Secret, Duration), CallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Granted {
            access_token: Secret,
            #[serde(default, deserialize_with = "lifetime")]
            expire_in: Duration,
        }
        let body =
            json!({"appKey": self.client_id, "appSecret": self.client_secret.expose_exact()});
        let path = "v1.0/oauth2/accessToken";
        let request = self.rest.request(Method::POST, path)?.json(&body);
        let answer = self.judged(request, None).await?;
        let granted: Granted = self.rest.read(&answer.body)?;
        Ok((granted.access_token, granted.expire_in))
    }

    /// Sends a request. Returns an error unless the call was made.
    async fn judged(
        &self,
        request: RequestBuilder,
        token: Option<&Secret>,
    ) -> Result<RestAnswer, CallError> {
        let answer = self.rest.answer(request).await?;
        let verdict: Verdict = match self.rest.read(&answer.body) {
            Err(_) if answer.status == StatusCode::TOO_MANY_REQUESTS => Verdict::default(),
            Err(_) if !answer.status.is_success() => {
                return Err(Rest::intermediary_error("DingTalk", answer.status));
            }
            verdict => verdict?,
        };
        let Some(code) = verdict.refusal(answer.status) else {
            return Ok(answer);
        };
        if code.is_empty()
            && answer.status != StatusCode::TOO_MANY_REQUESTS
            && !answer.status.is_success()
        {
            return Err(Rest::intermediary_error("DingTalk", answer.status));
        }
        let text = self.rest.scrub(verdict.text());
        let text = token.map_or(text.clone(), |token| token.scrub(&text));
        let pause = retry_after(&answer.headers);
        Err(from_code(answer.status, &code, &text, pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_is_encoded_and_not_shown() {
        let connection: Connection = serde_json::from_value(json!({
            "endpoint": "wss://x.test:443/connect", "ticket": "a+b&c d",
        }))
        .unwrap();
        assert_eq!(
            connection.address().unwrap().as_str(),
            "wss://x.test/connect?ticket=a%2Bb%26c+d"
        );
        assert!(!format!("{connection:?}").contains("a+b"));
        let odd = Connection {
            endpoint: "no address".to_owned(),
            ticket: Secret::new("t"),
        };
        assert!(odd.address().is_none());
    }
}
