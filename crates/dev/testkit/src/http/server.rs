//! The listener and its connection tasks.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{After, HttpConnection};
use super::outage::Outage;
use super::{Request, Response};
use crate::sync::Watched;
use crate::{ReservedPort, TestkitError, WAIT_LIMIT};

/// A running server; it stops when dropped.
pub struct Server {
    /// Reserves the port while the server does not listen.
    port: ReservedPort,
    outage: Outage,
    stop: CancellationToken,
    tasks: TaskTracker,
    abandoned: Watched<usize>,
    open: Watched<usize>,
}

impl Server {
    /// Listens on a free port of 127.0.0.1 and answers every request with `handler`.
    ///
    /// The handler's future is dropped when its client leaves. Work that must be done even then
    /// belongs before its first await.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no port can be bound.
    pub async fn start<H, F>(handler: H) -> Result<Self, TestkitError>
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let port = ReservedPort::new()?;
        let listener = TcpListener::bind(port.address())
            .await
            .map_err(TestkitError::Listen)?;
        let server = Self {
            port,
            outage: Outage::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            abandoned: Watched::default(),
            open: Watched::default(),
        };
        server.outage.listening(true);
        let host = Host {
            address: server.address(),
            outage: server.outage.clone(),
            stop: server.stop.clone(),
            tasks: server.tasks.clone(),
            abandoned: server.abandoned.clone(),
            open: server.open.clone(),
            handler: Arc::new(handler),
        };
        server.tasks.spawn(host.run(listener));
        Ok(server)
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        self.outage.cut();
    }

    /// Cuts every connection and refuses new ones. Returns once the server no longer listens.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if that takes too long.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.outage.begin().await
    }

    /// Listens again, at the same address. Returns once the server listens.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if that takes too long.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.outage.end().await
    }

    /// Stalls the server: it accepts connections and requests, but holds all responses back until
    /// [`Server::recover`].
    pub fn stall(&self) {
        self.outage.stall(true);
    }

    /// Ends a stall begun by [`Server::stall`].
    pub fn recover(&self) {
        self.outage.stall(false);
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns `http://127.0.0.1:<port>` without a final slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns the number of responses that were not fully sent because the client had left.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.abandoned.read(|count| *count)
    }

    /// Waits until at least `count` responses were abandoned by their clients.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if that takes too long.
    pub async fn wait_for_abandoned(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} abandoned answers");
        self.abandoned
            .wait_for(&what, |seen| (*seen >= count).then_some(()))
            .await
    }

    /// Waits until every earlier connection has ended, so that everything sent on it is processed.
    /// Use it only once the clients are gone: it times out while one keeps a connection open.
    ///
    /// # Errors
    /// Returns [`TestkitError::Unreachable`] if the server cannot be reached, and
    /// [`TestkitError::TimedOut`] if a connection stays open.
    pub async fn settled(&self) -> Result<(), TestkitError> {
        const WHAT: &str = "every connection to end";
        // Connections are accepted in the order in which they were made: once this one is served,
        // all earlier ones are counted.
        let last = async {
            let mut last = TcpStream::connect(self.address()).await?;
            last.shutdown().await?;
            last.read_to_end(&mut Vec::new()).await
        };
        match tokio::time::timeout(WAIT_LIMIT, last).await {
            Ok(served) => served.map(drop).map_err(TestkitError::Unreachable)?,
            Err(_) => {
                return Err(TestkitError::TimedOut {
                    what: WHAT.to_owned(),
                    limit: WAIT_LIMIT,
                });
            }
        }
        self.open
            .wait_for(WHAT, |open| (*open == 0).then_some(()))
            .await
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
        f.debug_struct("Server")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// A connection, counted as long as it is open.
struct OpenConnection(Watched<usize>);

impl OpenConnection {
    fn count(open: &Watched<usize>) -> Self {
        open.change(|open| *open += 1);
        Self(open.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.change(|open| *open -= 1);
    }
}

/// State of the listener.
struct Host<H> {
    address: SocketAddr,
    outage: Outage,
    stop: CancellationToken,
    tasks: TaskTracker,
    abandoned: Watched<usize>,
    open: Watched<usize>,
    handler: Arc<H>,
}

impl<H, F> Host<H>
where
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    /// Listens until the server stops, except while it is down.
    async fn run(self, listener: TcpListener) {
        let mut listener = Some(listener);
        while self
            .stop
            .run_until_cancelled(self.listen(listener.take()))
            .await
            .is_some()
        {}
    }

    /// Accepts connections until the server goes down.
    async fn listen(&self, listener: Option<TcpListener>) {
        let listener = match listener {
            Some(listener) => listener,
            None => {
                self.outage.over().await;
                // If the port could not be reserved, another process may hold it for a moment.
                let Ok(listener) = TcpListener::bind(self.address).await else {
                    return tokio::task::yield_now().await;
                };
                listener
            }
        };
        self.outage.listening(true);
        loop {
            tokio::select! {
                biased;
                () = self.outage.begun() => break,
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        self.take(stream);
                    }
                }
            }
        }
        drop(listener);
        self.outage.listening(false);
    }

    fn take(&self, stream: TcpStream) {
        let (handler, stop, abandoned) = (
            Arc::clone(&self.handler),
            self.stop.clone(),
            self.abandoned.clone(),
        );
        let (open, outage, cut) = (
            OpenConnection::count(&self.open),
            self.outage.clone(),
            self.outage.watch_cuts(),
        );
        self.tasks.spawn(async move {
            let _open = open;
            tokio::select! {
                () = stop.cancelled() => {}
                () = cut => {}
                () = serve(stream, &*handler, &outage, &abandoned) => {}
            }
        });
    }
}

async fn serve<H, F>(stream: TcpStream, handler: &H, outage: &Outage, abandoned: &Watched<usize>)
where
    H: Fn(Request) -> F,
    F: Future<Output = Response>,
{
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut connection = HttpConnection::new(stream);
    while let Ok(Some(request)) = connection.read_request().await {
        let close = request
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let answering = async {
            outage.not_stalled().await;
            let response = handler(request).await;
            outage.not_stalled().await;
            response
        };
        let response = tokio::select! {
            biased;
            response = answering => response,
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
