//! Every disk operation fails in every way, and the power is cut at every operation.
//!
//! A scripted run of three sessions uses a disk in memory: a new session, one that is moved from
//! its legacy location, and one whose last line is torn. Acknowledged entries must be there
//! afterwards, in order. Of a refused append, any prefix may be there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nanobot_disk::Disk;
use nanobot_session::{
    Durability, Entry, JsonlStore, ReadFrom, Seq, SessionError, SessionPaths, SessionStore as _,
    SessionView, replay,
};
use nanobot_testkit::{DiskFault, FaultyDisk, MemoryDisk};
use serde_json::json;

use crate::support::{assert_valid, assistant, calls, end, result, user, user_of};

const NEW: &str = "t:new";
const OLD: &str = "t:old";
const TORN: &str = "t:torn";
const TORN_TAIL: &[u8] = b"{\"role\":\"assistant\",\"content\":\"cut o";

fn disk() -> MemoryDisk {
    let old =
        b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n";
    let torn = [&b"{\"role\":\"user\",\"content\":\"c\"}\n"[..], TORN_TAIL].concat();
    MemoryDisk::new()
        .with_file("/home/old/t_old.jsonl", old)
        .with_file("/home/old/t_torn.jsonl", &torn)
}

fn store(disk: impl Disk + 'static) -> JsonlStore {
    let paths = SessionPaths {
        legacy: Some("/home/old".into()),
        ..SessionPaths::only("/home/workspace/sessions")
    };
    JsonlStore::on(Arc::new(disk), paths)
}

fn script() -> Vec<(&'static str, Vec<Entry>)> {
    let long = |word: &str| word.repeat(130);
    vec![
        (NEW, vec![user_of("t:1", &long("one "))]),
        (NEW, vec![calls(&["a", "b"])]),
        (OLD, vec![user("two")]),
        (NEW, vec![result("a", &long("A")), result("b", "B")]),
        (NEW, vec![assistant(&long("three ")), end(&["t:1"])]),
        (
            TORN,
            vec![user("four"), assistant(&long("five ")), end(&[])],
        ),
        (NEW, vec![Entry::Consolidated { upto: Seq(1) }]),
        (OLD, vec![assistant("six"), end(&[])]),
        (
            NEW,
            vec![
                user("seven"),
                assistant("eight"),
                Entry::Rewound { to: Seq(5) },
            ],
        ),
        (
            TORN,
            vec![Entry::Metadata(
                json!({"title": "t"}).as_object().unwrap().clone(),
            )],
        ),
        (NEW, vec![Entry::Reset, user("nine")]),
    ]
}

fn label(entry: &Entry) -> String {
    match entry {
        Entry::Message(message) => {
            let text = message.message.text();
            format!(
                "{} {}",
                text.len(),
                text.chars().take(10).collect::<String>()
            )
        }
        other => format!("{other:?}"),
    }
}

