//! Serves HTTP/1 within limits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::{Listener, Seat, SeatLimits};

/// Timeout for a request's head, also on a kept-alive connection that waits for its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request's head, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Timeout for a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Age after which a connection accepts no further request.
const MAX_CONNECTION_TIME: Duration = Duration::from_mins(10);
/// Timeout for the last request of such a connection.
const LAST_REQUEST: Duration = Duration::from_mins(1);
/// Grace period for open connections at shutdown.
const LINGER: Duration = Duration::from_secs(1);
/// Pause after the system failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves until `end` is cancelled. Requests in progress then have one second to finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: SeatLimits,
    end: CancellationToken,
) {
    let (listener, connections) = (Listener::new(listener, limits), TaskTracker::new());
    while let Some(accepted) = end.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, seat)) => {
                connections.spawn(converse(stream, seat, router.clone(), end.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "the HTTP listener cannot accept a connection");
                end.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE))
                    .await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection.
async fn converse(stream: TcpStream, seat: Seat, router: Router, end: CancellationToken) {
    let seat = Arc::new(seat);
    let service = service_fn(|request: Request<Incoming>| {
        let (router, busy) = (router.clone(), Busy::of(&seat));
        async move {
            let response = router.oneshot(request.map(Body::new)).await;
            drop(busy);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let linger = async {
        end.cancelled().await;
        tokio::time::sleep(LINGER).await;
    };
    let mut linger = pin!(linger);
    tokio::select! {
        outcome = connection.as_mut() => return log(outcome),
        () = seat.evicted() => return,
        () = end.cancelled() => {}
        () = tokio::time::sleep(MAX_CONNECTION_TIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        outcome = connection => log(outcome),
        () = seat.evicted() => {}
        () = &mut linger => {}
        () = tokio::time::sleep(LAST_REQUEST) => {}
    }
}

fn log(outcome: Result<(), hyper::Error>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// Marks a connection's seat as busy while a request is processed.
struct Busy(Arc<Seat>);

impl Busy {
    fn of(seat: &Arc<Seat>) -> Self {
        seat.set_busy(true);
        Self(Arc::clone(seat))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

/// Reads a body of at most `limit` bytes within 10 seconds.
///
/// # Errors
/// Returns the status to respond with: 413 or 408.
pub async fn read_body(body: Body, limit: usize) -> Result<Bytes, StatusCode> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}
