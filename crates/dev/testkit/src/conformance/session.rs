//! Conformance suite for [`SessionStore`].

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use chrono::DateTime;
use futures_util::future::join_all;
use nanobot_session::{
    Entry, MessageEntry, ReadFrom, Record, Seq, SessionError, SessionStore, SessionView, TurnEnd,
    TurnOutcome,
};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, Map, MediaRef, MessageId, SessionKey,
    Timestamp, ToolCall, UserMessage,
};
use serde_json::json;

use super::same;

/// Runs the suite for [`SessionStore`]. `make` returns a new, empty store each time.
///
/// # Errors
/// Returns an error that names the first promise the store breaks.
pub async fn session_store<S: SessionStore>(
    make: impl AsyncFn() -> anyhow::Result<S>,
) -> anyhow::Result<()> {
    a_session_that_does_not_exist(&make().await?)
        .await
        .context("a session that does not exist")?;
    every_entry_comes_back(&make().await?)
        .await
        .context("every entry comes back as it was appended")?;
    a_stale_head_is_refused(&make().await?)
        .await
        .context("a stale head is refused")?;
    reading_starts_at_the_position(&make().await?)
        .await
        .context("reading begins where asked")?;
    the_cursor(&make().await?).await.context("the cursor")?;
    metadata_is_merged(&make().await?)
        .await
        .context("metadata is merged")?;
    answered_messages(&make().await?)
        .await
        .context("answered messages")?;
    keys_are_kept_apart(&make().await?)
        .await
        .context("keys are kept apart")?;
    writers_do_not_interleave(&make().await?)
        .await
        .context("writers do not interleave")?;
    listing(&make().await?).await.context("listing")
}

/// Returns a timestamp that survives rounding to microseconds.
fn moment(second: i64) -> Timestamp {
    DateTime::from_timestamp_micros((1_770_000_000 + second) * 1_000_000 + 123_456)
        .unwrap_or_default()
        .fixed_offset()
}

fn user_message(text: &str, second: i64) -> Entry {
    Entry::Message(MessageEntry {
        at: moment(second),
        ..MessageEntry::new(ChatMessage::user(text))
    })
}

fn ended(number: u32, inbound: &[&str]) -> Entry {
    Entry::TurnEnded(TurnEnd {
        turn: format!("turn-{number}").into(),
        inbound: inbound.iter().map(|id| MessageId::from(*id)).collect(),
        outcome: TurnOutcome::Replied,
        visible: Some("done".to_owned()),
    })
}

