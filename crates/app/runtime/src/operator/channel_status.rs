//! State of the configured channels, and whether their platforms accept them.
//!
//! Decision: the running gateway says which channels run; the configuration says which should. The
//! platforms are asked from this process even if a gateway runs, so that the answer is about the
//! current configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{Channel, ChannelError, ChannelName};
use nanobot_control::{ChannelState, ControlClient};
use nanobot_types::Timestamp;
use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::assembly::channels::{ConfiguredChannel, build_all, configured_channels};
use crate::error::chain;
use crate::operator::remote;
use crate::{Runtime, RuntimeError};

/// Maximum time for a platform to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Answer of a platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Probed {
    /// The platform reports the channel's account.
    Accepted {
        /// The account, as the platform names it.
        account: String,
    },
    /// The platform cannot be used.
    Refused {
        /// The reason.
        why: String,
    },
    /// The platform cannot be asked.
    Unsupported,
}

/// State of a configured channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelReport {
    /// Its name.
    pub name: ChannelName,
    /// Its platform.
    pub kind: String,
    /// Set when the channel is enabled.
    pub enabled: bool,
    /// Set when this build has the platform.
    pub known: bool,
    /// `off`; `stopped` if no gateway runs it; otherwise the state that the gateway reports:
    /// `starting`, `running`, `degraded`, `failed`. A channel that cannot be made is `failed` even
    /// without a gateway.
    pub state: String,
    /// The reason, if it is not well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Start of the outage, if it is not well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Answer of its platform, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probed>,
}

impl ChannelReport {
    /// `true` if nothing is known to be wrong with it.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        !matches!(self.state.as_str(), "failed" | "degraded")
            && !matches!(self.probe, Some(Probed::Refused { .. }))
    }
}

impl fmt::Display for ChannelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, kind, state, ..
        } = self;
        write!(f, "{name}")?;
        if name.as_str() != kind {
            write!(f, " ({kind})")?;
        }
        write!(f, ": {state}")?;
        if let Some(since) = self.since {
            write!(
                f,
                " since {}",
                since
                    .with_timezone(&chrono::Local)
                    .format("%Y-%m-%d %H:%M:%S")
            )?;
        }
        if let Some(why) = &self.why {
            write!(f, ", {why}")?;
        }
        match &self.probe {
            None => Ok(()),
            Some(Probed::Accepted { account }) => write!(f, "\n  its platform answers: {account}"),
            Some(Probed::Refused { why }) => write!(f, "\n  asking its platform failed: {why}"),
            Some(Probed::Unsupported) => write!(f, "\n  there is nothing to ask on this platform"),
        }
    }
}

/// Returns the state of all configured channels, ordered by name. With `probe`, the platforms of
/// the enabled ones are asked, all at the same time.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the configuration cannot be used, [`RuntimeError::Silent`]
/// if the gateway does not answer.
pub async fn channels_status(
    runtime: &Runtime,
    probe: bool,
) -> Result<Vec<ChannelReport>, RuntimeError> {
    let gateway = remote::connect(runtime.config()).await?;
    reports(runtime, RunningChannels::of(gateway.as_ref()).await, probe).await
}

/// Does the same as [`channels_status`], with the channels that a gateway reported.
pub(crate) async fn reports(
    runtime: &Runtime,
    running: RunningChannels,
    probe: bool,
) -> Result<Vec<ChannelReport>, RuntimeError> {
    let configured = configured_channels(runtime)?;
    let built = build_all(configured.clone());
    let fault = |name: &ChannelName| {
        built
            .get(name)
            .and_then(|(_, built)| built.as_ref().err().cloned())
    };
    let mut reports: Vec<_> = configured
        .iter()
        .map(|configured| report(configured, &running, fault(&configured.name)))
        .collect();
    if probe {
        let tasks = TaskTracker::new();
        let probes: Vec<_> = configured
            .into_iter()
            .map(|configured| {
                configured
                    .is_enabled
                    .then(|| tasks.spawn(async move { probe_channel(&configured).await }))
            })
            .collect();
        for (report, probes) in reports.iter_mut().zip(probes) {
            let Some(probes) = probes else { continue };
            let ended = |error| Probed::Refused {
                why: format!("asking ended badly: {error}"),
            };
            report.probe = Some(probes.await.unwrap_or_else(ended));
        }
    }
    Ok(reports)
}

/// The running channels.
pub(crate) enum RunningChannels {
    /// No gateway runs.
    Nowhere,
    /// A gateway of another version does not list them.
    Unlisted,
    /// The gateway does not answer.
    Silent,
    /// The states that the gateway reports.
    States(Vec<ChannelState>),
}

impl RunningChannels {
    pub(crate) async fn of(gateway: Option<&ControlClient>) -> Self {
        match gateway {
            Some(gateway) => gateway
                .channels()
                .await
                .map_or(Self::Unlisted, Self::States),
            None => Self::Nowhere,
        }
    }
}

