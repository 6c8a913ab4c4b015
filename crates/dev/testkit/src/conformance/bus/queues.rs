//! Queues: messages arrive whole, in order, once and at the right consumer.

use anyhow::ensure;
use futures_util::future::join_all;
use nanobot_bus::{Accepted, Bus};
use nanobot_types::{InboundMessage, MediaRef, OutboundKind};
use serde_json::json;

use super::{
    DeliverySnapshot, all_seen, channel, hold, inbound_message, next, reply, reply_of, seen,
};
use crate::conformance::same;

pub(super) async fn messages_arrive_whole_and_in_order(bus: &impl Bus) -> anyhow::Result<()> {
    let mut first = inbound_message("1");
    first.content = "你好 \u{1f44b}\nline".to_owned();
    first.media = vec![MediaRef {
        location: "/tmp/a.png".to_owned(),
        mime: Some("image/png".to_owned()),
    }];
    first
        .metadata
        .insert("message_id".to_owned(), json!({"n": 1, "s": [null, true]}));
    first.session_key_override = Some("telegram:42:topic:7".into());
    first.delivery.thread = Some("7".to_owned());
    let inbound = [first, inbound_message("2"), inbound_message("3")];
    for message in &inbound {
        same(
            "a message is new",
            &bus.publish_inbound(message.clone()).await?,
            &Accepted::New,
        )?;
    }
    let mut subscription = bus.inbound().await?;
    let held = hold(&mut subscription, 3).await?;
    same(
        "unsettled messages do not hold up later ones",
        &all_seen(&held),
        &inbound.map(DeliverySnapshot::first).into(),
    )?;

    let mut second = reply_of(2, OutboundKind::Notice, "careful");
    second.buttons = vec![vec![nanobot_types::Button {
        label: "yes".to_owned(),
    }]];
    let outbound = [reply(1), second];
    for message in &outbound {
        same(
            "a message is new",
            &bus.publish_outbound(message.clone()).await?,
            &Accepted::New,
        )?;
    }
    let mut subscription = bus.outbound(&channel()).await?;
    let held = hold(&mut subscription, 2).await?;
    same(
        "so do messages to people",
        &all_seen(&held),
        &outbound.map(DeliverySnapshot::first).into(),
    )
}

pub(super) async fn waiting_consumers_are_woken(bus: &impl Bus) -> anyhow::Result<()> {
    let (message, answer) = (inbound_message("1"), reply(1));
    let mut inbound = bus.inbound().await?;
    let mut outbound = bus.outbound(&channel()).await?;
    let publish = async {
        bus.publish_inbound(message.clone()).await?;
        bus.publish_outbound(answer.clone()).await
    };
    let (person, to_person, published) =
        futures_util::join!(next(&mut inbound), next(&mut outbound), publish);
    published?;
    same(
        "an inbound consumer is woken",
        &seen(&person?),
        &DeliverySnapshot::first(message),
    )?;
    same(
        "an outbound consumer is woken",
        &seen(&to_person?),
        &DeliverySnapshot::first(answer),
    )
}

