//! Conformance suite for [`MemoryStore`].

use anyhow::{Context as _, ensure};
use chrono::{Local, NaiveDate};
use futures_util::future::join_all;
use nanobot_memory::{Facts, MemoryError, MemoryStore, Reason, Scope};

use super::same;

/// Runs the suite for [`MemoryStore`]. `make` returns a new, empty store each time. A store may
/// refuse scopes other than [`Scope::Shared`], but must never answer with the memory of another
/// scope.
///
/// # Errors
/// Returns an error that names the first promise the store breaks.
pub async fn memory_store<M: MemoryStore>(
    make: impl AsyncFn() -> anyhow::Result<M>,
) -> anyhow::Result<()> {
    facts_are_replaced_whole(&make().await?)
        .await
        .context("facts are replaced whole")?;
    stale_facts_are_refused(&make().await?)
        .await
        .context("stale facts are refused")?;
    one_of_many_writers_wins(&make().await?)
        .await
        .context("one of many writers wins")?;
    history_is_separate_from_facts(&make().await?)
        .await
        .context("history is beside the facts")?;
    reading_creates_no_notes(&make().await?)
        .await
        .context("notes are not made by reading")?;
    scopes_are_kept_apart(&make().await?)
        .await
        .context("scopes are kept apart")?;
    changes_can_be_reviewed(&make().await?)
        .await
        .context("changes can be reviewed and undone")
}

async fn facts_are_replaced_whole(store: &impl MemoryStore) -> anyhow::Result<()> {
    let empty = store.facts(&Scope::Shared).await?;
    same("none yet is an empty text", &empty.text.as_str(), &"")?;
    let mut base = empty.revision;
    for text in [
        "# Facts\n- likes 茶 🍵\n",
        "no newline at the end",
        "\u{0}\r\n",
        "",
    ] {
        base = store
            .replace_facts(&Scope::Shared, text.to_owned(), base, &Reason::Found)
            .await?;
        let expected = Facts {
            text: text.to_owned(),
            revision: base,
        };
        same(
            "what was written is read, under the revision returned",
            &store.facts(&Scope::Shared).await?,
            &expected,
        )?;
    }
    Ok(())
}

async fn stale_facts_are_refused(store: &impl MemoryStore) -> anyhow::Result<()> {
    let first = store.facts(&Scope::Shared).await?.revision;
    let second = store
        .replace_facts(&Scope::Shared, "a".to_owned(), first, &Reason::Found)
        .await?;
    ensure!(first != second, "other facts have another revision");
    let refused = store
        .replace_facts(&Scope::Shared, "b".to_owned(), first, &Reason::Found)
        .await;
    ensure!(
        matches!(refused, Err(MemoryError::Changed)),
        "an old base gave {refused:?}"
    );
    same(
        "they are as they were",
        &store.facts(&Scope::Shared).await?,
        &Facts {
            text: "a".to_owned(),
            revision: second,
        },
    )?;
    let again = store
        .replace_facts(&Scope::Shared, "a".to_owned(), second, &Reason::Found)
        .await?;
    same("the same text keeps its revision", &again, &second)
}

async fn one_of_many_writers_wins(store: &impl MemoryStore) -> anyhow::Result<()> {
    let base = store.facts(&Scope::Shared).await?.revision;
    let writers = (0..8).map(|writer| {
        store.replace_facts(
            &Scope::Shared,
            format!("writer {writer}"),
            base,
            &Reason::Found,
        )
    });
    let results = join_all(writers).await;
    let won: Vec<usize> = (0..)
        .zip(&results)
        .filter(|(_, result)| result.is_ok())
        .map(|(writer, _)| writer)
        .collect();
    let [winner] = won.as_slice() else {
        anyhow::bail!("writers {won:?} replaced the same facts");
    };
    same(
        "its text stands",
        &store.facts(&Scope::Shared).await?.text,
        &format!("writer {winner}"),
    )
}

async fn history_is_separate_from_facts(store: &impl MemoryStore) -> anyhow::Result<()> {
    let before = store.facts(&Scope::Shared).await?;
    for entry in [
        "[2026-03-15 14:30] talked about tea",
        "two\nlines\n\n\n",
        "",
    ] {
        store
            .append_history(&Scope::Shared, Local::now().fixed_offset(), entry)
            .await?;
    }
    for (entry, is_there) in [
        ("two\nlines", true),
        ("[2026-03-15 14:30] talked about tea\n", true),
        ("about tea", false),
    ] {
        same(
            entry,
            &store.has_history(&Scope::Shared, entry).await?,
            &is_there,
        )?;
    }
    same(
        "facts are untouched",
        &store.facts(&Scope::Shared).await?,
        &before,
    )
}