fn report(
    configured: &ConfiguredChannel,
    running: &RunningChannels,
    fault: Option<String>,
) -> ChannelReport {
    let known = configured.is_known();
    let reported = match running {
        RunningChannels::States(states) => states
            .iter()
            .find(|state| state.name == configured.name)
            .cloned(),
        RunningChannels::Nowhere | RunningChannels::Unlisted | RunningChannels::Silent => None,
    };
    let (state, why, since) = match (reported, fault) {
        (
            Some(ChannelState {
                state, why, since, ..
            }),
            _,
        ) => (state, why, since),
        (None, Some(fault)) => ("failed".to_owned(), Some(fault), None),
        (None, None) if configured.is_enabled => {
            let (state, why) = match running {
                RunningChannels::Nowhere => ("stopped", None),
                RunningChannels::Silent => ("unknown", Some("the gateway does not answer")),
                RunningChannels::Unlisted => (
                    "unknown",
                    Some("the gateway is of another version and does not say; restart it"),
                ),
                RunningChannels::States(_) => {
                    ("stopped", Some("the gateway has not taken it up yet"))
                }
            };
            (state.to_owned(), why.map(str::to_owned), None)
        }
        (None, None) => ("off".to_owned(), None, None),
    };
    let ConfiguredChannel {
        name,
        kind,
        is_enabled,
        ..
    } = configured.clone();
    ChannelReport {
        name,
        kind,
        enabled: is_enabled,
        known,
        state,
        why,
        since,
        probe: None,
    }
}

async fn probe_channel(configured: &ConfiguredChannel) -> Probed {
    match configured.channel() {
        Ok(channel) => match probe_account(channel).await {
            Ok(Some(account)) => Probed::Accepted { account },
            Ok(None) => Probed::Unsupported,
            Err(error) => Probed::Refused {
                why: error.to_string(),
            },
        },
        Err(error) => Probed::Refused { why: chain(&error) },
    }
}

/// Asks a channel's platform for the channel's account; `None` if the platform cannot be asked.
pub(crate) async fn probe_account(
    channel: Arc<dyn Channel>,
) -> Result<Option<String>, ChannelError> {
    let Some(probe) = channel.probe() else {
        return Ok(None);
    };
    let timed_out =
        |_| ChannelError::Unavailable(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()));
    tokio::time::timeout(ANSWER_TIMEOUT, probe.probe())
        .await
        .map_err(timed_out)?
        .map(Some)
}

#[cfg(test)]
#[cfg(feature = "email")]
mod tests {
    use nanobot_channel_email_fake::{CLIENT_ID, CLIENT_SECRET, MailFake, REFRESH_TOKEN, USER};
    use nanobot_config::Environment;
    use serde_json::json;

    use super::*;
    use crate::LoadOptions;
    use crate::assembly::runtime::in_environment;

    #[tokio::test]
    async fn status_probe_keeps_the_rotated_refresh_token() {
        let fake = MailFake::start().await.unwrap();
        let provider = fake.token_server().await.unwrap();
        fake.rotate_refresh_tokens();
        let home = tempfile::tempdir().unwrap();
        let email = json!({
            "enabled": true, "consentGranted": true, "fromAddress": "bot@bot.test", "auth": "oauth2",
            "oauthTokenUrl": format!("{}/token", provider.url()), "oauthClientId": CLIENT_ID,
            "oauthClientSecret": CLIENT_SECRET, "oauthRefreshToken": REFRESH_TOKEN,
            "imapHost": "127.0.0.1", "imapPort": fake.imap_port(), "imapUsername": USER,
            "imapUseSsl": false, "imapUseTls": false,
            "smtpHost": "127.0.0.1", "smtpPort": fake.smtp_port(), "smtpUsername": USER, "smtpUseTls": false,
        });
        std::fs::create_dir_all(home.path().join(".nanobot")).unwrap();
        let file = json!({ "channels": { "email": email } }).to_string();
        std::fs::write(home.path().join(".nanobot/config.json"), file).unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        let runtime = in_environment(environment, LoadOptions::default());
        for number in 1..=3 {
            // Every command makes its own channel, as in a process of its own.
            let channel = configured_channels(&runtime)
                .unwrap()
                .remove(0)
                .channel()
                .unwrap();
            assert_eq!(
                channel.probe().unwrap().probe().await.unwrap(),
                "bot@bot.test"
            );
            assert_eq!(fake.access_tokens(), number);
        }
        let kept = std::fs::read_to_string(
            runtime
                .config()
                .paths()
                .channel_notes
                .join("email/refresh-token"),
        )
        .unwrap();
        assert!(kept.contains(&fake.refresh_token().unwrap()), "{kept}");
    }
}
