//! Access tokens for providers that take no passwords (RFC 6749, section 6).
//!
//! Decision: a token is requested when one is needed, used until shortly before it expires, and
//! requested again when a server refuses it. Some providers rotate the refresh token, which makes
//! the one before it invalid: the new one is kept in a note, with a fingerprint of the configured
//! one, so that a newly configured token wins. The note is read before every use, because another
//! process may use the same mailbox and rotate the token.
//!
//! It does not get the first refresh token, which a person has to agree to in a browser.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, Notes, Value, json};
use nanobot_channel_kit::http::{self, Failure, ProxyMode, body_within};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use crate::error::{MailError, shortened};
use crate::proxy::is_loopback;
use crate::thread::fingerprint;
use crate::tls::Trust;
use crate::{EmailConfig, Secret};

/// The note with a rotated refresh token.
const NOTE: &str = "refresh-token";
/// Time before expiry at which a token is replaced, at most half of its lifetime.
const MARGIN: Duration = Duration::from_secs(60);
/// Lifetime of a token without a stated one, in seconds.
const DEFAULT_LIFETIME: u64 = 3600;
/// Maximum length of an answer, in bytes.
const MAX_ANSWER_SIZE: u64 = 256 << 10;

/// Provides access tokens.
pub(crate) struct AccessTokens {
    config: Arc<EmailConfig>,
    url: Url,
    proxy: ProxyMode,
    client: OnceCell<Client>,
    /// One request at a time: two would use one refresh token twice.
    permit: Semaphore,
    state: Mutex<TokenState>,
}

#[derive(Default)]
struct TokenState {
    access: Option<(Secret, Instant)>,
    /// The refresh token that replaces the configured one.
    rotated: Option<Secret>,
    /// `true` if `rotated` is not in the note yet.
    is_unwritten: bool,
    /// The notes; a channel that was made without them gets them when it runs.
    notes: Option<Arc<dyn Notes>>,
}

/// A token, for one login.
#[derive(Clone, Debug)]
pub(crate) struct AccessToken {
    pub(crate) token: Secret,
    /// `true` if it was issued for this login, so that another one would be no better.
    is_fresh: bool,
}

/// The form of the note.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct RefreshTokenNote {
    /// Fingerprint of the configured token that it replaces.
    instead_of: String,
    refresh_token: String,
}

/// An answer of the provider.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: Option<String>,
    /// A number, for some a text.
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<String>,
    error: Option<String>,
    #[serde(default)]
    error_description: String,
}

