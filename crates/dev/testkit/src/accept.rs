//! Accepted connections, for fakes that speak more than HTTP.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::TestkitError;

/// Listens on a port of the loopback interface, and serves each connection concurrently, until
/// `stop` fires. Returns the address.
///
/// # Errors
/// Returns [`TestkitError::Listen`] if there is no port.
pub async fn accept_connections<F>(
    stop: CancellationToken,
    tasks: &TaskTracker,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> Result<SocketAddr, TestkitError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(TestkitError::Listen)?;
    let address = listener.local_addr().map_err(TestkitError::Listen)?;
    let tracker = tasks.clone();
    tasks.spawn(async move {
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else { continue };
            // Small frames are not held back until the other side confirms earlier ones.
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            let (serving, stop) = (serve(stream), stop.clone());
            tracker.spawn(async move { stop.run_until_cancelled(serving).await });
        }
    });
    Ok(address)
}

/// Reads and forgets everything until the client leaves: a server that accepts and never answers.
pub async fn ignore_until_end(stream: &TcpStream) {
    let mut buffer = [0; 1024];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}
