//! The login and the probe.

use std::sync::Mutex;

use nanobot_channel::{ChannelError, SignInPrompt, async_trait};
use nanobot_channel_whatsapp_fake::WhatsAppFake;
use serde_json::json;

use crate::support::{Running, channel, fake};

/// A terminal. Its person scans the code after this number of codes.
struct Terminal<'a> {
    fake: &'a WhatsAppFake,
    scans_after: usize,
    lines: Mutex<Vec<String>>,
    codes: Mutex<Vec<String>>,
}

impl<'a> Terminal<'a> {
    fn new(fake: &'a WhatsAppFake, scans_after: usize) -> Self {
        Self {
            fake,
            scans_after,
            lines: Mutex::default(),
            codes: Mutex::default(),
        }
    }
}

#[async_trait]
impl SignInPrompt for Terminal<'_> {
    fn show(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }

    fn show_code(&self, text: &str) {
        let mut codes = self.codes.lock().unwrap();
        codes.push(text.to_owned());
        if codes.len() == self.scans_after {
            self.fake.link();
        } else {
            self.fake.show_qr(&format!("code {}", codes.len()));
        }
    }

    async fn confirm(&self, _question: &str) -> bool {
        false
    }
}

#[tokio::test]
async fn codes_are_shown_until_one_is_scanned() {
    let fake = fake().await;
    fake.unlink();
    let terminal = Terminal::new(&fake, 3);
    let channel = channel(&fake, &json!({}));
    let account = channel.sign_in().unwrap().sign_in(&terminal).await.unwrap();
    assert_eq!(account, "+4915000000001 (nanobot)");
    assert_eq!(terminal.codes.lock().unwrap()[1..], ["code 1", "code 2"]);
    let lines = terminal.lines.lock().unwrap().clone();
    assert!(
        lines.iter().any(|line| line.contains("Linked devices")),
        "{lines:?}"
    );
    fake.wait_for_open_connections(0).await.unwrap();
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn linked_device_needs_no_code() {
    let fake = fake().await;
    let terminal = Terminal::new(&fake, 1);
    let channel = channel(&fake, &json!({}));
    let account = channel.sign_in().unwrap().sign_in(&terminal).await.unwrap();
    assert_eq!(account, "+4915000000001 (nanobot)");
    assert!(terminal.codes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn login_without_whatsapp_says_why_once() {
    let fake = fake().await;
    fake.disconnect("no network", true);
    let terminal = Terminal::new(&fake, 1);
    let channel = channel(&fake, &json!({}));
    let network = async {
        fake.wait_for_client().await.unwrap();
        fake.disconnect("no network", true);
        fake.reconnect();
    };
    let login = channel.sign_in().unwrap().sign_in(&terminal);
    assert_eq!(
        tokio::join!(login, network).0.unwrap(),
        "+4915000000001 (nanobot)"
    );
    let lines = terminal.lines.lock().unwrap().clone();
    let said = lines.iter().filter(|line| line.contains("no network"));
    assert_eq!(said.count(), 1, "{lines:?}");
}

#[tokio::test]
async fn failed_login_says_why() {
    let fake = fake().await;
    let terminal = Terminal::new(&fake, 1);
    let wrong = channel(&fake, &json!({"bridgeToken": "wrong"}));
    let error = wrong
        .sign_in()
        .unwrap()
        .sign_in(&terminal)
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    fake.replace();
    let replaced = channel(&fake, &json!({}));
    let error = replaced
        .sign_in()
        .unwrap()
        .sign_in(&terminal)
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::Conflict(_)), "{error}");
}

#[tokio::test]
async fn probe_tells_the_account() {
    let fake = fake().await;
    let probe = async |keys| channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probe(json!({})).await.unwrap(), "+4915000000001 (nanobot)");
    let error = probe(json!({"bridgeToken": "wrong"})).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    fake.unlink();
    let error = probe(json!({})).await.unwrap_err();
    assert!(error.is_permanent(), "{error}");
    let away = json!({"bridgeUrl": "ws://127.0.0.1:9"});
    let error = probe(away).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn bridge_of_a_running_gateway_is_healthy() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let other = channel(&running.fake, &json!({}));
    let account = other.probe().unwrap().probe().await.unwrap();
    assert!(account.contains("the running gateway"), "{account}");
    let account = running.channel.probe().unwrap().probe().await.unwrap();
    assert_eq!(account, "+4915000000001 (nanobot)");
    assert_eq!((running.fake.readies(), running.fake.rivals()), (1, 1));
    running.stop_with(&["auth: a second client"]).await;
}
