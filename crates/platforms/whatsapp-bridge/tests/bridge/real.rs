//! The real package with the real Node.js and npm, which fetches packages from the network once.
//! Where that is impossible the test says so and passes, unless `NANOBOT_REQUIRE_TEST_SERVERS` is
//! set.

use std::os::unix::fs::symlink;
use std::path::Path;

use nanobot_testkit::log::Log;
use nanobot_whatsapp_bridge::Bridge;
use tokio::net::TcpStream;

use crate::fixture::names;

/// Installs the package into a folder that later runs use, too, and returns that folder.
async fn installed() -> Option<std::path::PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.cache/whatsapp-bridge");
    let bridge = Bridge::new(&cache, None);
    if let Err(error) = bridge.install(&|line| eprintln!("{line}")).await {
        let is_required = std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some();
        assert!(!is_required, "{error}");
        eprintln!("SKIPPED: {error}");
        return None;
    }
    Some(cache.join("whatsapp-bridge"))
}

#[tokio::test]
async fn real_package_listens_and_ends() {
    let log = Log::capture().unwrap();
    let Some(versions) = installed().await else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("whatsapp-bridge");
    std::fs::create_dir(&folder).unwrap();
    for name in names(&versions) {
        symlink(versions.join(&name), folder.join(&name)).unwrap();
    }
    let bridge = Bridge::new(data.path(), None);
    let running = bridge.start().await.unwrap();
    let (url, token) = (running.url().to_owned(), running.token().to_owned());
    let address = url.strip_prefix("ws://").unwrap();
    drop(TcpStream::connect(address).await.unwrap());
    running.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert!(!log.text().contains(&token));
}