impl AccessTokens {
    /// Tokens for a configuration whose `auth` is `oauth2`. Sends no request yet.
    pub(crate) fn new(
        config: &Arc<EmailConfig>,
        proxy: ProxyMode,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Self, ChannelError> {
        let url = config.token_url()?;
        let is_loopback = url
            .host_str()
            .is_some_and(|host| is_loopback(host.trim_matches(['[', ']'])));
        Ok(Self {
            url,
            config: Arc::clone(config),
            proxy: if is_loopback {
                ProxyMode::Direct
            } else {
                proxy
            },
            client: OnceCell::new(),
            permit: Semaphore::new(1),
            state: Mutex::new(TokenState {
                notes,
                ..TokenState::default()
            }),
        })
    }

    /// Sets the notes of a running channel.
    pub(crate) async fn set_notes(&self, notes: &Arc<dyn Notes>) -> Result<(), MailError> {
        self.with(|state| state.notes = Some(Arc::clone(notes)));
        self.refresh_token().await.map(drop)
    }

    /// Returns the latest refresh token.
    async fn refresh_token(&self) -> Result<Secret, MailError> {
        let (notes, rotated, is_unwritten) = self.with(|state| {
            (
                state.notes.clone(),
                state.rotated.clone(),
                state.is_unwritten,
            )
        });
        let known = rotated.as_ref().unwrap_or(&self.config.oauth_refresh_token);
        let Some(notes) = notes else {
            return Ok(known.clone());
        };
        if is_unwritten {
            self.store_refresh_token(known).await;
            return Ok(known.clone());
        }
        let noted = notes.read(NOTE).await.map_err(MailError::Notes)?;
        let noted: Option<RefreshTokenNote> =
            noted.and_then(|text| serde_json::from_str(&text).ok());
        let noted = noted
            .filter(|note| note.instead_of == self.configured_fingerprint())
            .map(|note| Secret::new(note.refresh_token));
        Ok(noted.unwrap_or_else(|| known.clone()))
    }

    /// Returns an access token that has not expired.
    pub(crate) async fn access(&self, trust: &Trust) -> Result<AccessToken, MailError> {
        // It is never closed.
        let _permit = self.permit.acquire().await.ok();
        let now = Instant::now();
        let known = self
            .with(|state| state.access.clone())
            .filter(|(_, until)| now < *until);
        if let Some((token, _)) = known {
            return Ok(AccessToken {
                token,
                is_fresh: false,
            });
        }
        let mut refresh = self.refresh_token().await?;
        let mut answer = self.request_token_within_limit(&refresh, trust).await;
        if matches!(answer, Err(MailError::TokenRefused { .. })) {
            // Another process may have used it meanwhile.
            let latest = self.refresh_token().await?;
            if latest != refresh {
                refresh = latest;
                answer = self.request_token_within_limit(&refresh, trust).await;
            }
        }
        let answer = answer?;
        let token = Secret::new(answer.access_token.unwrap_or_default());
        let lasts = answer
            .expires_in
            .as_u64()
            .or_else(|| answer.expires_in.as_str()?.parse().ok())
            .unwrap_or(DEFAULT_LIFETIME);
        let lasts = Duration::from_secs(lasts);
        let until = now
            + lasts
                .saturating_sub(MARGIN)
                .max(lasts / 2)
                .min(Duration::from_secs(24 * DEFAULT_LIFETIME));
        let next = answer
            .refresh_token
            .map(Secret::new)
            .filter(|next| !next.expose().is_empty() && *next != refresh);
        self.with(|state| {
            state.access = Some((token.clone(), until));
            if next.is_some() {
                state.rotated.clone_from(&next);
                state.is_unwritten = true;
            }
        });
        if let Some(next) = next {
            self.store_refresh_token(&next).await;
        }
        Ok(AccessToken {
            token,
            is_fresh: true,
        })
    }

    /// Drops a token that a server refused. `true` if a new one may be accepted.
    pub(crate) fn invalidate(&self, refused: &AccessToken) -> bool {
        self.with(|state| {
            if state
                .access
                .as_ref()
                .is_some_and(|(token, _)| *token == refused.token)
            {
                state.access = None;
            }
        });
        !refused.is_fresh
    }

    async fn request_token_within_limit(
        &self,
        refresh: &Secret,
        trust: &Trust,
    ) -> Result<TokenAnswer, MailError> {
        let limit = self.config.request_timeout();
        let answer = tokio::time::timeout(limit, self.request_token(refresh, trust)).await;
        answer.unwrap_or(Err(MailError::Slow {
            doing: "getting an access token",
            seconds: limit.as_secs(),
        }))
    }

    async fn request_token(
        &self,
        refresh: &Secret,
        trust: &Trust,
    ) -> Result<TokenAnswer, MailError> {
        let client = self.client.get_or_try_init(|| self.client(trust)).await?;
        let EmailConfig {
            oauth_client_id,
            oauth_client_secret,
            oauth_scope,
            ..
        } = self.config.as_ref();
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
            ("client_id", oauth_client_id.trim()),
            ("client_secret", oauth_client_secret.expose()),
            ("scope", oauth_scope.trim()),
        ];
        let mut form = self.url.clone();
        form.set_query(None);
        form.query_pairs_mut()
            .extend_pairs(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        let request = client
            .post(self.url.clone())
            .header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let scrub = |text: &str| refresh.scrub(&self.config.scrub(text));
        let failed = |error| MailError::Tokens {
            text: scrub(&shortened(&Failure::from(error).text)),
        };
        let response = request
            .body(form.query().unwrap_or_default().to_owned())
            .send()
            .await
            .map_err(failed)?;
        let status = response.status();
        let body = body_within(response, MAX_ANSWER_SIZE)
            .await
            .map_err(failed)?
            .unwrap_or_default();
        let answer: Option<TokenAnswer> = json::from_slice(&body).ok();
        match answer {
            Some(answer) if status.is_success() && answer.access_token.is_some() => Ok(answer),
            Some(TokenAnswer {
                error: Some(code),
                error_description,
                ..
            }) if status.is_client_error() => {
                let said = [code.as_str(), &error_description]
                    .into_iter()
                    .filter(|text| !text.is_empty());
                Err(self.refusal(
                    &code,
                    &scrub(&shortened(&said.collect::<Vec<_>>().join(": "))),
                ))
            }
            _ => Err(MailError::Tokens {
                text: format!("{status}, and no token"),
            }),
        }
    }

    /// Maps an error of the provider (RFC 6749, section 5.2).
    fn refusal(&self, code: &str, text: &str) -> MailError {
        let (advice, is_known) = match code {
            "temporarily_unavailable" | "server_error" | "slow_down" => {
                return MailError::Tokens {
                    text: text.to_owned(),
                };
            }
            "invalid_grant" => {
                let advice = "the provider does not take oauthRefreshToken (any more): get a new one and write it there";
                // Without notes, a rotated token may be unknown here.
                (advice, self.with(|state| state.notes.is_some()))
            }
            "invalid_client" | "unauthorized_client" => (
                "the provider does not know the program: look at oauthClientId and oauthClientSecret",
                true,
            ),
            _ => (
                "the provider gives no access token: look at oauthTokenUrl, oauthClientId and oauthScope",
                true,
            ),
        };
        MailError::TokenRefused {
            advice,
            text: text.to_owned(),
            is_known,
        }
    }

    async fn client(&self, trust: &Trust) -> Result<Client, MailError> {
        let settings = rustls::ClientConfig::clone(trust.settings().await?.as_ref());
        let client = http::client(&self.proxy)
            .tls_backend_preconfigured(settings)
            .build();
        client.map_err(|error| MailError::Tokens {
            text: Failure::from(error).text,
        })
    }

    async fn store_refresh_token(&self, rotated: &Secret) {
        let Some(notes) = self.with(|state| state.notes.clone()) else {
            return;
        };
        let note = RefreshTokenNote {
            instead_of: self.configured_fingerprint(),
            refresh_token: rotated.expose().to_owned(),
        };
        let written = match serde_json::to_string(&note) {
            Ok(text) => notes
                .write(NOTE, &text)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match written {
            Ok(()) => self.with(|state| state.is_unwritten = false),
            Err(error) => tracing::error!(
                error,
                "the new refresh token could not be kept; after a restart the provider may want a new login"
            ),
        }
    }

    /// Returns the fingerprint of the configured token.
    fn configured_fingerprint(&self) -> String {
        format!(
            "{:032x}",
            fingerprint(self.config.oauth_refresh_token.expose())
        )
    }

    fn with<R>(&self, act: impl FnOnce(&mut TokenState) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("url", &self.url.host_str())
            .finish_non_exhaustive()
    }
}
