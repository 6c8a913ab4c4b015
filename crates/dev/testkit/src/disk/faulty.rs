//! A disk whose operations fail on request of a test.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_disk::{Access, Disk, DiskFile, FileStamp};

/// A way in which an operation can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// `ENOSPC`: no space left.
    Full,
    /// `EIO`: the device is broken or has no power.
    Broken,
    /// `EROFS`: mounted read-only.
    ReadOnly,
    /// `EACCES`: permission denied.
    Denied,
    /// `EMFILE`: too many open files.
    TooManyOpen,
    /// Reads and the first write transfer half of the requested bytes, later writes fail with
    /// `ENOSPC`; everything else works.
    Short,
}

impl DiskFault {
    /// All faults.
    pub const ALL: [Self; 6] = [
        Self::Full,
        Self::Broken,
        Self::ReadOnly,
        Self::Denied,
        Self::TooManyOpen,
        Self::Short,
    ];

    /// Returns the error with the number that Linux and macOS use.
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::Full | Self::Short => 28,
            Self::Broken => 5,
            Self::ReadOnly => 30,
            Self::Denied => 13,
            Self::TooManyOpen => 24,
        })
    }
}

/// A wrapper that injects faults into another disk.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: Arc<Mutex<FaultPlan>>,
}

#[derive(Debug, Default)]
struct FaultPlan {
    done: u64,
    /// The fault, and the range of operation numbers that it affects.
    failing: Option<(DiskFault, u64, u64)>,
    cut: bool,
}

/// Effect of the current fault on an operation.
enum FaultEffect {
    Go,
    Half,
}

impl FaultyDisk {
    /// Returns a disk that behaves like `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self {
            inner,
            plan: Arc::default(),
        }
    }

    /// Returns the number of operations so far. Each call of a method of [`Disk`] or [`DiskFile`]
    /// is one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.plan().done
    }

    /// Makes `count` operations fail, from number `from` on, counted from 0.
    pub fn fail(&self, fault: DiskFault, from: u64, count: u64) {
        let mut plan = self.plan();
        plan.failing = Some((fault, from, from.saturating_add(count)));
        plan.cut = false;
    }

    /// Makes all operations work again.
    pub fn clear(&self) {
        self.plan().failing = None;
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, FaultPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and fails it if a fault is due.
    fn count(&self) -> io::Result<()> {
        match self.failing_now() {
            None | Some(DiskFault::Short) => Ok(()),
            Some(fault) => Err(fault.error()),
        }
    }

    fn count_read(&self) -> io::Result<FaultEffect> {
        match self.failing_now() {
            None => Ok(FaultEffect::Go),
            Some(DiskFault::Short) => Ok(FaultEffect::Half),
            Some(fault) => Err(fault.error()),
        }
    }

    fn count_write(&self) -> io::Result<FaultEffect> {
        match self.failing_now() {
            None => Ok(FaultEffect::Go),
            Some(DiskFault::Short) if !std::mem::replace(&mut self.plan().cut, true) => {
                Ok(FaultEffect::Half)
            }
            Some(fault) => Err(fault.error()),
        }
    }

    fn failing_now(&self) -> Option<DiskFault> {
        let mut plan = self.plan();
        let number = plan.done;
        plan.done += 1;
        plan.failing
            .filter(|(_, from, upto)| (*from..*upto).contains(&number))
            .map(|(fault, ..)| fault)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, access: Access<'_>) -> io::Result<Box<dyn DiskFile>> {
        self.count()?;
        let inner = self.inner.open(path, access)?;
        Ok(Box::new(FaultyFile {
            inner,
            disk: self.clone(),
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.count()?;
        self.inner.exists(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.count()?;
        self.inner.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.count()?;
        self.inner.create_folder(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.count()?;
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.count()?;
        self.inner.sync_folder(folder)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.count()?;
        self.inner.resolve(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn DiskFile>,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn stamp(&self) -> io::Result<FileStamp> {
        self.disk.count()?;
        self.inner.stamp()
    }

    fn lock(&self) -> io::Result<()> {
        self.disk.count()?;
        self.inner.lock()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let half = match self.disk.count_read()? {
            FaultEffect::Go => buffer.len(),
            FaultEffect::Half => buffer.len().div_ceil(2),
        };
        self.inner
            .read_at(position, buffer.get_mut(..half).unwrap_or_default())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let half = match self.disk.count_write()? {
            FaultEffect::Go => bytes.len(),
            FaultEffect::Half => bytes.len() / 2,
        };
        self.inner.write(bytes.get(..half).unwrap_or_default())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.disk.count()?;
        self.inner.truncate(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.count()?;
        self.inner.sync()
    }
}
