//! Rate limits, proxies, and answers of something between the bot and Discord.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelError, ChannelFactory as _, RawConfig};
use nanobot_channel_discord::DiscordFactory;
use nanobot_channel_discord_fake::{DiscordFake, Fault, TOKEN};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::support::{Running, reply};

#[tokio::test]
async fn exhausted_rate_limit_delays_or_refuses_calls() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running
        .fake
        .fail_next("createMessage", Fault::LastOfAllowance(0.5));
    let before = Instant::now();
    running
        .channel
        .send(&reply(&inbound, "last"))
        .await
        .unwrap();
    running
        .channel
        .send(&reply(&inbound, "next"))
        .await
        .unwrap();
    assert!(
        before.elapsed() >= Duration::from_millis(500),
        "it did not wait"
    );
    running
        .fake
        .fail_next("createMessage", Fault::LastOfAllowance(60.0));
    running
        .channel
        .send(&reply(&inbound, "last again"))
        .await
        .unwrap();
    let error = running
        .channel
        .send(&reply(&inbound, "not now"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChannelError::RateLimited { retry_after } if retry_after > Duration::from_secs(30))
    );
    assert_eq!(
        running.fake.calls_of("createMessage").len(),
        3,
        "nobody was asked in vain"
    );
    running.stop().await;
}

#[tokio::test]
async fn global_rate_limit_holds_every_call() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running.fake.fail_next(
        "createMessage",
        Fault::RetryAfter {
            seconds: 60.0,
            is_global: true,
        },
    );
    let error = running
        .channel
        .send(&reply(&inbound, "x"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChannelError::RateLimited { retry_after } if retry_after == Duration::from_secs(60))
    );
    let error = running
        .channel
        .typing()
        .unwrap()
        .show(&inbound.chat_id, &inbound.delivery)
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::RateLimited { .. }), "{error}");
    assert_eq!(running.fake.calls_of("typing"), []);
    running.stop().await;
}

#[tokio::test]
async fn html_error_page_counts_as_unavailable() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    for status in [403, 404, 502] {
        running.fake.fail_next("createMessage", Fault::Page(status));
        let error = running
            .channel
            .send(&reply(&inbound, "x"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ChannelError::Unavailable(_)),
            "{status}: {error}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn gateway_and_api_use_the_proxy() {
    let fake = DiscordFake::start().await.unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let (names, mut asked) = tokio::sync::mpsc::channel(64);
    let tasks = TaskTracker::new();
    let tunnels = tasks.clone();
    tasks.spawn(async move {
        while let Ok((client, _)) = proxy.accept().await {
            tunnels.spawn(tunnel(client, names.clone()));
        }
    });
    // A SOCKS proxy carries what is not encrypted as well as what is. The address leads nowhere:
    // only the proxy can deal with it.
    let elsewhere = |url: String| url.replace("127.0.0.1", "192.0.2.1");
    let section = json!({
        "token": TOKEN, "apiBase": elsewhere(fake.api_base()), "gatewayUrl": elsewhere(fake.gateway_url()),
        "proxy": format!("socks5://{address}"), "proxyUsername": "me", "proxyPassword": "s3cret",
    });
    let channel = DiscordFactory::new()
        .create("discord".into(), &RawConfig::new(section))
        .unwrap();
    let running = Running::of(fake, channel).ready().await;
    running.hello().await;
    let ports = [running.fake.api_base(), running.fake.gateway_url()];
    let ports = ports.map(|url| {
        url.rsplit(':')
            .next()
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .parse::<u16>()
            .unwrap()
    });
    let mut seen = Vec::new();
    while !ports.iter().all(|port| seen.contains(port)) {
        seen.push(asked.recv().await.unwrap());
    }
    running.stop().await;
}

/// One connection of a SOCKS5 proxy that asks for a name and a password.
async fn tunnel(mut client: TcpStream, asked: tokio::sync::mpsc::Sender<u16>) {
    let mut methods = [0; 2];
    client.read_exact(&mut methods).await.unwrap();
    let mut offered = vec![0; methods[1].into()];
    client.read_exact(&mut offered).await.unwrap();
    assert!(offered.contains(&2), "no password is offered");
    client.write_all(&[5, 2]).await.unwrap();
    let mut login = [0; 12];
    client.read_exact(&mut login[..11]).await.unwrap();
    assert_eq!(&login[..11], b"\x01\x02me\x06s3cret");
    client.write_all(&[1, 0]).await.unwrap();
    let mut request = [0; 10];
    client.read_exact(&mut request).await.unwrap();
    assert_eq!(&request[..8], [5, 1, 0, 1, 192, 0, 2, 1]);
    let port = u16::from_be_bytes([request[8], request[9]]);
    asked.send(port).await.unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    client
        .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    // Either end may leave without a word.
    drop(copy_bidirectional(&mut client, &mut server).await);
}

#[tokio::test]
async fn second_run_resumes_the_session() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let channel = Arc::clone(&running.channel);
    let fake = running.stop().await;
    let running = Running::of(fake, channel);
    running.fake.wait_for_resumes(1).await.unwrap();
    assert_eq!(running.fake.identifies(), 1);
    running.stop().await;
}
