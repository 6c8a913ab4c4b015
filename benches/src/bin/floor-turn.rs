//! Floor program of a turn: `floor-turn URL BODY LOG [ROUNDS]` posts a body, prints the streamed
//! answer as it arrives, and appends it to a file with one sync. It repeats this for each round.
//!
//! Its HTTP client is as lean as possible for a server on this machine: no certificates, no proxy,
//! one thread.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("no URL")?;
    let body = arguments.next().map(PathBuf::from).context("no body")?;
    let log = arguments.next().map(PathBuf::from).context("no log")?;
    let rounds: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("a cryptography provider was already installed");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .no_proxy()
            .tls_certs_only([])
            .build()?;
        let body = std::fs::read(body)?;
        let mut log = OpenOptions::new().append(true).create(true).open(log)?;
        for _ in 0..rounds {
            let request = client
                .post(&url)
                .header("content-type", "application/json")
                .body(body.clone());
            let mut response = request.send().await?.error_for_status()?;
            let mut answer = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                answer.extend_from_slice(&chunk);
            }
            log.write_all(&answer)?;
            log.sync_data()?;
            std::io::stdout().write_all(&answer)?;
        }
        Ok(())
    })
}