pub(super) async fn inbound_duplicates(bus: &impl Bus) -> anyhow::Result<()> {
    let elsewhere = |channel: &str, chat: &str| InboundMessage {
        channel: channel.into(),
        chat_id: chat.into(),
        ..inbound_message("1")
    };
    let table = [
        ("a first message", inbound_message("1"), Accepted::New),
        ("the same again", inbound_message("1"), Accepted::Duplicate),
        (
            "the same with another text",
            InboundMessage {
                content: "edited".to_owned(),
                ..inbound_message("1")
            },
            Accepted::Duplicate,
        ),
        ("another id", inbound_message("2"), Accepted::New),
        (
            "the id in another chat",
            elsewhere("telegram", "43"),
            Accepted::New,
        ),
        (
            "the id on another instance",
            elsewhere("telegram-work", "42"),
            Accepted::New,
        ),
        (
            "a chat that looks like another",
            elsewhere("telegram", "42:1"),
            Accepted::New,
        ),
        (
            "an instance that looks like another",
            elsewhere("telegram:42", "1"),
            Accepted::New,
        ),
        (
            "no id",
            InboundMessage {
                id: None,
                ..inbound_message("3")
            },
            Accepted::New,
        ),
        (
            "no id, again",
            InboundMessage {
                id: None,
                ..inbound_message("3")
            },
            Accepted::New,
        ),
    ];
    let mut expected = Vec::new();
    for (what, message, accepted) in table {
        same(
            what,
            &bus.publish_inbound(message.clone()).await?,
            &accepted,
        )?;
        if accepted == Accepted::New {
            expected.push(message.content);
        }
    }
    let mut subscription = bus.inbound().await?;
    let held = hold(&mut subscription, expected.len()).await?;
    let contents: Vec<_> = held
        .iter()
        .map(|delivery| delivery.message.content.clone())
        .collect();
    same("only new messages are delivered", &contents, &expected)?;
    let named: Vec<_> = held
        .iter()
        .filter_map(|delivery| delivery.message.id.clone())
        .collect();
    same(
        "every message has an id by now",
        &named.len(),
        &expected.len(),
    )?;
    ensure!(
        named.last() != named.iter().nth_back(1),
        "those that had none are told apart: {named:?}"
    );
    for delivery in held {
        delivery.ack().await?;
    }
    same(
        "a settled message",
        &bus.publish_inbound(inbound_message("1")).await?,
        &Accepted::Duplicate,
    )
}

pub(super) async fn outbound_duplicates(bus: &impl Bus) -> anyhow::Result<()> {
    same(
        "a first message",
        &bus.publish_outbound(reply(1)).await?,
        &Accepted::New,
    )?;
    let other_text = reply_of(1, OutboundKind::Notice, "something else");
    same(
        "its key with another text",
        &bus.publish_outbound(other_text).await?,
        &Accepted::Duplicate,
    )?;
    let mut subscription = bus.outbound(&channel()).await?;
    next(&mut subscription).await?.ack().await?;
    same(
        "its key after it was sent",
        &bus.publish_outbound(reply(1)).await?,
        &Accepted::Duplicate,
    )?;
    same(
        "another position",
        &bus.publish_outbound(reply(2)).await?,
        &Accepted::New,
    )?;
    same(
        "only new messages are delivered",
        &next(&mut subscription).await?.message.key,
        &reply(2).key,
    )
}

pub(super) async fn racing_publishers(bus: &impl Bus) -> anyhow::Result<()> {
    let accepted = join_all((0..20).map(|_| bus.publish_inbound(inbound_message("same")))).await;
    let accepted = accepted.into_iter().collect::<Result<Vec<_>, _>>()?;
    let new = accepted
        .iter()
        .filter(|accepted| **accepted == Accepted::New)
        .count();
    same("one of many equal messages is new", &new, &1)?;
    let mut ids: Vec<_> = (0..100).map(|n| format!("m{n:03}")).collect();
    for accepted in join_all(
        ids.iter()
            .map(|id| bus.publish_inbound(inbound_message(id))),
    )
    .await
    {
        same("every other is new", &accepted?, &Accepted::New)?;
    }
    ids.push("same".to_owned());
    let mut subscription = bus.inbound().await?;
    let mut contents = Vec::new();
    for _ in 0..ids.len() {
        let delivery = next(&mut subscription).await?;
        contents.push(delivery.message.content.clone());
        delivery.ack().await?;
    }
    contents.sort();
    same("each is delivered once", &contents, &ids)
}

pub(super) async fn channels_are_kept_apart(bus: &impl Bus) -> anyhow::Result<()> {
    let mut elsewhere = reply(1);
    elsewhere.channel = "discord".into();
    bus.publish_outbound(elsewhere.clone()).await?;
    bus.publish_outbound(reply(2)).await?;
    let mut telegram = bus.outbound(&channel()).await?;
    same(
        "a channel sees its own",
        &next(&mut telegram).await?.message,
        &reply(2),
    )?;
    let mut discord = bus.outbound(&"discord".into()).await?;
    same(
        "so does another",
        &next(&mut discord).await?.message,
        &elsewhere,
    )
}
