//! Tests of the fake with a third-party client and with raw requests.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod wire;
mod with_teloxide;

/// Returns a client without pooling, so that each request uses a connection of its own.
fn client() -> reqwest::Client {
    // Another test of this binary may have installed the provider already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .no_proxy()
        .build()
        .unwrap()
}
