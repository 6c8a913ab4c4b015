//! Logins: the session by password, ended sessions, the account.

use std::sync::Mutex;

use nanobot_channel::{ChannelError, SignInPrompt, async_trait};
use nanobot_channel_matrix_fake::{BOT_PASSWORD, Fault, Incoming};
use serde_json::{Value, json};

use crate::friend::program;
use crate::support::{Running, ann, assistant, channel, channel_in, fake};

fn by_password() -> Value {
    json!({"accessToken": "", "password": BOT_PASSWORD})
}

#[tokio::test]
async fn session_of_a_password_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let fake = fake().await;
    for _ in 0..2 {
        let channel = channel_in(&fake, &by_password(), Some(folder.path()));
        let account = channel.probe().unwrap().probe().await.unwrap();
        assert_eq!(account, "nanobot (@nanobot:fake.test)");
    }
    assert_eq!(fake.calls_of("login").len(), 1);
    let file = folder.path().join("matrix-store").join("session.json");
    let text = std::fs::read_to_string(file).unwrap();
    let session: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(session["user_id"], "@nanobot:fake.test");
    assert!(!text.contains(BOT_PASSWORD));
}

#[tokio::test]
async fn ended_session_is_replaced_by_a_login() {
    let folder = tempfile::tempdir().unwrap();
    let fake = fake().await;
    let channel = channel_in(&fake, &by_password(), Some(folder.path()));
    let running = Running::of(fake, channel, assistant());
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    running.fake.expire_tokens();
    running.fake.end_syncs();
    running.fake.wait_for_calls("login", 2).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "still there?"))
        .await;
    assert_eq!(running.arrived(), ["still there?"]);
    running.stop().await;
}

#[tokio::test]
async fn refused_token_ends_the_run() {
    let fake = fake().await;
    fake.revoke_credentials();
    let channel = channel(&fake, &json!({}));
    let running = Running::of(fake, channel, assistant());
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error:?}");
}

#[tokio::test]
async fn wrong_password_is_an_error_of_the_credentials() {
    let fake = fake().await;
    let channel = channel(&fake, &json!({"accessToken": "", "password": "wrong-word"}));
    let error = channel.probe().unwrap().probe().await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error:?}");
    assert!(!error.to_string().contains("wrong-word"));
}

#[tokio::test]
async fn token_of_another_account_is_refused() {
    let fake = fake().await;
    let channel = channel(&fake, &json!({"userId": "@other:fake.test"}));
    let error = channel.probe().unwrap().probe().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the platform refuses: the token belongs to @nanobot:fake.test, and userId is \
         @other:fake.test"
    );
}

/// A person who answers every question with no.
#[derive(Default)]
struct Refusing(Mutex<Vec<String>>);

impl Refusing {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[async_trait]
impl SignInPrompt for Refusing {
    fn show(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn show_code(&self, text: &str) {
        self.show(text);
    }

    async fn confirm(&self, question: &str) -> bool {
        self.show(question);
        false
    }
}

#[tokio::test]
async fn login_uploads_keys_and_offers_a_verification() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), fake().await);
    let keys = json!({"cryptoProgram": program()});
    let channel = channel_in(&fake, &keys, Some(folder.path()));
    let (sign_in, prompt) = (channel.sign_in().unwrap(), Refusing::default());
    for _ in 0..2 {
        let account = sign_in.sign_in(&prompt).await.unwrap();
        assert_eq!(account, "@nanobot:fake.test");
        assert_eq!(
            prompt.lines(),
            [
                "@nanobot:fake.test is logged in.",
                "Verify this session by emoji from another session of the account?",
            ]
        );
    }
    assert!(!fake.calls_of("keys.upload").is_empty());
    assert!(fake.calls_of("sync").is_empty());
}

#[tokio::test]
async fn refused_upload_of_keys_is_not_repeated_at_once() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), fake().await);
    let keys = json!({"cryptoProgram": program()});
    let channel = channel_in(&fake, &keys, Some(folder.path()));
    for _ in 0..20 {
        fake.fail_next("keys.upload", Fault::Error("M_BAD_JSON"));
    }
    let (sign_in, prompt) = (channel.sign_in().unwrap(), Refusing::default());
    sign_in.sign_in(&prompt).await.unwrap();
    assert_eq!(fake.calls_of("keys.upload").len(), 1);
    assert!(
        !fake.calls_of("keys.query").is_empty(),
        "other requests go on"
    );
}

#[tokio::test]
async fn login_without_the_program_says_so() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), fake().await);
    let keys = json!({"cryptoProgram": "/nonexistent/nanobot-matrix-crypto"});
    let channel = channel_in(&fake, &keys, Some(folder.path()));
    let (sign_in, prompt) = (channel.sign_in().unwrap(), Refusing::default());
    sign_in.sign_in(&prompt).await.unwrap();
    let lines = prompt.lines();
    assert!(
        lines[1].contains("nanobot-matrix-crypto, which encrypted rooms need, was not found"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn login_leaves_the_keys_of_a_running_gateway_alone() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), fake().await);
    let keys = json!({"cryptoProgram": program()});
    let gateway = channel_in(&fake, &keys, Some(folder.path()));
    fake.encrypt(&ann().direct());
    let running = Running::of(fake, gateway, assistant());
    running.fake.wait_for_calls("keys.upload", 1).await.unwrap();
    let other = channel_in(&running.fake, &keys, Some(folder.path()));
    let prompt = Refusing::default();
    other.sign_in().unwrap().sign_in(&prompt).await.unwrap();
    let lines = prompt.lines();
    assert!(
        lines[1].starts_with("Encrypted rooms cannot be used"),
        "{lines:?}"
    );
    running.stop().await;
}
