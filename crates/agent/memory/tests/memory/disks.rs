//! Every disk operation fails in every way, and the power is cut at every operation.

use std::path::Path;
use std::sync::Arc;

use chrono::Local;
use nanobot_disk::Disk;
use nanobot_memory::{MarkdownStore, MemoryStore as _, MemoryVersions as _, Reason};
use nanobot_testkit::{DiskFault, FaultyDisk, MemoryDisk};

use crate::SHARED;

const FOLDER: &str = "/home/workspace/memory";

fn disk() -> MemoryDisk {
    MemoryDisk::new().with_file("/home/config.json", b"{}")
}

fn store(disk: impl Disk + 'static) -> MarkdownStore {
    MarkdownStore::on(Arc::new(disk), FOLDER)
}

/// The attempted writes; no text is used twice.
#[derive(Default)]
struct Tried {
    count: u32,
    /// Possible facts: the last acknowledged ones, and those refused since.
    facts: Vec<String>,
    /// Entries of the history, and whether each was acknowledged.
    history: Vec<(bool, String)>,
}

impl Tried {
    fn text(&mut self) -> String {
        self.count += 1;
        format!("{} {}", self.count, "words ".repeat(100))
    }

    async fn replace(&mut self, store: &MarkdownStore) -> bool {
        let Ok(facts) = store.facts(&SHARED).await else {
            return false;
        };
        assert!(
            self.facts.contains(&facts.text) || (self.facts.is_empty() && facts.text.is_empty())
        );
        let text = self.text();
        let replaced = store
            .replace_facts(&SHARED, text.clone(), facts.revision, &Reason::Found)
            .await;
        if replaced.is_ok() {
            self.facts.clear();
        } else if self.facts.is_empty() {
            self.facts.push(String::new());
        }
        self.facts.push(text);
        replaced.is_ok()
    }

    async fn append(&mut self, store: &MarkdownStore) -> bool {
        let text = self.text();
        let appended = store
            .append_history(&SHARED, Local::now().fixed_offset(), &text)
            .await;
        self.history
            .push((appended.is_ok(), text.trim_end().to_owned()));
        appended.is_ok()
    }

    async fn check(&self, disk: &MemoryDisk) {
        let facts = store(disk.clone()).facts(&SHARED).await.unwrap().text;
        assert!(
            self.facts.contains(&facts) || (self.facts.is_empty() && facts.is_empty()),
            "{facts:?} of {:#?}",
            self.facts
        );
        let bytes = disk
            .files()
            .remove(&Path::new(FOLDER).join("HISTORY.md"))
            .unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines = text.lines();
        for (_, entry) in self
            .history
            .iter()
            .filter(|(acknowledged, _)| *acknowledged)
        {
            assert!(
                lines.any(|line| line == entry),
                "{entry:?} is missing or out of order in {text:?}"
            );
        }
    }
}

async fn live(store: &MarkdownStore) -> Tried {
    let mut history = Tried::default();
    for _ in 0..4 {
        if !history.replace(store).await {
            history.replace(store).await;
        }
        if !history.append(store).await {
            history.append(store).await;
        }
    }
    history
}

async fn operations() -> u64 {
    let faulty = FaultyDisk::new(Arc::new(disk()));
    live(&store(faulty.clone())).await;
    faulty.operations()
}

#[tokio::test]
async fn no_disk_fault_loses_acknowledged_data() {
    for from in 0..operations().await {
        for (fault, count) in DiskFault::ALL
            .into_iter()
            .flat_map(|fault| [(fault, 1), (fault, u64::MAX)])
        {
            let memory = disk();
            let faulty = FaultyDisk::new(Arc::new(memory.clone()));
            faulty.fail(fault, from, count);
            let store = store(faulty.clone());
            let mut history = live(&store).await;
            faulty.clear();
            history.check(&memory).await;
            let before = store.facts(&SHARED).await.unwrap().text;
            assert!(
                history.replace(&store).await && history.append(&store).await,
                "it works again, without a restart"
            );
            history.check(&memory).await;
            history.check(&memory.after_power_cut(from)).await;
            let newest = store.log(&SHARED).await.unwrap().remove(0).number;
            let kept = store.version(&SHARED, newest).await.unwrap().before;
            assert_eq!(kept, before, "{fault:?} from {from}");
        }
    }
}

#[tokio::test]
async fn no_power_cut_loses_acknowledged_data() {
    for at in 0..=operations().await {
        let memory = disk();
        let faulty = FaultyDisk::new(Arc::new(memory.clone()));
        faulty.fail(DiskFault::Broken, at, u64::MAX);
        let history = live(&store(faulty)).await;
        for cut in 0..20 {
            history.check(&memory.after_power_cut(at * 20 + cut)).await;
        }
    }
}
