//! Logins: the session by password, ended sessions, the account.

use nanobot_channel::ChannelError;
use nanobot_channel_matrix_fake::{BOT_PASSWORD, Incoming};
use serde_json::{Value, json};

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
