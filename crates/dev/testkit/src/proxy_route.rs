//! Checks of the route that a client takes when the environment names a proxy.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;

use anyhow::{Context as _, ensure};

/// Environment variable with the proxy setting for the test that runs in this process.
const OWN_PROXY_VARIABLE: &str = "NANOBOT_TEST_OWN_PROXY";
const SERVER_VARIABLE: &str = "NANOBOT_TEST_SERVER";

/// Checks that a client uses the proxy of the environment only if its proxy setting is unset,
/// connects directly if the setting is `""`, and otherwise uses the proxy that the setting names.
///
/// Tests do not change their own environment, so the calling test, whose path is `test`, is run
/// again in child processes with a different environment. There `send_request` creates a client with
/// the given proxy setting and sends a request to the given URL, which has this `scheme`. The server
/// and both proxies close every connection.
///
/// # Errors
/// Returns an error that names the wrong destination, or has the output of the child process if it
/// failed.
pub fn check_proxy_routes(
    test: &str,
    scheme: &str,
    send_request: impl FnOnce(Option<&str>, &str),
) -> anyhow::Result<()> {
    if let (Ok(own), Ok(server)) = (
        std::env::var(OWN_PROXY_VARIABLE),
        std::env::var(SERVER_VARIABLE),
    ) {
        send_request(Some(own.as_str()).filter(|own| *own != "unset"), &server);
        return Ok(());
    }
    let (reached, by) = mpsc::channel();
    let address = |name| listen_and_close(name, reached.clone());
    let (server, of_environment, own) =
        (address("server")?, address("environment")?, address("own")?);
    let own = format!("http://{own}");
    for (own, expected) in [
        ("unset", "environment"),
        ("", "server"),
        (own.as_str(), "own"),
    ] {
        let mut child = Command::new(std::env::current_exe()?);
        for name in [
            "HTTP_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
        ] {
            child.env(name, format!("http://{of_environment}"));
        }
        for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
            child.env_remove(name);
        }
        child
            .env(OWN_PROXY_VARIABLE, own)
            .env(SERVER_VARIABLE, format!("{scheme}://{server}/"));
        let output = child
            .args(["--exact", test])
            .output()
            .context("the test cannot be run again")?;
        ensure!(output.status.success(), "{own}: {output:?}");
        let reached_by: Vec<_> = by.try_iter().collect();
        ensure!(
            !reached_by.is_empty(),
            "{own}: nobody was asked; is the test called {test}?"
        );
        ensure!(
            reached_by.iter().all(|name| *name == expected),
            "{own}: {reached_by:?} instead of {expected}"
        );
    }
    Ok(())
}

/// Listens on a new port, reports every connection to `reached` and closes it.
fn listen_and_close(
    name: &'static str,
    reached: mpsc::Sender<&'static str>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if reached.send(name).is_err() {
                break;
            }
            drop(stream);
        }
    });
    Ok(address)
}
