//! Login with access tokens.

use std::sync::Arc;

use nanobot_channel::{ChannelError, SendRecovery, Value};
use nanobot_channel_email_fake::{CLIENT_ID, CLIENT_SECRET, MailFake, REFRESH_TOKEN};
use nanobot_testkit::http::Server;
use serde_json::json;

use crate::support::{ANN, Running, channel, channel_with_notes, news, note, played};

/// The keys of a channel that gets its tokens there.
fn keys(provider: &Server, refresh: &str) -> Value {
    json!({
        "auth": "oauth2", "imapPassword": null, "smtpPassword": null,
        "oauthTokenUrl": format!("{}/token", provider.url()), "oauthClientId": CLIENT_ID,
        "oauthClientSecret": CLIENT_SECRET, "oauthRefreshToken": refresh,
    })
}

async fn receives(fake: &MailFake, running: &Running, number: usize) {
    fake.push(note(
        ANN,
        &format!("{number}@friend.test"),
        &format!("mail {number}"),
    ));
    let message = running.assistant.message(number).await.unwrap();
    assert!(
        message.content.ends_with(&format!("mail {number}")),
        "{}",
        message.content
    );
}

#[tokio::test]
async fn access_token_is_reused_until_a_server_rejects_it() {
    let fake = MailFake::start().await.unwrap();
    let provider = fake.token_server().await.unwrap();
    let running = Running::at(&fake, &keys(&provider, REFRESH_TOKEN));
    receives(&fake, &running, 1).await;
    running.channel.send(&news(ANN, "one")).await.unwrap();
    running.channel.send(&news(ANN, "two")).await.unwrap();
    assert_eq!(fake.access_tokens(), 1);
    fake.end_access();
    running.channel.send(&news(ANN, "three")).await.unwrap();
    assert_eq!((fake.access_tokens(), fake.sent().len()), (2, 3));
    let channel = Arc::clone(&running.channel);
    running.stop().await;
    fake.end_access();
    let running = Running::of(channel, played());
    running
        .assistant
        .wait_until("the first look", |seen| seen.alive > 1)
        .await
        .unwrap();
    assert_eq!(fake.access_tokens(), 3);
    running.stop().await;
    assert_eq!(fake.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn token_lifetime_beyond_the_clock_range_is_accepted() {
    for lasts in [u64::MAX, 1 << 62] {
        let fake = MailFake::start().await.unwrap();
        let provider = fake.token_server().await.unwrap();
        fake.set_access_time(lasts);
        let channel = channel(&fake, &keys(&provider, REFRESH_TOKEN));
        for text in ["one", "two"] {
            channel.send(&news(ANN, text)).await.unwrap();
        }
        assert_eq!((fake.access_tokens(), fake.sent().len()), (1, 2), "{lasts}");
    }
}

#[tokio::test]
async fn rotated_refresh_token_is_kept_until_a_new_one_is_configured() {
    let fake = MailFake::start().await.unwrap();
    let provider = fake.token_server().await.unwrap();
    fake.rotate_refresh_tokens();
    let assistant = played();
    for number in 1..=3 {
        let running = Running::of(
            channel(&fake, &keys(&provider, REFRESH_TOKEN)),
            Arc::clone(&assistant),
        );
        receives(&fake, &running, number).await;
        running.stop().await;
        assert_eq!(
            fake.access_tokens(),
            number,
            "the refresh token of the time before was used"
        );
    }
    let kept = assistant.notes().all();
    assert!(
        kept["refresh-token"].contains(&fake.refresh_token().unwrap()),
        "{kept:?}"
    );
    fake.revoke_tokens(Some("by hand"));
    let running = Running::of(
        channel(&fake, &keys(&provider, "by hand")),
        Arc::clone(&assistant),
    );
    receives(&fake, &running, 4).await;
    running.stop().await;
}

#[tokio::test]
async fn probe_and_gateway_share_the_rotated_token() {
    let fake = MailFake::start().await.unwrap();
    let provider = fake.token_server().await.unwrap();
    fake.rotate_refresh_tokens();
    let (keys, assistant) = (keys(&provider, REFRESH_TOKEN), played());
    let look = async || {
        let looking = channel_with_notes(&fake, &keys, assistant.notes().clone());
        looking.probe().unwrap().probe().await.unwrap();
    };
    look().await;
    look().await;
    assert_eq!(fake.access_tokens(), 2);
    let running = Running::of(channel(&fake, &keys), Arc::clone(&assistant));
    receives(&fake, &running, 1).await;
    // It is not asked what it knows when its access ends.
    look().await;
    fake.end_access();
    running.channel.send(&news(ANN, "hello")).await.unwrap();
    assert_eq!(fake.access_tokens(), 5);
    running.stop().await;
    look().await;
}

#[tokio::test]
async fn revoked_access_is_reported_with_advice() {
    let fake = MailFake::start().await.unwrap();
    let provider = fake.token_server().await.unwrap();
    let keys = keys(&provider, REFRESH_TOKEN);
    fake.revoke_tokens(None);
    let expected = "the provider does not take oauthRefreshToken (any more): get a new one and write it there \
                    (invalid_grant: Token has been expired or revoked.)";
    let unused = channel(&fake, &keys);
    // Until it runs, a rotated token may be unknown.
    let sending = unused.send(&news(ANN, "x")).await.unwrap_err();
    assert_eq!(
        sending.recovery(),
        SendRecovery::Retry { after: None },
        "{sending}"
    );
    let probing = unused.probe().unwrap().probe().await.unwrap_err();
    let running = Running::of(Arc::clone(&unused), played()).end().await;
    let later = unused.send(&news(ANN, "x")).await.unwrap_err();
    for error in [probing, running, later] {
        let ChannelError::Auth(text) = error else {
            panic!("{error}")
        };
        assert_eq!(text, expected);
    }
    assert!(
        !fake
            .commands()
            .iter()
            .any(|command| command == "AUTHENTICATE" || command == "AUTH")
    );
}

#[tokio::test]
async fn unusable_token_provider_is_reported() {
    let fake = MailFake::start().await.unwrap();
    let provider = fake.token_server().await.unwrap();
    let failing = |keys: Value| {
        let channel = channel(&fake, &keys);
        async move { channel.send(&news(ANN, "x")).await.unwrap_err() }
    };
    let mut wrong = keys(&provider, REFRESH_TOKEN);
    wrong["oauthClientSecret"] = json!("another one");
    let error = failing(wrong).await;
    assert!(
        matches!(error, ChannelError::Auth(_)) && error.to_string().contains("oauthClientSecret"),
        "{error}"
    );
    let mut nowhere = keys(&provider, REFRESH_TOKEN);
    nowhere["oauthTokenUrl"] = json!(format!("{}/elsewhere", provider.url()));
    let error = failing(nowhere).await;
    assert!(
        matches!(error, ChannelError::Unavailable(_)) && error.to_string().contains("404"),
        "{error}"
    );
    let down = keys(&provider, REFRESH_TOKEN);
    provider.go_down().await.unwrap();
    let error = failing(down).await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    for secret in [REFRESH_TOKEN, CLIENT_SECRET] {
        assert!(!error.to_string().contains(secret), "{error}");
    }
}
