//! The testkit tested: fakes against clients that others wrote, and against the wire itself.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "testkit/corpora.rs"]
mod corpora;
#[path = "testkit/misbehaviour.rs"]
mod misbehaviour;
#[path = "testkit/model_shapes.rs"]
mod model_shapes;
#[path = "testkit/strictness.rs"]
mod strictness;

/// A client without pooling, so that each request sees a connection of its own.
fn client() -> reqwest::Client {
    // Another test of this binary may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap()
}
