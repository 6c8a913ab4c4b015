//! Replies, files, targets, and sends with an uncertain outcome.

use nanobot_channel::{
    Button, ChannelError, DeliveryGuarantee, Format, Measure, MediaRef, OutboundPart, SendRecovery,
    TextStyle,
};
use nanobot_channel_slack::Mrkdwn;
use nanobot_channel_slack_fake::{Fault, Incoming, SentMessage, SlackFake};
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, mallory, reply, with};

fn button(label: &str) -> Button {
    Button {
        label: label.to_owned(),
    }
}

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = SlackFake::start().await.unwrap();
    let plain = channel(&fake, &json!({"streaming": false}));
    let style = TextStyle {
        format: Format::Markup(&Mrkdwn),
        measure: Measure::CodePoints,
        limit: 39_000,
    };
    assert_eq!(format!("{:?}", plain.text_style()), format!("{style:?}"));
    assert_eq!(plain.guarantee(), DeliveryGuarantee::Detectable);
    assert!(plain.drafts().is_none() && plain.turn_ends().is_some() && plain.typing().is_none());
    assert_eq!(
        plain.probe().unwrap().probe().await.unwrap(),
        "@nanobot in Test"
    );
    assert!(channel(&fake, &json!({})).drafts().is_some());
}

#[tokio::test]
async fn replies_are_posted_in_their_thread() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::to(ROOM, &ann(), "a question"));
    let question = running.assistant.message(1).await.unwrap();
    running
        .channel
        .send(&reply(&question, "an *answer*"))
        .await
        .unwrap();
    running.fake.push(Incoming::direct(&ann(), "hello"));
    let hello = running.assistant.message(2).await.unwrap();
    running.channel.send(&reply(&hello, "hi")).await.unwrap();
    let sent = running.fake.sent();
    let places: Vec<_> = sent
        .iter()
        .map(|sent| {
            (
                sent.channel.as_str(),
                sent.thread.clone(),
                sent.text.as_str(),
            )
        })
        .collect();
    let thread = question.id.map(|id| id.to_string());
    assert_eq!(
        places,
        [
            (ROOM, thread, "an *answer*"),
            (ann().direct().as_str(), None, "hi")
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn targets_are_resolved_by_name() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for number in 0..250 {
        running.fake.add_channel(
            &format!("C{number}"),
            &format!("channel-{number}"),
            number != 7,
        );
    }
    running.fake.add_person(&mallory());
    let table = [
        ("#channel-249", Ok("C249")),
        ("#channel-249", Ok("C249")),
        ("C12", Ok("C12")),
        ("<#C13|channel-13>", Ok("C13")),
        ("U0MALLORY", Ok("D0MALLORY")),
        ("<@U0MALLORY>", Ok("D0MALLORY")),
        ("@mallory Real", Ok("D0MALLORY")),
        (
            "#nowhere",
            Err("cannot deliver there: there is no `#nowhere` that the app can see"),
        ),
        (
            "@nobody",
            Err("cannot deliver there: there is no `@nobody` that the app can see"),
        ),
        ("U0NOBODY", Err("cannot deliver there: user_not_found")),
        ("#channel-7", Err("cannot deliver there: not_in_channel")),
        ("C999", Err("cannot deliver there: channel_not_found")),
        (
            "somewhere",
            Err("cannot deliver there: `somewhere` is no channel, person or id of Slack"),
        ),
    ];
    for (target, expected) in table {
        let part = with(reply(&hello, "there"), |message| {
            message.chat_id = target.into();
        });
        let sent = running.channel.send(&part).await;
        let place = running.fake.sent().last().map(|sent| sent.channel.clone());
        match expected {
            Ok(chat) => assert_eq!(
                (sent.map(drop).map_err(|e| e.to_string()), place),
                (Ok(()), Some(chat.to_owned()))
            ),
            Err(text) => assert_eq!(sent.unwrap_err().to_string(), text, "{target}"),
        }
    }
    // Two pages once for the channel that is there, two for each that is not or that came later.
    assert_eq!(running.fake.calls_of("conversations.list").len(), 5);
    running.stop().await;
}

#[tokio::test]
async fn buttons_are_below_their_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let rows = vec![vec![button("Yes"), button("<No>")]];
    let part = with(reply(&hello, "really?"), |message| {
        message.buttons.clone_from(&rows);
    });
    running.channel.send(&part).await.unwrap();
    // What does not fit above buttons goes before them.
    let long = "x".repeat(3001);
    running
        .channel
        .send(&with(reply(&hello, &long), |message| {
            message.buttons.clone_from(&rows);
        }))
        .await
        .unwrap();
    // Only the last part has them.
    let first = OutboundPart {
        count: 2,
        ..with(reply(&hello, "one"), |message| {
            message.buttons.clone_from(&rows);
        })
    };
    running.channel.send(&first).await.unwrap();
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text.len(), sent.blocks.as_array().map(Vec::len)))
        .collect();
    let choices = "[Yes] [&lt;No&gt;]".len();
    assert_eq!(
        shown,
        [
            ("really?\n".len() + choices, Some(2)),
            (3001, None),
            (choices, Some(1)),
            (3, None)
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn files_precede_the_text_and_are_not_resent() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot 1.png");
    std::fs::write(&path, "PNG").unwrap();
    let nothing = folder.path().join("nothing.txt");
    std::fs::write(&nothing, "").unwrap();
    let media = vec![
        MediaRef::new(path.to_str().unwrap()),
        MediaRef::new("https://pictures.test/cat.png?a=1&b=2"),
        MediaRef::new(nothing.to_str().unwrap()),
    ];
    let part = with(reply(&hello, "here"), |message| message.media = media);
    // The bytes do not get through, then the text does not.
    running.fake.fail_next("upload", Fault::Status(500));
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running
        .fake
        .fail_next("files.completeUploadExternal", Fault::RetryAfter(7));
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limited for 7000 ms");
    for text in [
        "<https://pictures.test/cat.png?a=1&amp;b=2>",
        "[Failed to send: nothing.txt]",
        "here",
    ] {
        running
            .fake
            .fail_next("chat.postMessage", Fault::Status(503));
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(
            error.recovery(),
            SendRecovery::Retry { after: None },
            "{text}"
        );
    }
    running.channel.send(&part).await.unwrap();
    let shown = |sent: SentMessage| {
        sent.file.map_or(sent.text, |file| {
            format!("{} of {}", file.bytes.len(), file.name)
        })
    };
    let shown: Vec<_> = running.fake.sent().into_iter().map(shown).collect();
    let expected = [
        "3 of plot 1.png",
        "<https://pictures.test/cat.png?a=1&amp;b=2>",
        "[Failed to send: nothing.txt]",
        "here",
    ];
    assert_eq!(shown, expected);
    running.stop().await;
}

#[tokio::test]
async fn ambiguous_send_is_found_by_its_metadata() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::to(ROOM, &ann(), "a question"));
    let threaded = running.assistant.message(1).await.unwrap();
    running.fake.push(Incoming::direct(&ann(), "hello"));
    let direct = running.assistant.message(2).await.unwrap();
    for (number, inbound) in (0..).zip([&threaded, &direct, &threaded, &direct]) {
        let fault = if number < 2 {
            Fault::DropAfterEffect
        } else {
            Fault::ErrorAfterEffect("internal_error".to_owned())
        };
        running.fake.fail_next("chat.postMessage", fault);
        let part = with(reply(inbound, &format!("number {number}")), |message| {
            message.key.position = number;
        });
        let sent = running.channel.send(&part).await.unwrap();
        assert_eq!(
            sent.message_id.map(|id| id.to_string()),
            running.fake.sent().last().map(|sent| sent.ts.clone())
        );
    }
    assert_eq!(running.fake.sent().len(), 4);
    running.stop().await;
}

