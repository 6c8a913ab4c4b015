//! Connects other commands of the same user to the gateway of a home, and ends or restarts it.

use std::io::Write as _;
use std::time::Duration;

use nanobot_config::Config;
use nanobot_control::{ChannelState, ControlClient, ControlError, GatewayInfo};
use nanobot_state::{HomeLock, LockHolder};
use tokio::time::Instant;

use crate::{RuntimeError, control_socket};

/// Maximum time for the owner of a home to answer, which a starting gateway needs. A command that
/// works on the files also holds the lock, but not for long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which a command states that it waits.
const NOTICE_DELAY: Duration = Duration::from_secs(2);

/// Interval between checks whether the gateway ended or started.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Connects to the gateway that owns the home; `None` if no process owns it.
///
/// Decision: the home's lock shows that a gateway exists; the socket only lets it answer. A gateway
/// that hangs, starts slowly or has no socket still owns its files, so a command that gets no
/// answer refuses to work. On a system without such sockets, commands work on the files. A long wait
/// is stated on standard error, because the log is not shown there.
///
/// # Errors
/// Returns [`RuntimeError::Silent`] if the owner does not answer, [`RuntimeError::State`] if the
/// lock cannot be read.
pub(crate) async fn connect(config: &Config) -> Result<Option<ControlClient>, RuntimeError> {
    let (socket, home) = (control_socket(config), &config.paths().data_dir);
    let (started, mut is_stated) = (Instant::now(), false);
    loop {
        let attempt = ControlClient::reach(&socket);
        tokio::pin!(attempt);
        let notice = NOTICE_DELAY.saturating_sub(started.elapsed());
        let reached = tokio::select! {
            biased;
            reached = &mut attempt => reached,
            () = tokio::time::sleep(notice), if !is_stated => {
                is_stated = true;
                state_wait();
                attempt.await
            }
        };
        let why = match reached {
            Ok(client) => return Ok(Some(client)),
            Err(ControlError::Unsupported) => return Ok(None),
            Err(error) => error,
        };
        let Some(LockHolder { pid }) = HomeLock::holder(home)? else {
            return Ok(None);
        };
        if started.elapsed() >= ANSWER_TIMEOUT {
            return Err(RuntimeError::Silent { pid, source: why });
        }
        if !is_stated && started.elapsed() >= NOTICE_DELAY {
            is_stated = true;
            state_wait();
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn state_wait() {
    if let Err(error) = writeln!(std::io::stderr(), "waiting for the gateway…") {
        tracing::debug!(%error, "standard error takes no text");
    }
}

/// Connects to the gateway that has the configuration's home; `None` if none runs or it has another
/// workspace.
///
/// # Errors
/// Returns the errors of [`connect`].
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
        tracing::debug!("the gateway uses another workspace: working on the files directly");
    }
    Ok(shares_workspace.then_some(client))
}

/// A running gateway.
#[derive(Debug)]
pub struct RemoteGateway {
    client: ControlClient,
    socket: std::path::PathBuf,
}

impl RemoteGateway {
    /// Connects to the gateway of this home; `None` if none runs.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Silent`] if one runs and does not answer, [`RuntimeError::State`] if
    /// the lock cannot be read.
    pub async fn reach(config: &Config) -> Result<Option<Self>, RuntimeError> {
        let client = connect(config).await?;
        Ok(client.map(|client| Self {
            client,
            socket: control_socket(config),
        }))
    }

    /// Returns its version, process, model and workspace.
    #[must_use]
    pub fn about(&self) -> &GatewayInfo {
        self.client.about()
    }

    /// Returns the state of its channels.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Control`] if the gateway does not answer.
    pub async fn channels(&self) -> Result<Vec<ChannelState>, RuntimeError> {
        Ok(self.client.channels().await?)
    }

    /// Stops it in order; `true` if it has ended within `timeout`.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Control`] if it does not accept the request.
    pub async fn stop(&self, timeout: Duration) -> Result<bool, RuntimeError> {
        self.client.end(false).await?;
        let ended = async {
            // A gateway that hangs up or answers slowly is shutting down, but has not ended.
            while !matches!(
                ControlClient::reach(&self.socket).await,
                Err(ControlError::Unreachable { .. })
            ) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        Ok(tokio::time::timeout(timeout, ended).await.is_ok())
    }

    /// Restarts it in order. Returns the new gateway; `None` if it did not start within `timeout`.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Control`] if it does not accept the request.
    pub async fn restart(&self, timeout: Duration) -> Result<Option<GatewayInfo>, RuntimeError> {
        self.client.end(true).await?;
        let restarted = async {
            loop {
                if let Ok(client) = ControlClient::reach(&self.socket).await
                    && client.about().started_at != self.about().started_at
                {
                    return client.about().clone();
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        Ok(tokio::time::timeout(timeout, restarted).await.ok())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nanobot_control::{ControlRequest, ControlResponse};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::UnixListener;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Plays a gateway that answers twice, hangs up on every client while it ends, and goes.
    async fn dying(listener: UnixListener, socket: PathBuf, is_gone: Arc<AtomicBool>) {
        let about = GatewayInfo {
            version: "1".to_owned(),
            pid: 42,
            model: "a model".to_owned(),
            workspace: PathBuf::from("/w"),
            started_at: None,
        };
        for (request, answer) in [
            (ControlRequest::Ping, ControlResponse::Pong(about)),
            (ControlRequest::End { again: false }, ControlResponse::Done),
        ] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut asked = String::new();
            stream.read_line(&mut asked).await.unwrap();
            assert_eq!(
                serde_json::from_str::<ControlRequest>(&asked).unwrap(),
                request
            );
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
    async fn stop_waits_until_the_socket_is_gone() {
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
