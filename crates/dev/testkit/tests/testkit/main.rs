//! The testkit tested: fakes against clients that others wrote, and against the wire itself.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod corpora;
mod in_process;
mod misbehaviour;
mod model_shapes;
mod strictness;
mod telegram_wire;
mod telegram_with_teloxide;

/// A client without pooling, so that each request sees a connection of its own.
fn client() -> reqwest::Client {
    // Another test of this binary may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .no_proxy()
        .build()
        .unwrap()
}
