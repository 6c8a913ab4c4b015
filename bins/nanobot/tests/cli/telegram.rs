//! Telegram as people use it: posts to a webhook, voices, choices, what shows that work is done.

use nanobot_testkit::http::{Response, Server};
use nanobot_testkit::telegram::{self, FileKind, Incoming, Person, TOKEN};
use nanobot_testkit::{ModelServer, Reply, ReservedPort, TelegramFake};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Running;
use crate::support::{Home, until};

/// A service that understands every voice as the same sentence.
async fn scribe() -> Server {
    let heard = json!({"text": "what is the weather like"});
    Server::start(move |_| {
        let response = Response::json(200, &heard);
        async { response }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_voice_that_is_posted_to_the_webhook_is_understood_and_answered() {
    let model = ModelServer::answering(|request| {
        let asked = request.last_user_text();
        Reply::text(if asked.contains("[transcription: what is the weather like]") { "Sunny." } else { "What?" })
    });
    let (model, scribe) = (model.await.unwrap(), scribe().await);
    let (telegram, home, port) = (TelegramFake::start().await.unwrap(), Home::new(), ReservedPort::new().unwrap());
    telegram.post_to(port.address());
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {
            "custom": {"apiKey": "test-key", "apiBase": model.base_url()},
            "groq": {"apiKey": "gsk_key", "apiBase": format!("{}/openai/v1", scribe.url())},
        },
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"], "mode": "webhook",
            "webhook_url": "https://bot.test/telegram", "webhook_listen_port": port.number(),
            "webhookSecretToken": "a-secret_word",
        }},
    }));
    let gateway = Running::start(&home).await;
    let ann = Person::new(7, "Ann", "ann_x");
    let voice = Incoming::private(&ann, "").with_file(FileKind::Voice, "v.oga", "audio/ogg", "sound");
    let pushed = telegram.push(voice);
    until("it is answered", async || telegram.texts_in(7).contains(&"Sunny.".to_owned())).await;
    telegram.wait_for_calls("setMessageReaction", 2).await.unwrap();
    until("the reaction is taken back", async || telegram.reactions(7, pushed.message_id).is_empty()).await;
    assert!(telegram.is_acknowledged(pushed));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let log = home.read("logs/gateway.log");
    for secret in ["a-secret_word", "gsk_key", TOKEN] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn choices_are_buttons_and_a_press_goes_on_with_the_conversation() {
    let model = ModelServer::answering(|request| {
        let is_answered = request.messages().last().is_some_and(|message| message["role"] == "tool");
        match request.last_user_text() {
            asked if asked.contains("At noon") => Reply::text("Noon it is."),
            _ if is_answered => Reply::text("You choose."),
            _ => Reply::call("message", &json!({"content": "When?", "buttons": [["At noon", "At night"], [" "]]})),
        }
    });
    let (model, telegram, home) = (model.await.unwrap(), TelegramFake::start().await.unwrap(), Home::new());
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
            "inlineKeyboards": true,
        }},
    }));
    let gateway = Running::start(&home).await;
    let ann = Person::new(7, "Ann", "ann_x");
    telegram.push(Incoming::private(&ann, "remind me of lunch"));
    let is_question = |sent: &telegram::SentMessage| sent.text == "When?";
    let question =
        telegram.wait_for("the question", |sent| sent.iter().find(|sent| is_question(sent)).cloned()).await.unwrap();
    let button = |label: &str| json!({"text": label, "callback_data": label});
    let keyboard = json!({"inline_keyboard": [[button("At noon"), button("At night")]]});
    assert_eq!(question.reply_markup, Some(keyboard));
    telegram.press(7, question.message_id, &ann, "At noon").unwrap();
    until("it is answered", async || telegram.texts_in(7).contains(&"Noon it is.".to_owned())).await;
    telegram.wait_for_calls("answerCallbackQuery", 1).await.unwrap();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
