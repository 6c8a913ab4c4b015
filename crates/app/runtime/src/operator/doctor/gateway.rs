//! Checks the gateway: whether it runs, in which version, and whether it could start.

use nanobot_config::Config;
use nanobot_control::ControlClient;
use nanobot_server::{HealthServer, ServerConfig};
use serde_json::Value;

use super::{FindingLevel, FindingList, GatewayReached};
use crate::Runtime;
use crate::assembly::channels::configured_channels;
use crate::error::chain;

pub(super) async fn examine(list: &mut FindingList, config: &Config, gateway: GatewayReached) {
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
    match gateway {
        Ok(Some(client)) => check_running(list, &client).await,
        Ok(None) => check_port(list, &server).await,
        Err(error) => list.fault(
            "gateway.answers",
            chain(&error),
            error.remedy().unwrap_or_default(),
        ),
    }
}

/// A configured address on which the gateway listens.
struct Listener {
    /// Key of its port.
    key: String,
    host: String,
    port: u64,
}

/// Reports two parts of the gateway that listen on the same address.
pub(super) fn examine_ports(list: &mut FindingList, runtime: &Runtime) {
    let listeners = listeners(runtime);
    for (index, first) in listeners.iter().enumerate() {
        for second in listeners.iter().skip(index + 1) {
            if first.port == second.port && do_overlap(&first.host, &second.host) {
                list.fault(
                    "gateway.ports",
                    format!(
                        "{} and {} are both {}: only one of them can listen",
                        first.key, second.key, first.port
                    ),
                    format!("Set {} to a free port.", second.key),
                );
            }
        }
    }
}

/// Returns the addresses of the endpoint and of enabled channels. Port 0 never collides.
fn listeners(runtime: &Runtime) -> Vec<Listener> {
    let mut listeners = Vec::new();
    if let Ok(ServerConfig { host, port, .. }) = runtime.config().section("gateway") {
        listeners.push(Listener {
            key: "gateway.port".to_owned(),
            host,
            port: port.into(),
        });
    }
    let configured = configured_channels(runtime).unwrap_or_default();
    for channel in configured.iter().filter(|channel| channel.is_enabled) {
        let text = |key: &str| channel.raw.section.get(key).and_then(Value::as_str);
        let (host, port) = match (channel.kind.as_str(), text("mode")) {
            ("websocket", _) => ("host", "port"),
            ("telegram", Some("webhook")) => ("webhookListenHost", "webhookListenPort"),
            _ => continue,
        };
        if let Some(number) = channel.raw.section.get(port).and_then(Value::as_u64) {
            listeners.push(Listener {
                key: format!("channels.{}.{port}", channel.name),
                host: text(host).unwrap_or("127.0.0.1").to_owned(),
                port: number,
            });
        }
    }
    listeners.retain(|listener| listener.port != 0);
    listeners
}

/// `true` if two hosts share an address: they are equal, or one of them is every address.
fn do_overlap(first: &str, second: &str) -> bool {
    let address = |host: &str| match host.trim() {
        "localhost" => "127.0.0.1".to_owned(),
        other => other.to_owned(),
    };
    let (first, second) = (address(first), address(second));
    let is_any = |host: &str| matches!(host, "0.0.0.0" | "::");
    first == second || is_any(&first) || is_any(&second)
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
        let why = state.why.as_deref().unwrap_or("it does not say why");
        match state.state.as_str() {
            "degraded" => list.warn(
                "channels.well",
                format!("channels.{} is degraded: {why}", state.name),
                format!(
                    "It is being tried. `nanobot channels test {}` asks the platform.",
                    state.name
                ),
            ),
            "failed" => list.fault(
                "channels.well",
                format!("channels.{} cannot run: {why}", state.name),
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
