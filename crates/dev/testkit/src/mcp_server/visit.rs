//! One request as a browser would send it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use crate::TestkitError;
use crate::http::find;

/// An answer to a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The status code.
    pub status: u16,
    /// Address of the next page, if the answer is a redirect.
    pub location: Option<String>,
}

/// Gets a page of a server on loopback. Follows no redirect.
///
/// # Errors
/// Returns [`TestkitError::Unreachable`] if the server does not answer.
pub async fn visit(address: &str) -> Result<Visit, TestkitError> {
    get(address).await.map_err(TestkitError::Unreachable)
}

async fn get(address: &str) -> std::io::Result<Visit> {
    let url = Url::parse(address).map_err(std::io::Error::other)?;
    let host = url.socket_addrs(|| None)?;
    let mut stream = TcpStream::connect(host.as_slice()).await?;
    let query = url
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let request = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        url.path(),
        url.authority(),
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    // Servers may keep the connection open.
    while find(&head, b"\r\n\r\n").is_none() && stream.read_buf(&mut head).await? > 0 {}
    let text = String::from_utf8_lossy(&head);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut lines = text.lines();
    let location = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    });
    Ok(Visit {
        status: status.unwrap_or_default(),
        location,
    })
}