async fn reading_creates_no_notes(store: &impl MemoryStore) -> anyhow::Result<()> {
    for date in [Local::now().date_naive(), NaiveDate::MIN, NaiveDate::MAX] {
        same(
            "there is no note",
            &store.day_note(&Scope::Shared, date).await?,
            &None,
        )?;
    }
    for days in [0, 7, u32::MAX] {
        same(
            "nor a recent one",
            &store.recent(&Scope::Shared, days).await?,
            &Vec::new(),
        )?;
    }
    Ok(())
}

async fn scopes_are_kept_apart(store: &impl MemoryStore) -> anyhow::Result<()> {
    let base = store.facts(&Scope::Shared).await?.revision;
    store
        .replace_facts(
            &Scope::Shared,
            "everybody's".to_owned(),
            base,
            &Reason::Found,
        )
        .await?;
    for scope in [
        Scope::Person("1".into()),
        Scope::Person("2".into()),
        Scope::Room("t:1".into()),
    ] {
        match store.facts(&scope).await {
            Err(MemoryError::Unsupported { .. }) => {
                let wrote = store
                    .append_history(&scope, Local::now().fixed_offset(), "x")
                    .await;
                ensure!(
                    matches!(wrote, Err(MemoryError::Unsupported { .. })),
                    "{scope} can be written but not read"
                );
            }
            facts => {
                let facts = facts?;
                same(&format!("{scope} begins empty"), &facts.text.as_str(), &"")?;
                store
                    .replace_facts(&scope, scope.to_string(), facts.revision, &Reason::Found)
                    .await?;
            }
        }
    }
    same(
        "everybody's are as they were",
        &store.facts(&Scope::Shared).await?.text.as_str(),
        &"everybody's",
    )
}

/// Runs only for stores that keep versions.
async fn changes_can_be_reviewed(store: &impl MemoryStore) -> anyhow::Result<()> {
    let Some(versions) = store.versions() else {
        return Ok(());
    };
    let scope = Scope::Shared;
    same(
        "nothing was changed yet",
        &versions.log(&scope).await?,
        &Vec::new(),
    )?;
    let summary = Reason::Consolidation {
        session: "telegram:1".into(),
    };
    let turn = Reason::Turn {
        session: "cli:direct".into(),
        turn: "t".into(),
    };
    let mut base = store.facts(&scope).await?.revision;
    for (text, reason) in [
        ("- tea\n", &summary),
        ("- coffee\n", &turn),
        ("- coffee\n", &turn),
    ] {
        base = store
            .replace_facts(&scope, text.to_owned(), base, reason)
            .await?;
    }
    same(
        "what was written through the store is no surprise",
        &versions.record_changes(&scope, &turn).await?,
        &Vec::new(),
    )?;
    let log = versions.log(&scope).await?;
    let [second, first] = log.as_slice() else {
        anyhow::bail!("two changes are not two versions: {log:?}")
    };
    same(
        "each has its reason, the newest first",
        &[&second.reason, &first.reason],
        &[&turn, &summary],
    )?;
    same(
        "and stands behind the one before it",
        &second.before,
        &Some(first.number),
    )?;
    let shown = versions.version(&scope, second.number).await?;
    same(
        "it shows both texts",
        &(shown.before.as_str(), shown.text.as_str()),
        &("- tea\n", "- coffee\n"),
    )?;
    let restored = versions.restore(&scope, first.number).await?;
    same(
        "an earlier text comes back",
        &store.facts(&scope).await?.text.as_str(),
        &"- tea\n",
    )?;
    same(
        "which is a change as well",
        &restored.reason,
        &Reason::Restored {
            version: first.number,
        },
    )?;
    let stale = store
        .replace_facts(&scope, "- milk\n".to_owned(), base, &summary)
        .await;
    ensure!(
        matches!(stale, Err(MemoryError::Changed)),
        "a base from before the restoration gave {stale:?}"
    );
    let unknown = versions.restore(&scope, restored.number + 1).await;
    ensure!(
        matches!(unknown, Err(MemoryError::NoVersion { .. })),
        "a version that is not there gave {unknown:?}"
    );
    Ok(())
}
