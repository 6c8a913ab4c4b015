//! Received files on a disk that loses power.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_channel::{ChannelName, MediaStore as _};
use nanobot_channels::FileMediaStore;
use nanobot_disk::Disk;
use nanobot_testkit::{DiskFault, FaultyDisk, MemoryDisk};

fn store(disk: Arc<dyn Disk>) -> FileMediaStore {
    FileMediaStore::on(
        disk,
        Path::new("/home/media"),
        &ChannelName::from("chat"),
        99,
    )
}

/// A message that names the file may be published as soon as it is kept.
#[tokio::test]
async fn stored_file_survives_every_power_cut() {
    let disk = MemoryDisk::new();
    let store = store(Arc::new(disk.clone()));
    for (id, content) in [("1", b"one".as_slice()), ("2", b"two")] {
        let kept = store.store(id, "a.txt", None, content).await.unwrap();
        for seed in 0..50 {
            let left = disk.after_power_cut(seed).files();
            let found = left.get(Path::new(&kept.location)).map(Vec::as_slice);
            assert_eq!(found, Some(content), "file {id}, power cut {seed}");
        }
    }
}

#[tokio::test]
async fn disk_failure_leaves_no_reference_and_no_draft() {
    let disk = MemoryDisk::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::new(disk.clone())));
    let store = store(faulty.clone());
    store.store("0", "a.txt", None, b"zero").await.unwrap();
    let before = faulty.operations();
    store.store("1", "a.txt", None, b"one").await.unwrap();
    let operations = faulty.operations() - before;
    for at in 0..operations {
        let first = faulty.operations();
        faulty.fail(DiskFault::Full, first + at, 1);
        let name = format!("f{at}");
        let kept = store.store(&name, "a.txt", None, b"new").await;
        faulty.clear();
        assert!(kept.is_err(), "operation {at}");
        let files: BTreeMap<PathBuf, Vec<u8>> = disk.files();
        let is_draft = |path: &PathBuf| path.to_string_lossy().contains(".part-");
        assert!(!files.keys().any(is_draft), "operation {at}: {files:?}");
        // The store works again, and what it keeps is durable although an earlier sync failed.
        let again = store.store(&name, "a.txt", None, b"new").await.unwrap();
        let left = disk.after_power_cut(at).files();
        assert!(left.contains_key(Path::new(&again.location)), "{at}");
    }
}
