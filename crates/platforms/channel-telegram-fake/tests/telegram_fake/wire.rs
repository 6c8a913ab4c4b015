//! Tests of the Telegram fake with raw requests: faults, and the other ways to pass parameters.

use std::pin::pin;
use std::time::Duration;

use nanobot_channel_telegram_fake::{Fault, Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::WAIT_LIMIT;
use serde_json::{Value, json};

use crate::client;

async fn start() -> (TelegramFake, String) {
    let fake = TelegramFake::start().await.unwrap();
    fake.push(Incoming::private(&Person::new(7, "Ann", "ann_x"), "hi"));
    let base = format!("{}/bot{TOKEN}", fake.api_base());
    (fake, base)
}

#[tokio::test]
async fn faults_apply_once_each_in_order() {
    let (fake, base) = start().await;
    fake.fail_next("sendMessage", Fault::RetryAfter(3));
    fake.fail_next("sendMessage", Fault::bad_gateway());
    fake.fail_next("sendMessage", Fault::unauthorized());
    let send = || {
        client()
            .post(format!("{base}/sendMessage"))
            .json(&json!({"chat_id": 7, "text": "x"}))
            .send()
    };
    let expected = [
        json!({"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 3",
            "parameters": {"retry_after": 3}}),
        json!({"ok": false, "error_code": 502, "description": "Bad Gateway"}),
        json!({"ok": false, "error_code": 401, "description": "Unauthorized"}),
    ];
    for body in expected {
        let answer = send().await.unwrap();
        assert_eq!(
            u64::from(answer.status().as_u16()),
            body["error_code"].as_u64().unwrap()
        );
        assert_eq!(answer.json::<Value>().await.unwrap(), body);
    }
    assert_eq!(fake.sent().len(), 0);
    assert_eq!(send().await.unwrap().status(), 200);
    assert_eq!(
        (fake.sent().len(), fake.calls_of("sendMessage").len()),
        (1, 4)
    );
}

#[tokio::test]
async fn drop_faults_differ_in_the_effect_of_the_call() {
    let (fake, base) = start().await;
    let table = [
        (Fault::Drop, 0),
        (Fault::DropAfterEffect, 1),
        (Fault::Hang, 1),
        (Fault::HangAfterEffect, 2),
    ];
    for (call, (fault, sent)) in (1..).zip(table) {
        let is_silent = matches!(fault, Fault::Hang | Fault::HangAfterEffect);
        fake.fail_next("sendMessage", fault.clone());
        let mut answer = pin!(
            client()
                .post(format!("{base}/sendMessage"))
                .json(&json!({"chat_id": 7, "text": "x"}))
                .send()
        );
        tokio::select! {
            outcome = &mut answer => assert!(!is_silent && outcome.is_err(), "{fault:?}: {outcome:?}"),
            arrived = fake.wait_for_calls("sendMessage", call) => {
                arrived.unwrap();
                if is_silent {
                    let waited = tokio::time::timeout(Duration::from_millis(100), answer).await;
                    assert!(waited.is_err(), "{fault:?}: {waited:?}");
                } else {
                    let outcome = tokio::time::timeout(WAIT_LIMIT, answer).await.unwrap();
                    assert!(outcome.is_err(), "{fault:?}: {outcome:?}");
                }
            }
        }
        assert_eq!(fake.sent().len(), sent, "{fault:?}");
    }
}

#[tokio::test]
async fn parameters_are_accepted_as_query_or_form() {
    let (fake, base) = start().await;
    let get = client()
        .get(format!("{base}/SENDMESSAGE?chat_id=7&text=a%20b"))
        .send()
        .await
        .unwrap();
    assert_eq!(get.json::<Value>().await.unwrap()["result"]["text"], "a b");
    let form = "chat_id=7&text=1+2&reply_parameters=%7B%22message_id%22%3A1%7D";
    let post = client().post(format!("{base}/sendmessage")).body(form);
    post.header("content-type", "application/x-www-form-urlencoded")
        .send()
        .await
        .unwrap();
    let seen: Vec<_> = fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.reply_to))
        .collect();
    assert_eq!(
        seen,
        [("a b".to_owned(), None), ("1 2".to_owned(), Some(1))]
    );
    assert_eq!(
        fake.calls()[1].params,
        json!({"chat_id": 7, "text": "1 2", "reply_parameters": {"message_id": 1}})
    );
}

