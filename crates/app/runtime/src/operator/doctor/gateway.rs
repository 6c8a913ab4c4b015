//! Checks the gateway: whether it runs, in which version, and whether it could start.

use nanobot_config::Config;
use nanobot_control::ControlClient;
use nanobot_server::{HealthServer, ServerConfig};

use super::{FindingLevel, FindingList};
use crate::error::chain;
use crate::operator::remote;

pub(super) async fn examine(list: &mut FindingList, config: &Config) {
    let server: ServerConfig = match config.section("gateway") {
        Ok(server) => server,
        Err(error) => return list.fault("gateway.endpoint", chain(&error), error.remedy()),
    };
    let is_local = server.host == "localhost"
        || server
            .host
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    if !is_local && server.token.is_empty() {
        list.warn(
            "gateway.exposed",
            format!(
                "gateway.host is {}, but gateway.token is empty: the endpoint stays on 127.0.0.1",
                server.host
            ),
            "Put a long random text into gateway.token, or set gateway.host to 127.0.0.1.",
        );
    }
    if HealthServer::has_short_token(&server) {
        let remedy =
            "Put a long random text into gateway.token, for example from `openssl rand -hex 32`.";
        list.warn(
            "gateway.token",
            "gateway.token is shorter than 16 characters: it can be guessed",
            remedy,
        );
    }
    match remote::connect(config).await {
        Ok(Some(client)) => check_running(list, &client).await,
        Ok(None) => check_port(list, &server).await,
        Err(error) => list.fault(
            "gateway.answers",
            chain(&error),
            error.remedy().unwrap_or_default(),
        ),
    }
}

async fn check_running(list: &mut FindingList, client: &ControlClient) {
    let about = client.about();
    let ours = env!("CARGO_PKG_VERSION");
    if about.version == ours {
        list.good(
            "gateway.version",
            format!("the gateway runs (process {})", about.pid),
        );
    } else {
        list.warn(
            "gateway.version",
            format!(
                "the gateway runs as version {}, and this is {ours}",
                about.version
            ),
            "Restart it: `nanobot gateway restart`.",
        );
    }
    let Ok(states) = client.channels().await else {
        return;
    };
    for state in states {
        let what = |why: &str| format!("channels.{} is {}: {why}", state.name, state.state);
        match (state.state.as_str(), &state.why) {
            ("degraded", why) => list.warn(
                "channels.well",
                what(why.as_deref().unwrap_or("it does not say why")),
                format!(
                    "It is being tried. `nanobot channels test {}` asks the platform.",
                    state.name
                ),
            ),
            ("failed", why) => list.fault(
                "channels.well",
                what(why.as_deref().unwrap_or("it does not say why")),
                format!(
                    "Correct channels.{0}; `nanobot channels login {0}` puts in new credentials.",
                    state.name
                ),
            ),
            _ => {}
        }
    }
}

/// Reports whether the gateway's port is free.
async fn check_port(list: &mut FindingList, server: &ServerConfig) {
    list.note(
        FindingLevel::Note,
        "gateway.running",
        "the gateway does not run",
        Some("Start it: `nanobot gateway`.".to_owned()),
    );
    match HealthServer::bind(server).await {
        Ok(_unused) => {}
        Err(error) => list.fault(
            "gateway.endpoint",
            chain(&error),
            "Set gateway.port to a free one (0 takes any), or end what has it.",
        ),
    }
}
