//! [`Disk`] on the file systems of this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::{Access, Disk, DiskFile, FileStamp};

/// The file systems of this machine, through the standard library.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn open(&self, path: &Path, access: Access<'_>) -> io::Result<Box<dyn DiskFile>> {
        let file = match access {
            Access::Read => File::open(path)?,
            Access::Append => {
                private(OpenOptions::new().read(true).append(true).create(true)).open(path)?
            }
            Access::New => private(OpenOptions::new().write(true).create_new(true)).open(path)?,
            Access::ReplacementFor(replaced) => {
                let file = File::create(path)?;
                if let Ok(metadata) = replaced.metadata() {
                    file.set_permissions(metadata.permissions())?;
                }
                file
            }
        };
        Ok(Box::new(LocalFile(file)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        // On other platforms a folder cannot be opened, and names are durable once their file is.
        if cfg!(unix) {
            File::open(folder)?.sync_all()
        } else {
            Ok(())
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[derive(Debug)]
struct LocalFile(File);

impl DiskFile for LocalFile {
    fn stamp(&self) -> io::Result<FileStamp> {
        let metadata = self.0.metadata()?;
        Ok(FileStamp {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            identity: identity(&metadata),
        })
    }

    fn lock(&self) -> io::Result<()> {
        match self.0.lock() {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
            _ => Ok(()),
        }
    }

    #[cfg(unix)]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, position)
    }

    #[cfg(not(unix))]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::{Read as _, Seek as _};
        let mut file = &self.0;
        file.seek(io::SeekFrom::Start(position))?;
        file.read(buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> u64 {
    0
}
