//! Resources shared by all worlds of a run: the threads of their fakes, and a web page.

use std::io;

use nanobot_testkit::TestkitError;
use nanobot_testkit::http::{Response, Server};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::TaskTracker;

use crate::SuiteError;

/// Text of the page.
pub(crate) const ON_PAGE: &str = "Pour the water over the leaves and wait";

/// Threads and page. The URL of the page is part of the conversations, so it must be the same for
/// copies of a home.
#[derive(Debug)]
pub(crate) struct Stage {
    threads: Threads,
    page: Server,
}

impl Stage {
    pub(crate) async fn open() -> Result<Self, SuiteError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let threads = Threads(Some(runtime.map_err(SuiteError::Threads)?));
        let page = threads
            .run(Server::start(|_| async {
                Response::bytes(200, "text/html", page())
            }))
            .await?;
        Ok(Self { threads, page })
    }

    /// Returns the URL of a page whose content never changes.
    pub(crate) fn page(&self) -> String {
        format!("{}/tea", self.page.url())
    }

    /// Runs a future, and everything it spawns, on these threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        act: impl Future<Output = Result<T, TestkitError>> + Send + 'static,
    ) -> Result<T, TestkitError> {
        self.threads.run(act).await
    }
}

fn page() -> String {
    let text = format!("{ON_PAGE}. ").repeat(12);
    format!(
        "<html><head><title>Tea</title></head><body><article><p>{text}</p></article></body></html>"
    )
}

/// Dedicated threads for the fakes. Data that a process sent before it died is read before the next
/// process connects, however busy the suite is.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Threads {
    async fn run<T: Send + 'static>(
        &self,
        act: impl Future<Output = Result<T, TestkitError>> + Send + 'static,
    ) -> Result<T, TestkitError> {
        let Some(runtime) = &self.0 else {
            return Err(TestkitError::Listen(io::ErrorKind::NotConnected.into()));
        };
        let ran = TaskTracker::new().spawn_on(act, runtime.handle()).await;
        ran.unwrap_or_else(|panicked| Err(TestkitError::Listen(io::Error::other(panicked))))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // It may be dropped in an async context, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