/// The attempted appends of each session, and whether each was acknowledged.
struct History(BTreeMap<&'static str, Vec<(bool, Vec<String>)>>);

impl History {
    fn new() -> Self {
        let known =
            |texts: &[&str]| vec![(true, texts.iter().map(|text| label(&user(text))).collect())];
        Self(BTreeMap::from([
            (NEW, Vec::new()),
            (OLD, known(&["a", "b"])),
            (TORN, known(&["c"])),
        ]))
    }

    async fn append(&mut self, store: &JsonlStore, key: &'static str, entries: &[Entry]) -> bool {
        let Ok(view) = self.read(store, key).await else {
            return false;
        };
        let appended = store.append(&key.into(), view.head, entries.to_vec()).await;
        assert!(
            matches!(appended, Ok(_) | Err(SessionError::Io { .. })),
            "{appended:?}"
        );
        let labels = entries.iter().map(label).collect();
        self.0
            .get_mut(key)
            .unwrap()
            .push((appended.is_ok(), labels));
        appended.is_ok()
    }

    /// Reads a session and checks that its entries are explained by the attempts.
    async fn read(
        &self,
        store: &JsonlStore,
        key: &'static str,
    ) -> Result<SessionView, SessionError> {
        let view = store.read(&key.into(), ReadFrom::Seq(Seq(0))).await?;
        let found: Vec<String> = view
            .records
            .iter()
            .map(|record| label(&record.entry))
            .collect();
        let attempts = &self.0[key];
        assert!(
            explained(&found, attempts),
            "{key}: found {found:#?}\nof {attempts:#?}"
        );
        assert_valid(&replay(&view), key);
        Ok(view)
    }

    async fn check_all(&self, store: &JsonlStore) {
        for key in [NEW, OLD, TORN] {
            self.read(store, key).await.unwrap();
        }
    }
}

/// `true` if `found` consists of every acknowledged append in full and a prefix of each other
/// append.
fn explained(found: &[String], attempts: &[(bool, Vec<String>)]) -> bool {
    let Some(((acknowledged, labels), later)) = attempts.split_first() else {
        return found.is_empty();
    };
    let common = found
        .iter()
        .zip(labels)
        .take_while(|(found, label)| found == label)
        .count();
    let fewest = if *acknowledged { labels.len() } else { 0 };
    (fewest..=common)
        .rev()
        .any(|taken| explained(&found[taken..], later))
}

/// Runs the script; each failed step is retried once.
async fn live(store: &JsonlStore) -> History {
    let mut history = History::new();
    for (number, (key, entries)) in script().into_iter().enumerate() {
        if !history.append(store, key, &entries).await {
            history.append(store, key, &entries).await;
        }
        if number % 4 == 0 {
            drop(store.list().await);
        }
    }
    history
}

async fn operations() -> u64 {
    let faulty = FaultyDisk::new(Arc::new(disk()));
    let history = live(&store(faulty.clone())).await;
    assert!(
        history
            .0
            .values()
            .flatten()
            .all(|(acknowledged, _)| *acknowledged)
    );
    faulty.operations()
}

fn files_named(disk: &MemoryDisk, mark: &str) -> Vec<Vec<u8>> {
    let files = disk.files();
    let named = |path: &Path| path.to_str().unwrap().contains(mark);
    files
        .into_iter()
        .filter(|(path, _)| named(path))
        .map(|(_, bytes)| bytes)
        .collect()
}

/// One run with a fault, and the recovery after it.
async fn survives(fault: DiskFault, from: u64, count: u64) {
    let memory = disk();
    let faulty = FaultyDisk::new(Arc::new(memory.clone()));
    faulty.fail(fault, from, count);
    let store_of_all = store(faulty.clone());
    let mut history = live(&store_of_all).await;
    faulty.clear();
    for key in [NEW, OLD, TORN] {
        assert!(
            history.append(&store_of_all, key, &[user("final")]).await,
            "{key}: it works again, without a restart"
        );
    }
    history.check_all(&store_of_all).await;
    history.check_all(&store(memory.clone())).await;
    history
        .check_all(&store(memory.after_power_cut(from)))
        .await;
    let mut listed: Vec<String> = store_of_all
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|info| info.key.to_string())
        .collect();
    listed.sort();
    assert_eq!(listed, [NEW, OLD, TORN]);
    let kept = files_named(&memory, ".torn-");
    assert!(
        kept.iter().any(|bytes| bytes == TORN_TAIL),
        "the torn line is copied to a file of its own"
    );
    assert!(
        kept.len() + files_named(&memory, ".draft").len() <= 6,
        "copies do not pile up"
    );
}

#[tokio::test]
async fn no_disk_fault_loses_acknowledged_entries() {
    for from in 0..operations().await {
        for fault in DiskFault::ALL {
            for count in [1, u64::MAX] {
                survives(fault, from, count).await;
            }
        }
    }
}

