//! Finds a model server that runs on this machine.

use std::time::Duration;

use nanobot_types::{ModelId, ProviderName};
use reqwest::Url;

use crate::{HttpClients, body, list};

/// Time limit for all servers together.
const PATIENCE: Duration = Duration::from_millis(300);

/// The servers and their usual ports, the preferred first.
pub const LOCAL_SERVERS: &[(&str, u16)] = &[
    ("ollama", 11434),
    ("lm_studio", 1234),
    ("vllm", 8000),
    ("llama_cpp", 8080),
];

/// A model server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Name of its row in the provider table.
    pub provider: ProviderName,
    /// Its address, for `apiBase`.
    pub api_base: String,
    /// The first chat model that it offers.
    pub model: ModelId,
}

/// Asks all these ports of the loopback address for their models concurrently. Returns the first in
/// list order that responds like a model server. Takes at most 300 ms.
pub async fn discover_local(servers: &[(&str, u16)], http: &HttpClients) -> Option<LocalServer> {
    discover_within(servers, http, PATIENCE).await
}

/// Does the same as [`discover_local`] with another time limit, for servers that are known to be
/// slow.
pub async fn discover_within(
    servers: &[(&str, u16)],
    http: &HttpClients,
    timeout: Duration,
) -> Option<LocalServer> {
    discover_all(servers, http, timeout)
        .await
        .into_iter()
        .next()
}

/// Returns all servers that respond like a model server, in list order, within a time limit.
pub async fn discover_all(
    servers: &[(&str, u16)],
    http: &HttpClients,
    timeout: Duration,
) -> Vec<LocalServer> {
    let probes = servers.iter().map(|(provider, port)| async move {
        tokio::time::timeout(timeout, probe(provider, *port, http))
            .await
            .ok()
            .flatten()
    });
    futures_util::future::join_all(probes)
        .await
        .into_iter()
        .flatten()
        .collect()
}

async fn probe(provider: &str, port: u16, http: &HttpClients) -> Option<LocalServer> {
    let api_base = format!("http://127.0.0.1:{port}/v1");
    let url = Url::parse(&format!("{api_base}/models")).ok()?;
    let response = http.client_for(&url).ok()?.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let models = list::names(&body::document(response).await.ok()?)?;
    Some(LocalServer {
        provider: provider.into(),
        api_base,
        model: models.first()?.as_str().into(),
    })
}
