//! Checks that files at addresses from messages are fetched from public hosts only.

use anyhow::ensure;
use url::Url;

use crate::corpus;
use crate::http::{Response, Server};
use crate::sync::Watched;

/// Checks that `fetch` fetches no file from the denied addresses of the corpus, nor from this
/// machine, and does fetch one from a public address.
///
/// `fetch` gets the address of a proxy, `""` for none, and that of the file. It returns `true` if
/// the file was fetched. The proxy is asked for every file that is fetched through it, wherever
/// that is, and answers it itself; requests to this machine need no proxy.
///
/// # Errors
/// Returns an error that names the addresses that were fetched, or asked for.
pub async fn check_downloads(fetch: impl AsyncFn(&str, &str) -> bool) -> anyhow::Result<()> {
    let asked = Watched::new(Vec::new());
    let noted = asked.clone();
    let proxy = Server::start(move |request| {
        noted.change(|asked: &mut Vec<String>| asked.push(request.target.clone()));
        async { Response::bytes(200, "text/plain", "x") }
    });
    let proxy = proxy.await?;
    let open = proxy.address().port();
    let mut fetched = Vec::new();
    for address in denied_addresses(open)? {
        if fetch(&proxy.url(), &address).await {
            fetched.push(address);
        }
    }
    for host in ["127.0.0.1", "0x7f000001", "localhost", "[::ffff:127.0.0.1]"] {
        let address = format!("http://{host}:{open}/");
        if fetch("", &address).await {
            fetched.push(address);
        }
    }
    ensure!(fetched.is_empty(), "fetched: {fetched:?}");
    let requests = asked.read(Clone::clone);
    ensure!(requests.is_empty(), "requests: {requests:?}");
    let public = "http://8.8.8.8/a";
    ensure!(fetch(&proxy.url(), public).await, "{public} is not fetched");
    let requests = asked.read(Clone::clone);
    ensure!(requests == [public], "requests: {requests:?}");
    Ok(())
}

/// Returns addresses that are refused whatever names resolve to; those without a port also with
/// `open`, at which this machine listens.
fn denied_addresses(open: u16) -> anyhow::Result<Vec<String>> {
    let rows = corpus::rows("ssrf")?.into_iter();
    let denied = rows.filter(|row| row.text("expect") == "deny" && row.json.get("dns").is_none());
    let mut addresses: Vec<_> = denied.map(|row| row.text("url").to_owned()).collect();
    let at_open_port = |address: &String| {
        let mut url = Url::parse(address)
            .ok()
            .filter(|url| url.port().is_none())?;
        url.set_port(Some(open)).ok()?;
        Some(url.to_string())
    };
    let more: Vec<_> = addresses.iter().filter_map(at_open_port).collect();
    addresses.extend(more);
    Ok(addresses)
}
