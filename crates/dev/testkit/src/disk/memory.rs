//! A disk in memory that models the data loss of a power cut.
//!
//! The model: the content of a file is durable once the file is synced, its name once its folder
//! is. Until then each sector of 512 bytes holds any of its states since the last sync, or the
//! state before, independently of the others. A file may have grown without its content, which then
//! reads as zeros. Each new, changed or removed name is present or not; a rename is one change.
//! This covers everything that file systems may do, more than any one of them does.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nanobot_disk::{Access, Disk, DiskFile, FileStamp};

const SECTOR: usize = 512;

/// A disk in memory. Clones share the same disk. Paths are absolute; links are not supported.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    shared: Arc<SharedDisk>,
}

#[derive(Debug, Default)]
struct SharedDisk {
    state: Mutex<DiskState>,
    unlocked: Condvar,
}

#[derive(Clone, Debug, Default)]
struct DiskState {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Name changes since their folders were synced, in order.
    unsynced_names: Vec<NameChange>,
    clock: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    is_folder: bool,
    content: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<ContentChange>,
    modified: u64,
    locked: bool,
}

#[derive(Clone, Debug)]
enum ContentChange {
    Written { at: usize, bytes: Vec<u8> },
    Truncated { length: usize },
}

#[derive(Clone, Debug)]
enum NameChange {
    Made {
        path: PathBuf,
        node: usize,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
        node: usize,
    },
    Removed {
        path: PathBuf,
    },
}

impl NameChange {
    fn folder(&self) -> Option<&Path> {
        let (Self::Made { path, .. } | Self::Renamed { to: path, .. } | Self::Removed { path }) =
            self;
        path.parent()
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Made { path, node } => {
                names.insert(path.clone(), *node);
            }
            Self::Renamed { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Self::Removed { path } => {
                names.remove(path);
            }
        }
    }
}

impl MemoryDisk {
    /// Returns an empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a durable file and its parent folders.
    #[must_use]
    pub fn with_file(self, path: impl AsRef<Path>, content: &[u8]) -> Self {
        let mut state = self.state();
        for folder in path
            .as_ref()
            .ancestors()
            .skip(1)
            .filter(|folder| folder.parent().is_some())
        {
            if !state.names.contains_key(folder) {
                let node = state.add(Node {
                    is_folder: true,
                    ..Node::default()
                });
                state.names.insert(folder.to_owned(), node);
            }
        }
        let node = Node {
            content: content.to_owned(),
            durable: content.to_owned(),
            ..Node::default()
        };
        let node = state.add(node);
        state.names.insert(path.as_ref().to_owned(), node);
        state.durable_names = state.names.clone();
        drop(state);
        self
    }

