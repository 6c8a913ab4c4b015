//! The gateway of a home, as other commands of the same person see and end it.

use std::time::Duration;

use nanobot_config::Config;
use nanobot_control::{About, ChannelState, ControlClient};

use crate::{RuntimeError, control_socket};

/// How often is looked whether it ended or began.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A gateway that answered.
#[derive(Debug)]
pub struct RemoteGateway {
    client: ControlClient,
    socket: std::path::PathBuf,
}

impl RemoteGateway {
    /// The gateway of this home, if one runs.
    pub async fn reach(config: &Config) -> Option<Self> {
        let socket = control_socket(config);
        let client = ControlClient::reach(&socket).await.ok()?;
        Some(Self { client, socket })
    }

    /// Who it is.
    #[must_use]
    pub fn about(&self) -> &About {
        self.client.about()
    }

    /// How its channels are.
    ///
    /// # Errors
    /// [`RuntimeError::Control`].
    pub async fn channels(&self) -> Result<Vec<ChannelState>, RuntimeError> {
        Ok(self.client.channels().await?)
    }

    /// Has it end in order. `true` when it has within `patience`.
    ///
    /// # Errors
    /// [`RuntimeError::Control`] when it does not take the request.
    pub async fn stop(&self, patience: Duration) -> Result<bool, RuntimeError> {
        self.client.end(false).await?;
        let gone = async {
            while ControlClient::reach(&self.socket).await.is_ok() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        Ok(tokio::time::timeout(patience, gone).await.is_ok())
    }

    /// Has it end in order and begin again. What began, or nothing where that was not seen within
    /// `patience`.
    ///
    /// # Errors
    /// [`RuntimeError::Control`] when it does not take the request.
    pub async fn restart(&self, patience: Duration) -> Result<Option<About>, RuntimeError> {
        self.client.end(true).await?;
        let began = async {
            loop {
                if let Ok(client) = ControlClient::reach(&self.socket).await
                    && client.about().started_at != self.about().started_at
                {
                    return client.about().clone();
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        Ok(tokio::time::timeout(patience, began).await.ok())
    }
}
