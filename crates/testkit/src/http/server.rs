//! The listener and its tasks.

use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{After, Connection};
use super::{Request, Response};
use crate::sync::Watched;
use crate::{TestkitError, WAIT_LIMIT};

/// A running server; it stops when dropped.
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
    abandoned: Watched<usize>,
    open: Watched<usize>,
}

impl Server {
    /// Listens on a free port of 127.0.0.1 and answers every request with `handler`.
    ///
    /// The handler's future is dropped when its client leaves; what has to happen even then must be
    /// done before its first await.
    ///
    /// # Errors
    /// [`TestkitError::Listen`] when no port can be bound.
    pub async fn start<H, F>(handler: H) -> Result<Self, TestkitError>
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(TestkitError::Listen)?;
        let address = listener.local_addr().map_err(TestkitError::Listen)?;
        let server = Self {
            address,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            abandoned: Watched::default(),
            open: Watched::default(),
        };
        let (stop, tasks) = (server.stop.clone(), server.tasks.clone());
        let (abandoned, open) = (server.abandoned.clone(), server.open.clone());
        let handler = Arc::new(handler);
        server.tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((stream, _)) = accepted else { continue };
                let (handler, stop, abandoned) = (Arc::clone(&handler), stop.clone(), abandoned.clone());
                let open = Open::count(&open);
                tasks.spawn(async move {
                    let _open = open;
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = serve(stream, &*handler, &abandoned) => {}
                    }
                });
            }
        });
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>` without a final slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many answers were not fully sent because the client had left.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.abandoned.read(|count| *count)
    }

    /// Waits until at least `count` answers were abandoned by their clients.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_abandoned(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} abandoned answers");
        self.abandoned.wait_for(&what, |seen| (*seen >= count).then_some(())).await
    }

    /// Waits until every connection that was made before has ended, so that whatever was sent on
    /// it is taken in. For clients that are gone: while one keeps a connection, it waits in vain.
    ///
    /// # Errors
    /// [`TestkitError::Unreachable`], [`TestkitError::TimedOut`].
    pub async fn settled(&self) -> Result<(), TestkitError> {
        const WHAT: &str = "every connection to end";
        // Connections are taken in the order in which they were made: when this one is served, all
        // before it are counted.
        let last = async {
            let mut last = TcpStream::connect(self.address).await?;
            last.shutdown().await?;
            last.read_to_end(&mut Vec::new()).await
        };
        match tokio::time::timeout(WAIT_LIMIT, last).await {
            Ok(served) => served.map(drop).map_err(TestkitError::Unreachable)?,
            Err(_) => return Err(TestkitError::TimedOut { what: WHAT.to_owned(), limit: WAIT_LIMIT }),
        }
        self.open.wait_for(WHAT, |open| (*open == 0).then_some(())).await
    }

    /// Closes the listener and all connections and waits for their tasks.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A connection that is counted as long as it is open.
struct Open(Watched<usize>);

impl Open {
    fn count(open: &Watched<usize>) -> Self {
        open.change(|open| *open += 1);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|open| *open -= 1);
    }
}

async fn serve<H, F>(stream: TcpStream, handler: &H, abandoned: &Watched<usize>)
where
    H: Fn(Request) -> F,
    F: Future<Output = Response>,
{
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut connection = Connection::new(stream);
    while let Ok(Some(request)) = connection.read_request().await {
        let close = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let response = tokio::select! {
            biased;
            response = handler(request) => response,
            () = connection.client_gone() => {
                abandoned.change(|count| *count += 1);
                return;
            }
        };
        match connection.respond(&response).await {
            Ok(After::KeepOpen) if !close => {}
            Ok(_) => return,
            Err(_client_left) => {
                abandoned.change(|count| *count += 1);
                return;
            }
        }
    }
}
