//! Which way a client takes to a server where the environment names a proxy.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;

use anyhow::{Context as _, ensure};

/// Tells the test in whose process this is which proxy it is given.
const OWN: &str = "NANOBOT_TEST_OWN_PROXY";
const SERVER: &str = "NANOBOT_TEST_SERVER";

/// Checks that a client asks the proxy of the environment only where nothing is said about proxies, nobody
/// else where `""` is said, and otherwise the proxy that is named.
///
/// No test changes its environment, so `test`, by its path the one that calls this, is run again in processes
/// that have another. There `ask` makes a client with the proxy that it is given and asks the server at that
/// address, of this scheme; everybody hangs up on it.
///
/// # Errors
/// Whom the client asked instead, or what its process said at its end.
pub fn check_ways(
    test: &str,
    scheme: &str,
    ask: impl FnOnce(Option<&str>, &str),
) -> anyhow::Result<()> {
    if let (Ok(own), Ok(server)) = (std::env::var(OWN), std::env::var(SERVER)) {
        ask(Some(own.as_str()).filter(|own| *own != "unset"), &server);
        return Ok(());
    }
    let (reached, by) = mpsc::channel();
    let address = |name| hanging_up(name, reached.clone());
    let (server, of_environment, own) =
        (address("server")?, address("environment")?, address("own")?);
    let own = format!("http://{own}");
    for (own, expected) in [
        ("unset", "environment"),
        ("", "server"),
        (own.as_str(), "own"),
    ] {
        let mut again = Command::new(std::env::current_exe()?);
        for name in [
            "HTTP_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
        ] {
            again.env(name, format!("http://{of_environment}"));
        }
        for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
            again.env_remove(name);
        }
        again
            .env(OWN, own)
            .env(SERVER, format!("{scheme}://{server}/"));
        let output = again
            .args(["--exact", test])
            .output()
            .context("the test cannot be run again")?;
        ensure!(output.status.success(), "{own}: {output:?}");
        let asked: Vec<_> = by.try_iter().collect();
        ensure!(
            !asked.is_empty(),
            "{own}: nobody was asked; is the test called {test}?"
        );
        ensure!(
            asked.iter().all(|name| *name == expected),
            "{own}: {asked:?} instead of {expected}"
        );
    }
    Ok(())
}

/// Hangs up on everybody, and says so before.
fn hanging_up(
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