#[tokio::test]
async fn undelivered_message_is_sent_again() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = reply(&hello, "once");
    running.fake.fail_next("chat.postMessage", Fault::Drop);
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    // The next try looks again before it sends.
    let looks = running.fake.calls_of("conversations.history").len();
    running.channel.send(&part).await.unwrap();
    assert_eq!(
        running.fake.calls_of("conversations.history").len(),
        looks + 1
    );
    assert_eq!(running.fake.texts_in(&ann().direct()), ["once"]);
    // Without the scope to search, the outcome stays uncertain.
    running
        .fake
        .fail_next("chat.postMessage", Fault::DropAfterEffect);
    running
        .fake
        .fail_next("conversations.history", Fault::error("missing_scope"));
    let other = with(reply(&hello, "who knows"), |message| {
        message.key.position = 1;
    });
    let error = running.channel.send(&other).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    running.stop().await;
}

#[tokio::test]
async fn without_readable_metadata_the_outcome_stays_uncertain() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.hide_metadata();
    running
        .fake
        .fail_next("chat.postMessage", Fault::DropAfterEffect);
    let part = reply(&hello, "once");
    for in_doubt in [false, true] {
        let error = running
            .channel
            .send(&OutboundPart {
                in_doubt,
                ..part.clone()
            })
            .await
            .unwrap_err();
        assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    }
    assert_eq!(running.fake.texts_in(&ann().direct()), ["once"]);
    running.stop().await;
}