#[tokio::test]
async fn unsynced_append_survives_a_process_crash() {
    let memory = disk();
    let faulty = FaultyDisk::new(Arc::new(memory.clone()));
    let history = live(&store(faulty.clone()).with_durability(Durability::Os)).await;
    assert!(
        history
            .0
            .values()
            .flatten()
            .all(|(acknowledged, _)| *acknowledged)
    );
    assert_eq!(
        faulty.operations() + script().len() as u64,
        operations().await
    );
    history.check_all(&store(memory)).await;
}

#[tokio::test]
async fn persistent_fault_leaves_no_temporary_files() {
    let memory = disk();
    let faulty = FaultyDisk::new(Arc::new(memory.clone()));
    let store = store(faulty.clone());
    let mut history = History::new();
    let before = memory.files().len();
    for round in 0..20 {
        for from in 0..40 {
            faulty.fail(DiskFault::Short, faulty.operations() + from, u64::MAX);
            if history
                .append(&store, TORN, &[user(&format!("{round}.{from}"))])
                .await
            {
                break;
            }
        }
        faulty.clear();
    }
    assert!(
        memory.files().len() <= before + 4,
        "{:?}",
        memory.files().keys()
    );
}

fn states() -> u64 {
    std::env::var("NANOBOT_POWER_STATES").map_or(20_000, |states| states.parse().unwrap())
}

#[tokio::test]
async fn no_power_cut_loses_acknowledged_entries() {
    let operations = operations().await;
    let cuts = states().div_ceil(operations + 1);
    for at in 0..=operations {
        let memory = disk();
        let faulty = FaultyDisk::new(Arc::new(memory.clone()));
        faulty.fail(DiskFault::Broken, at, u64::MAX);
        let mut history = live(&store(faulty)).await;
        for cut in 0..cuts {
            let left = store(memory.after_power_cut(at * cuts + cut));
            history.check_all(&left).await;
            if cut % 16 == 0 {
                for key in [NEW, OLD, TORN] {
                    assert!(history.append(&left, key, &[user("on")]).await);
                }
                history.check_all(&left).await;
                history
                    .0
                    .values_mut()
                    .for_each(|attempts| drop(attempts.pop()));
            }
        }
    }
}

/// A power cut without syncs may lose appended blocks, in any order. The remaining entries are in
/// order and valid, and data from before the run is still there.
#[tokio::test]
async fn power_cut_loses_only_unsynced_appends() {
    let whole_life = FaultyDisk::new(Arc::new(disk()));
    live(&store(whole_life.clone()).with_durability(Durability::Os)).await;
    let operations = whole_life.operations();
    let cuts = states().div_ceil(operations + 1);
    let mut lost = 0;
    for at in 0..=operations {
        let memory = disk();
        let faulty = FaultyDisk::new(Arc::new(memory.clone()));
        faulty.fail(DiskFault::Broken, at, u64::MAX);
        let mut history = live(&store(faulty).with_durability(Durability::Os)).await;
        // Every append may be missing, but not the data that was on the disk at the start.
        for (key, attempts) in &mut history.0 {
            let before = usize::from(*key != NEW);
            attempts
                .iter_mut()
                .skip(before)
                .for_each(|(acknowledged, _)| *acknowledged = false);
        }
        for cut in 0..cuts {
            let left =
                store(memory.after_power_cut(at * cuts + cut)).with_durability(Durability::Os);
            history.check_all(&left).await;
            let view = left.read(&NEW.into(), ReadFrom::Seq(Seq(0))).await.unwrap();
            let labels_written: usize = history.0[NEW].iter().map(|(_, labels)| labels.len()).sum();
            lost += usize::from(view.records.len() < labels_written);
            if cut % 16 == 0 {
                for key in [NEW, OLD, TORN] {
                    assert!(
                        history.append(&left, key, &[user("on")]).await,
                        "{key}: it can be appended to"
                    );
                }
                history.check_all(&left).await;
                history
                    .0
                    .values_mut()
                    .for_each(|attempts| drop(attempts.pop()));
            }
        }
    }
    assert!(lost > 0, "the model takes nothing at all");
}