#[tokio::test]
async fn unknown_methods_and_paths_are_not_found() {
    let (fake, base) = start().await;
    let paths = [
        format!("{base}/makeCoffee"),
        format!("{}/file/bot{TOKEN}/photos/none.jpg", fake.api_base()),
        format!("{}/file/botwrong/x", fake.api_base()),
        fake.api_base(),
    ];
    for path in paths {
        let answer = client().get(&path).send().await.unwrap();
        assert_eq!(
            (
                answer.status().as_u16(),
                &answer.json::<Value>().await.unwrap()["description"]
            ),
            (404, &json!("Not Found")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn abandoned_poll_consumes_no_updates() {
    let (fake, base) = start().await;
    let confirmed = client()
        .get(format!("{base}/getUpdates?offset=-1"))
        .send()
        .await
        .unwrap();
    let id = confirmed.json::<Value>().await.unwrap()["result"][0]["update_id"]
        .as_i64()
        .unwrap();
    tokio::select! {
        answer = client().get(format!("{base}/getUpdates?timeout=30&offset={}", id + 1)).send() => panic!("{answer:?}"),
        calls = fake.wait_for_calls("getUpdates", 2) => assert!(calls.is_ok()),
    }
    fake.server().wait_for_abandoned(1).await.unwrap();
    let pushed = fake.push(Incoming::private(&Person::new(7, "Ann", "ann_x"), "again"));
    let answer = client()
        .get(format!("{base}/getUpdates"))
        .send()
        .await
        .unwrap()
        .json::<Value>()
        .await
        .unwrap();
    assert_eq!(answer["result"][0]["update_id"].as_i64(), pushed.update_id);
    assert_eq!(fake.conflicts(), 0);
}

#[tokio::test]
async fn drafts_are_previews_of_private_chats() {
    let (fake, base) = start().await;
    let ann = Person::new(7, "Ann", "ann_x");
    fake.push(Incoming::group(-42, &ann, "hi"));
    fake.push(Incoming::private(&ann, "in a topic").in_topic(5));
    let call = async |method: &str, params: Value| {
        let url = format!("{base}/{method}");
        let answer = client().post(url).json(&params).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let draft = async |params: Value| call("sendMessageDraft", params).await;
    let refusal =
        |description: &str| json!({"ok": false, "error_code": 400, "description": description});
    let table = [
        (
            json!({"chat_id": -42, "draft_id": 1, "text": "x"}),
            "Bad Request: TEXTDRAFT_PEER_INVALID",
        ),
        (
            json!({"chat_id": 99, "draft_id": 1, "text": "x"}),
            "Bad Request: chat not found",
        ),
        (
            json!({"chat_id": 7, "draft_id": 0, "text": "x"}),
            "Bad Request: TEXTDRAFT_ID_INVALID",
        ),
        (
            json!({"chat_id": 7, "text": "x"}),
            "Bad Request: TEXTDRAFT_ID_INVALID",
        ),
        (
            json!({"chat_id": 7, "draft_id": 1, "text": "😀".repeat(2049)}),
            "Bad Request: message is too long",
        ),
        (
            json!({"chat_id": 7, "draft_id": 1, "text": "x", "message_thread_id": 6}),
            "Bad Request: message thread not found",
        ),
    ];
    for (params, description) in table {
        assert_eq!(draft(params).await, refusal(description));
    }
    let markup = json!({"chat_id": 7, "draft_id": 1, "text": "<b>x", "parse_mode": "HTML"});
    assert_eq!(draft(markup).await["error_code"], 400);
    assert_eq!(fake.drafts_in(7), []);

    let ok = json!({"ok": true, "result": true});
    let texts = || {
        let drafts = fake.drafts_in(7).into_iter();
        drafts.map(|draft| draft.text).collect::<Vec<_>>()
    };
    let bold = json!({"chat_id": 7, "draft_id": 1, "text": "<b>on</b>", "parse_mode": "HTML"});
    assert_eq!(draft(bold).await, ok);
    let shown = fake.wait_for_draft(7, "on").await.unwrap();
    assert_eq!(
        (shown.draft_id, shown.entities.len(), shown.thread_id),
        (1, 1, None)
    );
    for (id, text) in [(1, "once"), (2, "")] {
        let params = json!({"chat_id": 7, "draft_id": id, "text": text});
        assert_eq!(draft(params).await, ok);
        assert_eq!(texts(), [text]);
    }
    let topic = json!({"chat_id": 7, "draft_id": 3, "text": "topic", "message_thread_id": 5});
    assert_eq!(draft(topic).await, ok);
    assert_eq!(texts(), ["", "topic"]);
    call("sendMessage", json!({"chat_id": 7, "text": "done"})).await;
    assert_eq!(
        texts(),
        ["topic"],
        "a message replaces the preview in its topic"
    );
    fake.advance(Duration::from_secs(29));
    assert_eq!(texts(), ["topic"]);
    draft(json!({"chat_id": 7, "draft_id": 4, "text": "again"})).await;
    fake.advance(Duration::from_secs(1));
    assert_eq!(texts(), ["again"]);
    assert_eq!(fake.texts_in(7), ["done"], "a preview is no message");
}
