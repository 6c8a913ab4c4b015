//! Native tables in messages and drafts.

use nanobot_channel::{Block, Button, InboundMessage, OutboundKind, OutboundPart, StreamId, Table};
use nanobot_channel_slack_fake::{Fault, SentMessage};
use serde_json::{Value, json};

use crate::support::{Running, ann, channel, reply, with};

const TEXT: &str = "*Look*\n```\na  b\n─  ─\n1\n```";

fn with_table(inbound: &InboundMessage) -> OutboundPart {
    let rows = vec![
        vec!["a".to_owned(), "b".to_owned()],
        vec!["1".to_owned(), String::new()],
    ];
    let table = Block::Table(Table {
        rows,
        right: vec![false, true],
    });
    OutboundPart {
        blocks: vec![Block::Text("*Look*".to_owned()), table],
        ..reply(inbound, TEXT)
    }
}

fn with_buttons(part: OutboundPart) -> OutboundPart {
    with(part, |message| {
        message.buttons = vec![vec![Button {
            label: "Yes".to_owned(),
        }]];
    })
}

/// Returns the types of the blocks of a message.
fn kinds(sent: &SentMessage) -> Vec<&str> {
    sent.blocks
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|block| block["type"].as_str())
        .collect()
}

#[tokio::test]
async fn table_is_between_text_and_buttons() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = with_buttons(with_table(&hello));
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    assert_eq!(
        (kinds(&sent[0]), sent[0].text.as_str()),
        (vec!["section", "table", "actions"], TEXT)
    );
    let cell = |text: &str| {
        let section =
            json!({"type": "rich_text_section", "elements": [{"type": "text", "text": text}]});
        json!({"type": "rich_text", "elements": [section]})
    };
    assert_eq!(
        sent[0].blocks[1]["rows"],
        json!([[cell("a"), cell("b")], [cell("1"), cell(" ")]])
    );
    // It is found by its name.
    let restarted = channel(&running.fake, &json!({}));
    restarted
        .send(&OutboundPart {
            in_doubt: true,
            ..part
        })
        .await
        .unwrap();
    assert_eq!(running.fake.sent().len(), 1);
    // What was pressed is shown in place of the buttons, below the table.
    running
        .fake
        .press(&ann().direct(), &sent[0].ts, &ann(), "Yes")
        .unwrap();
    let is_shown =
        |sent: &[SentMessage]| (kinds(&sent[0]) == ["section", "table", "context"]).then_some(());
    running.fake.wait_for("the choice", is_shown).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn refused_table_is_sent_as_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for (number, code) in (0..).zip([
        "invalid_blocks",
        "invalid_attachments",
        "msg_blocks_too_long",
    ]) {
        running
            .fake
            .fail_next("chat.postMessage", Fault::error(code));
        running
            .channel
            .send(&with(with_table(&hello), |message| {
                message.key.position = number;
            }))
            .await
            .unwrap();
    }
    running
        .fake
        .fail_next("chat.postMessage", Fault::error("invalid_blocks"));
    running
        .channel
        .send(&with_buttons(with(with_table(&hello), |message| {
            message.key.position = 3;
        })))
        .await
        .unwrap();
    let sent = running.fake.sent();
    let shown: Vec<_> = sent
        .iter()
        .map(|sent| (sent.text.as_str(), kinds(sent)))
        .collect();
    let with_choice = format!("{TEXT}\n[Yes]");
    let expected = [
        (TEXT, vec![]),
        (TEXT, vec![]),
        (TEXT, vec![]),
        (with_choice.as_str(), vec!["section", "actions"]),
    ];
    assert_eq!(shown, expected);
    running.stop().await;
}

#[tokio::test]
async fn draft_is_completed_with_a_table_or_its_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for (number, fault) in (0..).zip([None, Some(Fault::error("invalid_blocks"))]) {
        let stream = StreamId::from(format!("stream-{number}"));
        let part = with(with_table(&hello), |message| {
            message.key.position = number;
            message.completes = Some(stream.clone());
        });
        let mut delta = (*part.message).clone();
        delta.kind = OutboundKind::Delta { stream };
        delta.content = format!("draft {number}");
        running
            .channel
            .drafts()
            .unwrap()
            .append(&delta)
            .await
            .unwrap();
        let is_shown = |sent: &[SentMessage]| {
            sent.iter()
                .any(|sent| sent.text == delta.content)
                .then_some(())
        };
        running.fake.wait_for("the draft", is_shown).await.unwrap();
        if let Some(fault) = fault {
            running.fake.fail_next("chat.update", fault);
        }
        running.channel.send(&part).await.unwrap();
    }
    let sent = running.fake.sent();
    let shown: Vec<_> = sent
        .iter()
        .map(|sent| (sent.text.as_str(), kinds(sent), sent.history.len()))
        .collect();
    assert_eq!(
        shown,
        [(TEXT, vec!["section", "table"], 1), (TEXT, vec![], 1)]
    );
    assert_eq!(sent[1].blocks, Value::Null);
    running.stop().await;
}