    /// Returns every file with its current content.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let files = state.names.iter().filter_map(|(path, node)| {
            let node = state.nodes.get(*node).filter(|node| !node.is_folder)?;
            Some((path.clone(), node.content.clone()))
        });
        files.collect()
    }

    /// Returns the disk after a simulated power cut; the seed selects one of the possible outcomes.
    /// This disk stays unchanged.
    #[must_use]
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let mut luck = Luck::new(seed);
        let mut state = self.state().clone();
        let mut names = std::mem::take(&mut state.durable_names);
        for change in std::mem::take(&mut state.unsynced_names) {
            if luck.strikes() {
                change.apply(&mut names);
            }
        }
        let orphaned = |path: &Path| {
            path.ancestors()
                .skip(1)
                .any(|above| above.parent().is_some() && !names.contains_key(above))
        };
        let names: BTreeMap<PathBuf, usize> = names
            .iter()
            .filter(|(path, _)| !orphaned(path))
            .map(|(path, node)| (path.clone(), *node))
            .collect();
        for node in &mut state.nodes {
            node.content = node.left(&mut luck);
            node.durable = node.content.clone();
            node.unsynced.clear();
            node.locked = false;
        }
        state.durable_names = names.clone();
        state.names = names;
        Self {
            shared: Arc::new(SharedDisk {
                state: Mutex::new(state),
                unlocked: Condvar::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Returns content that may survive a power cut.
    fn left(&self, luck: &mut Luck) -> Vec<u8> {
        let mut left = self.durable.clone();
        // Once a change of a sector is lost, all later changes of that sector are lost too.
        let mut lost = HashSet::new();
        for change in &self.unsynced {
            match change {
                ContentChange::Truncated { length } if luck.strikes() => left.truncate(*length),
                ContentChange::Truncated { .. } => break,
                ContentChange::Written { at, bytes } => {
                    write_sectors(&mut left, *at, bytes, &mut lost, luck);
                }
            }
        }
        left
    }
}

fn write_sectors(
    left: &mut Vec<u8>,
    at: usize,
    bytes: &[u8],
    lost: &mut HashSet<usize>,
    luck: &mut Luck,
) {
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        let sector = at / SECTOR;
        let (piece, behind) = rest.split_at(rest.len().min((sector + 1) * SECTOR - at));
        let end = at + piece.len();
        let is_kept = !lost.contains(&sector) && luck.strikes();
        if is_kept || luck.strikes_rarely() {
            left.resize(left.len().max(end), 0);
        }
        match left.get_mut(at..end) {
            Some(place) if is_kept => place.copy_from_slice(piece),
            _ => {
                lost.insert(sector);
            }
        }
        (at, rest) = (end, behind);
    }
}

/// A small random generator (SplitMix64) with the survival rate of one power cut.
struct Luck {
    state: u64,
    /// Number of changes out of 8 that survive.
    survive: u64,
}

impl Luck {
    fn new(seed: u64) -> Self {
        let mut luck = Self {
            state: seed,
            survive: 0,
        };
        luck.survive = [0, 1, 4, 4, 4, 7, 7, 8]
            .get((luck.next() % 8) as usize)
            .copied()
            .unwrap_or(4);
        luck
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn strikes(&mut self) -> bool {
        self.next() % 8 < self.survive
    }

    fn strikes_rarely(&mut self) -> bool {
        self.next().is_multiple_of(4)
    }
}

impl DiskState {
    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn node(&mut self, number: usize) -> io::Result<&mut Node> {
        self.nodes
            .get_mut(number)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_folder(&self, path: &Path) -> bool {
        let node = self.names.get(path).and_then(|node| self.nodes.get(*node));
        path.parent().is_none() || node.is_some_and(|node| node.is_folder)
    }

    fn make(&mut self, path: &Path, is_folder: bool) -> io::Result<usize> {
        if !path.parent().is_some_and(|folder| self.is_folder(folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let node = self.add(Node {
            is_folder,
            ..Node::default()
        });
        self.change(NameChange::Made {
            path: path.to_owned(),
            node,
        });
        Ok(node)
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    fn touch(&mut self, number: usize) -> io::Result<&mut Node> {
        self.clock += 1;
        let now = self.clock;
        let node = self.node(number)?;
        node.modified = now;
        Ok(node)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, access: Access<'_>) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if state.is_folder(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let number = match (state.find(path), access) {
            (Ok(_), Access::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(number), Access::ReplacementFor(_)) => {
                let node = state.touch(number)?;
                node.content.clear();
                node.unsynced.push(ContentChange::Truncated { length: 0 });
                number
            }
            (Ok(number), Access::Read | Access::Append) => number,
            (Err(missing), Access::Read) => return Err(missing),
            (Err(_), Access::Append | Access::New | Access::ReplacementFor(_)) => {
                state.make(path, false)?
            }
        };
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            number,
            holds_lock: Mutex::new(false),
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path.parent().is_none() || self.state().names.contains_key(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        if !state.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state
            .names
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .cloned()
            .collect())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.names.contains_key(folder) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.make(folder, true).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let node = state.find(from)?;
        if from.parent() != to.parent() {
            // Would require a sync of two folders; no store needs it.
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        state.change(NameChange::Renamed {
            from: from.to_owned(),
            to: to.to_owned(),
            node,
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        state.change(NameChange::Removed {
            path: path.to_owned(),
        });
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        if !state.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        let (here, elsewhere) = changes
            .into_iter()
            .partition(|change| change.folder() == Some(folder));
        state.unsynced_names = elsewhere;
        let here: Vec<NameChange> = here;
        here.iter()
            .for_each(|change| change.apply(&mut state.durable_names));
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.state().find(path).map(|_| path.to_owned())
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    number: usize,
    holds_lock: Mutex<bool>,
}

impl DiskFile for MemoryFile {
    fn stamp(&self) -> io::Result<FileStamp> {
        let mut state = self.disk.state();
        let node = state.node(self.number)?;
        Ok(FileStamp {
            length: node.content.len() as u64,
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(node.modified)),
            identity: self.number as u64,
        })
    }

    fn lock(&self) -> io::Result<()> {
        let mut holds_lock = self
            .holds_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.disk.state();
        while !*holds_lock && state.node(self.number)?.locked {
            state = self
                .disk
                .shared
                .unlocked
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.node(self.number)?.locked = true;
        *holds_lock = true;
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let position = usize::try_from(position).map_err(io::Error::other)?;
        let content = state
            .node(self.number)?
            .content
            .get(position..)
            .unwrap_or_default();
        let read = content.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..read), content.get(..read)) {
            to.copy_from_slice(from);
        }
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let node = state.touch(self.number)?;
        node.unsynced.push(ContentChange::Written {
            at: node.content.len(),
            bytes: bytes.to_owned(),
        });
        node.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        let node = state.touch(self.number)?;
        node.content.truncate(length);
        node.unsynced.push(ContentChange::Truncated { length });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        let node = state.node(self.number)?;
        node.durable = node.content.clone();
        node.unsynced.clear();
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if *self
            .holds_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            if let Ok(node) = self.disk.state().node(self.number) {
                node.locked = false;
            }
            self.disk.shared.unlocked.notify_all();
        }
    }
}
