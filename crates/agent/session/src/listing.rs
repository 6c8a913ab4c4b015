//! Lists all sessions of a store, each read from its end.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use nanobot_disk::{Access, Disk};
use nanobot_types::{Map, SessionKey, Timestamp};

use crate::paths::{SessionPaths, key_of_file};
use crate::scan;
use crate::{SessionError, SessionInfo};

/// Returns the sessions of all folders, the latest first. If a session has two files, the one in
/// use is listed.
pub(crate) fn list(
    disk: &dyn Disk,
    paths: &SessionPaths,
    bytes_read: &AtomicU64,
) -> Result<Vec<SessionInfo>, SessionError> {
    let mut seen = HashSet::new();
    let mut sessions = Vec::new();
    for folder in paths.folders() {
        let failed = |source| SessionError::Store {
            path: folder.to_owned(),
            source,
        };
        for path in files(disk, folder).map_err(failed)? {
            if let Some(info) = describe(disk, &path, bytes_read)
                && seen.insert(info.key.clone())
            {
                sessions.push(info);
            }
        }
    }
    sessions.sort_by(|a, b| {
        b.updated_at
            .cmp(&a.updated_at)
            .then_with(|| a.key.cmp(&b.key))
    });
    Ok(sessions)
}

fn files(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<PathBuf>> {
    match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

fn describe(disk: &dyn Disk, path: &Path, bytes_read: &AtomicU64) -> Option<SessionInfo> {
    let named: SessionKey = key_of_file(path, None)?;
    match survey(disk, path, bytes_read) {
        Ok((survey, modified)) => Some(SessionInfo {
            key: key_of_file(path, survey.key.as_ref()).unwrap_or(named),
            created_at: survey.state.created_at,
            updated_at: survey.state.updated_at.or(modified),
            messages: survey.head.0,
            metadata: survey.state.metadata,
        }),
        Err(error) => {
            tracing::warn!(session = %named, path = %path.display(), %error, "a session cannot be read");
            Some(SessionInfo {
                key: named,
                created_at: None,
                updated_at: None,
                messages: 0,
                metadata: Map::new(),
            })
        }
    }
}

fn survey(
    disk: &dyn Disk,
    path: &Path,
    bytes_read: &AtomicU64,
) -> io::Result<(scan::Survey, Option<Timestamp>)> {
    let file = disk.open(path, Access::Read)?;
    let stamp = file.stamp()?;
    let modified = stamp
        .modified
        .map(|time| chrono::DateTime::<chrono::Local>::from(time).fixed_offset());
    Ok((scan::survey(&*file, stamp.length, bytes_read)?, modified))
}
