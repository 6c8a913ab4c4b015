//! The first line of the bridge: its address.

use std::net::SocketAddr;

use serde::Deserialize;

/// Version of the protocol that the channel speaks.
const PROTOCOL: u32 = 2;
/// Maximum size of the line, in bytes.
pub(crate) const MAX_LINE: usize = 1024;

#[derive(Deserialize)]
struct Listening {
    listening: String,
    protocol: u32,
}

/// Returns the URL of a first line.
///
/// # Errors
/// Returns a text that follows "the WhatsApp bridge".
pub(crate) fn parse(line: &[u8]) -> Result<String, String> {
    let Ok(Listening {
        listening,
        protocol,
    }) = serde_json::from_slice(line)
    else {
        return Err("wrote something else than its address".to_owned());
    };
    if protocol != PROTOCOL {
        return Err(format!(
            "speaks version {protocol} of the protocol, not {PROTOCOL}"
        ));
    }
    let address: Option<SocketAddr> = listening
        .strip_prefix("ws://")
        .map(|rest| rest.strip_suffix('/').unwrap_or(rest))
        .and_then(|rest| rest.parse().ok());
    match address {
        Some(address) if address.ip().is_loopback() && address.port() != 0 => {
            Ok(format!("ws://{address}"))
        }
        _ => Err("listens on another address than a loopback address".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_alone_are_accepted() {
        let cases = [
            (
                r#"{"listening":"ws://127.0.0.1:40123","protocol":2}"#,
                Ok("ws://127.0.0.1:40123"),
            ),
            (
                r#"{"protocol":2,"listening":"ws://[::1]:7/","more":1}"#,
                Ok("ws://[::1]:7"),
            ),
            (
                r#"{"listening":"ws://127.0.0.1:40123","protocol":1}"#,
                Err("version 1"),
            ),
            (
                r#"{"listening":"ws://10.0.0.1:40123","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"ws://127.0.0.1:0","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"ws://localhost:80","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"ws://127.0.0.1@evil:80","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"ws://127.0.0.1:80/x","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"wss://127.0.0.1:80","protocol":2}"#,
                Err("loopback"),
            ),
            (
                r#"{"listening":"ws://127.0.0.1:80"}"#,
                Err("something else"),
            ),
            ("Debugger attached.", Err("something else")),
            ("", Err("something else")),
            ("[[[[", Err("something else")),
        ];
        for (line, expected) in cases {
            match (parse(line.as_bytes()), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{line}: {error}"),
                (other, _) => panic!("{line}: {other:?}"),
            }
        }
    }
}