fn map(value: serde_json::Value) -> Map {
    match value {
        serde_json::Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn is_moved(result: &Result<Seq, SessionError>, expected: Seq, actual: Seq) -> bool {
    matches!(result, Err(SessionError::Moved { expected: e, actual: a, .. }) if *e == expected && *a == actual)
}

/// Returns the records that result from appending `entries` to an empty session.
fn records(entries: &[Entry]) -> Vec<Record> {
    let mut seq = Seq(0);
    let mut records = Vec::new();
    for entry in entries {
        records.push(Record {
            seq,
            entry: entry.clone(),
        });
        if matches!(entry, Entry::Message(_)) {
            seq = seq.next();
        }
    }
    records
}

async fn a_session_that_does_not_exist(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    for from in [
        ReadFrom::Cursor,
        ReadFrom::Seq(Seq(0)),
        ReadFrom::Seq(Seq(9)),
    ] {
        same(
            "it is empty",
            &store.read(&key, from).await?,
            &SessionView::default(),
        )?;
    }
    let refused = store.append(&key, Seq(1), vec![user_message("a", 0)]).await;
    ensure!(
        is_moved(&refused, Seq(1), Seq(0)),
        "its head is 0, but an append behind 1 gave {refused:?}"
    );
    same(
        "an append of nothing is no beginning",
        &store.append(&key, Seq(0), Vec::new()).await?,
        &Seq(0),
    )?;
    same("nothing is listed", &store.list().await?, &Vec::new())
}

/// Returns one entry of each kind, with every field that a message can carry.
fn all_kinds() -> Vec<Entry> {
    let call = ToolCall {
        extra: map(json!({"provider_specific_fields": {"a": [1]}})),
        ..ToolCall::new("call-1", "exec", "{\"command\": \"echo hi\"}")
    };
    let mut result = MessageEntry::new(ChatMessage::tool(&call, "hi\n\u{0}\r\n界 🦀 \u{2028}"));
    result.at = moment(2);
    result.extra = map(json!({"of_another_program": {"nested": [1, null, "x"]}}));
    let blocks = vec![
        ContentBlock::Text {
            text: "[image]".to_owned(),
        },
        ContentBlock::Other(json!({"type": "sticker", "id": 3})),
    ];
    vec![
        Entry::Message(MessageEntry {
            message: Arc::new(ChatMessage::User(UserMessage {
                content: "look".into(),
                media: vec![
                    MediaRef::new("/tmp/a.png"),
                    MediaRef {
                        location: "https://x.example/b".to_owned(),
                        mime: Some("image/png".to_owned()),
                    },
                ],
            })),
            inbound: Some("telegram:1:42".into()),
            runtime: Some("[Runtime Context]\nChannel: telegram\n[/Runtime Context]".to_owned()),
            at: moment(0),
            extra: Map::new(),
        }),
        Entry::Message(MessageEntry {
            at: moment(1),
            ..MessageEntry::new(ChatMessage::Assistant(AssistantMessage {
                content: None,
                tool_calls: vec![call],
                reasoning_content: Some("because".to_owned()),
                thinking_blocks: vec![json!({"signature": "s", "thinking": "t"})],
                provider: Some("anthropic".into()),
            }))
        }),
        Entry::Message(result),
        Entry::Message(MessageEntry {
            at: moment(3),
            ..MessageEntry::new(ChatMessage::User(UserMessage {
                content: Content::Blocks(blocks),
                media: Vec::new(),
            }))
        }),
        ended(1, &["telegram:1:42"]),
        Entry::Message(MessageEntry {
            at: moment(4),
            ..MessageEntry::new(ChatMessage::assistant("x".repeat(1 << 20)))
        }),
        Entry::Metadata(map(json!({"title": "t", "gone": null}))),
        Entry::Rewound { to: Seq(4) },
        Entry::Restored,
        Entry::Rewound { to: Seq(4) },
        Entry::Consolidated { upto: Seq(2) },
    ]
}

async fn every_entry_comes_back(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    let entries = all_kinds();
    let mut head = Seq(0);
    for entry in &entries {
        head = store.append(&key, head, vec![entry.clone()]).await?;
    }
    let view = store.read(&key, ReadFrom::Seq(Seq(0))).await?;
    let expected = SessionView {
        head: Seq(5),
        cursor: Seq(2),
        metadata: map(json!({"title": "t"})),
        answered: vec!["telegram:1:42".into()],
        records: records(&entries),
    };
    same("one by one", &view, &expected)?;
    let other = SessionKey::from("t:2");
    same(
        "the new head is returned",
        &store.append(&other, Seq(0), entries).await?,
        &Seq(5),
    )?;
    same(
        "all at once",
        &store.read(&other, ReadFrom::Seq(Seq(0))).await?,
        &expected,
    )
}

async fn a_stale_head_is_refused(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    store
        .append(
            &key,
            Seq(0),
            vec![user_message("a", 0), user_message("b", 1)],
        )
        .await?;
    let before = store.read(&key, ReadFrom::Seq(Seq(0))).await?;
    for head in [0, 1, 3] {
        for entries in [vec![user_message("c", 2)], Vec::new()] {
            let refused = store.append(&key, Seq(head), entries).await;
            ensure!(
                is_moved(&refused, Seq(head), Seq(2)),
                "an append behind {head} of 2 gave {refused:?}"
            );
        }
    }
    same(
        "nothing is appended then",
        &store.read(&key, ReadFrom::Seq(Seq(0))).await?,
        &before,
    )
}

async fn reading_starts_at_the_position(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    let entries = vec![
        user_message("a", 0),
        ended(1, &[]),
        user_message("b", 1),
        user_message("c", 2),
        ended(2, &[]),
    ];
    store.append(&key, Seq(0), entries.clone()).await?;
    let all = records(&entries);
    for from in 0..6 {
        let expected: Vec<Record> = all
            .iter()
            .filter(|record| record.seq >= Seq(from))
            .cloned()
            .collect();
        let found = store.read(&key, ReadFrom::Seq(Seq(from))).await?.records;
        let range = ReadFrom::Range {
            from: Seq(from),
            upto: Seq(from + 2),
        };
        let part: Vec<_> = found
            .iter()
            .filter(|record| record.seq < Seq(from + 2))
            .cloned()
            .collect();
        same(
            &format!("a range from {from}"),
            &store.read(&key, range).await?.records,
            &part,
        )?;
        same(&format!("at {from}"), &found, &expected)?;
    }
    Ok(())
}

async fn the_cursor(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    let mut entries = vec![
        user_message("a", 0),
        user_message("b", 1),
        user_message("c", 2),
    ];
    store.append(&key, Seq(0), entries.clone()).await?;
    for (entry, cursor) in [
        (Entry::Consolidated { upto: Seq(1) }, 1),
        (Entry::Consolidated { upto: Seq(2) }, 2),
        (Entry::Consolidated { upto: Seq(0) }, 2),
        (Entry::Rewound { to: Seq(2) }, 2),
        (Entry::Reset, 3),
        (Entry::Consolidated { upto: Seq(2) }, 3),
        (Entry::Consolidated { upto: Seq(99) }, 3),
    ] {
        store.append(&key, Seq(3), vec![entry.clone()]).await?;
        entries.push(entry);
        let view = store.read(&key, ReadFrom::Cursor).await?;
        same(
            "it moves forward, never past the end",
            &view.cursor,
            &Seq(cursor),
        )?;
        let expected: Vec<Record> = records(&entries)
            .into_iter()
            .filter(|record| record.seq >= Seq(cursor))
            .collect();
        same("reading begins at it", &view.records, &expected)?;
    }
    let view = store.read(&key, ReadFrom::Seq(Seq(0))).await?;
    same(
        "nothing before it is lost",
        &view.records,
        &records(&entries),
    )
}

async fn metadata_is_merged(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    let changes = [
        json!({"a": 1, "b": {"c": 2}}),
        json!({"b": 3, "d": "x"}),
        json!({"a": null, "nothing": null}),
    ];
    for change in changes {
        store
            .append(&key, Seq(0), vec![Entry::Metadata(map(change))])
            .await?;
    }
    let view = store.read(&key, ReadFrom::Cursor).await?;
    same(
        "null removes, the rest replaces",
        &view.metadata,
        &map(json!({"b": 3, "d": "x"})),
    )
}

async fn answered_messages(store: &impl SessionStore) -> anyhow::Result<()> {
    let key = SessionKey::from("t:1");
    let mut head = store
        .append(
            &key,
            Seq(0),
            vec![ended(0, &["m:a", "m:b"]), ended(1, &["m:c"])],
        )
        .await?;
    let ids = |ids: &[&str]| {
        ids.iter()
            .map(|id| MessageId::from(*id))
            .collect::<Vec<_>>()
    };
    let view = store.read(&key, ReadFrom::Cursor).await?;
    same(
        "the newest is last",
        &view.answered,
        &ids(&["m:a", "m:b", "m:c"]),
    )?;
    head = store
        .append(&key, head, vec![user_message("x", 0), Entry::Reset])
        .await?;
    let view = store.read(&key, ReadFrom::Cursor).await?;
    same(
        "also before the cursor",
        &view.answered,
        &ids(&["m:a", "m:b", "m:c"]),
    )?;
    for number in 2..200 {
        store
            .append(&key, head, vec![ended(number, &[&format!("m:{number}")])])
            .await?;
    }
    let answered = store.read(&key, ReadFrom::Cursor).await?.answered;
    ensure!(
        answered.last() == Some(&MessageId::from("m:199")),
        "the newest is remembered: {answered:?}"
    );
    ensure!(
        (8..200).contains(&answered.len()),
        "their number is bounded: {}",
        answered.len()
    );
    Ok(())
}

async fn keys_are_kept_apart(store: &impl SessionStore) -> anyhow::Result<()> {
    let keys = [
        "a:b_c",
        "a_b:c",
        "A:b_c",
        "a:b/c",
        "a:../c",
        "..",
        "a:b?c",
        " a:b",
        "界:🦀",
        "a:b",
        "cli:direct",
    ];
    for (number, key) in (0..).zip(keys) {
        store
            .append(&key.into(), Seq(0), vec![user_message(key, number)])
            .await
            .with_context(|| key.to_owned())?;
    }
    for (number, key) in (0..).zip(keys) {
        let view = store.read(&key.into(), ReadFrom::Cursor).await?;
        same(key, &view.records, &records(&[user_message(key, number)]))?;
    }
    let mut listed: Vec<String> = store
        .list()
        .await?
        .into_iter()
        .map(|info| info.key.to_string())
        .collect();
    listed.sort();
    let mut expected = keys.map(str::to_owned).to_vec();
    expected.sort();
    same("each is listed under its own name", &listed, &expected)
}

/// Appends a pair of messages, rereading the head whenever another writer moved it.
async fn append_pair(
    store: &impl SessionStore,
    key: &SessionKey,
    writer: i64,
) -> anyhow::Result<()> {
    loop {
        let head = store.read(key, ReadFrom::Cursor).await?.head;
        let pair = vec![
            user_message(&format!("{writer} first"), writer),
            user_message(&format!("{writer} second"), writer),
        ];
        match store.append(key, head, pair).await {
            Err(SessionError::Moved { .. }) => {}
            appended => return appended.map(drop).map_err(Into::into),
        }
    }
}

async fn writers_do_not_interleave(store: &impl SessionStore) -> anyhow::Result<()> {
    const WRITERS: i64 = 12;
    let keys = [SessionKey::from("t:1"), SessionKey::from("t:2")];
    let writers = (0..WRITERS).flat_map(|writer| keys.iter().map(move |key| (writer, key)));
    for done in join_all(writers.map(|(writer, key)| append_pair(store, key, writer))).await {
        done?;
    }
    for key in &keys {
        let view = store.read(key, ReadFrom::Cursor).await?;
        let texts = view.records.iter().map(|record| match &record.entry {
            Entry::Message(entry) => entry.message.text(),
            other => format!("{other:?}"),
        });
        let texts: Vec<String> = texts.collect();
        let mut pairs: Vec<&[String]> = texts.chunks(2).collect();
        pairs.sort();
        let expected: Vec<[String; 2]> = (0..WRITERS)
            .map(|w| [format!("{w} first"), format!("{w} second")])
            .collect();
        let mut expected: Vec<&[String]> = expected.iter().map(<[String; 2]>::as_slice).collect();
        expected.sort();
        same("every pair is whole and there once", &pairs, &expected)?;
    }
    Ok(())
}

async fn listing(store: &impl SessionStore) -> anyhow::Result<()> {
    let title = map(json!({"title": "b"}));
    store
        .append(
            &"t:a".into(),
            Seq(0),
            vec![user_message("1", 0), user_message("2", 1)],
        )
        .await?;
    store
        .append(
            &"t:b".into(),
            Seq(0),
            vec![user_message("1", 0), Entry::Metadata(title.clone())],
        )
        .await?;
    store
        .append(&"t:a".into(), Seq(2), vec![ended(1, &[])])
        .await?;
    let list = store.list().await?;
    let found: Vec<(&str, u64, &Map)> = list
        .iter()
        .map(|info| (info.key.as_str(), info.messages, &info.metadata))
        .collect();
    same(
        "the latest first",
        &found,
        &vec![("t:a", 2, &Map::new()), ("t:b", 1, &title)],
    )?;
    ensure!(
        list.iter()
            .all(|info| info.created_at.is_some() && info.created_at <= info.updated_at),
        "sessions of this store know their times: {list:#?}"
    );
    Ok(())
}
