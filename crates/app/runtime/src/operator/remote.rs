//! The gateway of a home, as other commands of the same person see and end it.

use std::time::Duration;

use nanobot_config::Config;
use nanobot_control::{About, ChannelState, ControlClient, ControlError};
use nanobot_state::{Holder, HomeLock};
use tokio::time::Instant;

use crate::{RuntimeError, control_socket};

/// The time that the owner of a home has to answer, which one that is starting needs. A command that
/// works on the files holds the lock, too, but not for long.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often is looked whether it ended or began.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Connects to the gateway that owns the home; `None` when no process owns it.
///
/// Decision: the home's lock says that there is a gateway, the socket only lets it answer. A gateway
/// that hangs, starts slowly or has no socket still owns its files, so a command without an answer
/// refuses. Where the system has no such sockets, commands work on the files.
///
/// # Errors
/// [`RuntimeError::Silent`] when the owner does not answer, [`RuntimeError::State`] when the lock
/// cannot be looked at.
pub(crate) async fn connect(config: &Config) -> Result<Option<ControlClient>, RuntimeError> {
    let (socket, home) = (control_socket(config), &config.paths().data_dir);
    let begun = Instant::now();
    loop {
        let why = match ControlClient::reach(&socket).await {
            Ok(client) => return Ok(Some(client)),
            Err(ControlError::Unsupported) => return Ok(None),
            Err(error) => error,
        };
        let Some(Holder { pid }) = HomeLock::holder(home)? else {
            return Ok(None);
        };
        if begun.elapsed() >= ANSWER_WITHIN {
            return Err(RuntimeError::Silent { pid, source: why });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Connects to the gateway that has the configuration's home, if it has the same workspace.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn connect_sharing_workspace(
    config: &Config,
) -> Result<Option<ControlClient>, RuntimeError> {
    let Some(client) = connect(config).await? else {
        return Ok(None);
    };
    let shares_workspace = config
        .workspace()
        .is_ok_and(|workspace| workspace == client.about().workspace);
    if !shares_workspace {
        tracing::debug!("the gateway has another workspace: working on the files");
    }
    Ok(shares_workspace.then_some(client))
}

/// A gateway that answered.
#[derive(Debug)]
pub struct RemoteGateway {
    client: ControlClient,
    socket: std::path::PathBuf,
}

impl RemoteGateway {
    /// The gateway of this home; `None` when none runs.
    ///
    /// # Errors
    /// [`RuntimeError::Silent`] when one runs and does not answer, [`RuntimeError::State`].
    pub async fn reach(config: &Config) -> Result<Option<Self>, RuntimeError> {
        let client = connect(config).await?;
        Ok(client.map(|client| Self {
            client,
            socket: control_socket(config),
        }))
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
            // One that hangs up or is slow to answer is at its end, but not gone.
            while !matches!(
                ControlClient::reach(&self.socket).await,
                Err(ControlError::Unreachable { .. })
            ) {
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nanobot_control::{Answer, Request};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::UnixListener;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// A gateway that answers twice, hangs up on everybody while it ends, and goes.
    async fn dying(listener: UnixListener, socket: PathBuf, is_gone: Arc<AtomicBool>) {
        let about = About {
            version: "1".to_owned(),
            pid: 42,
            model: "a model".to_owned(),
            workspace: PathBuf::from("/w"),
            started_at: None,
        };
        for (request, answer) in [
            (Request::Ping, Answer::Pong(about)),
            (Request::End { again: false }, Answer::Done),
        ] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut asked = String::new();
            stream.read_line(&mut asked).await.unwrap();
            assert_eq!(serde_json::from_str::<Request>(&asked).unwrap(), request);
            let answer = serde_json::to_string(&answer).unwrap() + "\n";
            stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
        }
        for _ in 0..3 {
            drop(listener.accept().await.unwrap());
        }
        is_gone.store(true, Ordering::SeqCst);
        std::fs::remove_file(socket).unwrap();
    }

    #[tokio::test]
    async fn a_gateway_that_hangs_up_while_it_ends_is_not_gone_yet() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("gateway.sock");
        let (listener, is_gone) = (
            UnixListener::bind(&socket).unwrap(),
            Arc::new(AtomicBool::new(false)),
        );
        TaskTracker::new().spawn(dying(listener, socket.clone(), Arc::clone(&is_gone)));
        let gateway = RemoteGateway {
            client: ControlClient::reach(&socket).await.unwrap(),
            socket,
        };
        assert!(gateway.stop(Duration::from_secs(60)).await.unwrap());
        assert!(is_gone.load(Ordering::SeqCst));
    }
}
