//! Restricts access by other users of the machine: modes of files, and of this process.
//!
//! Only what the program wrote or owns is tightened: the home's own folder, the files in it, and
//! the folders that no person works in. The workspace keeps its modes; other users cannot get into
//! a tightened home. A data folder that `--config` names may hold other things, so its own mode is
//! left alone.

#[cfg(unix)]
use std::path::PathBuf;
use std::process::ExitCode;

use nanobot_config::Config;

/// Serves as the launcher of a command in a sandbox if this process was started as one; `main` then
/// returns the code. Call it first in `main`. Returns `None` in any other process.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    nanobot_sandbox::enter()
}

/// Makes new files readable by their owner only, and the memory of this process unreadable by other
/// processes of the same user. Call it at the start of a program, before it creates files or
/// threads.
pub fn harden_process() {
    #[cfg(unix)]
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::debug!(%error, "other processes of this user may read memory");
    }
}

/// Removes the permissions of other users on files of the installation. Returns a message for the
/// user if there were any; the next call finds none.
#[must_use]
#[cfg_attr(
    not(unix),
    expect(unused_variables, reason = "a user's folder is that user's there")
)]
pub fn tighten(config: &Config) -> Option<String> {
    #[cfg(unix)]
    {
        tightened_notice(&unix::tighten(config.paths()))
    }
    #[cfg(not(unix))]
    None
}

/// Returns the message about files that are private now; `None` for no files.
#[cfg(unix)]
fn tightened_notice(tightened: &[PathBuf]) -> Option<String> {
    let (first, others) = tightened.split_first()?;
    let first = first.display();
    Some(match others.len() {
        0 => format!("other users could read {first}; it is private now"),
        count => format!(
            "other users could read {first} and {count} more in this home; they are private now"
        ),
    })
}

#[cfg(unix)]
mod unix {
    use std::fs::{OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use nanobot_config::Paths;
    use nix::fcntl::OFlag;

    /// Folders in the data folder that hold only the program's own files; `logs` and `media` are
    /// added to them.
    const OWN_FOLDERS: [&str; 8] = [
        "channels",
        "cron",
        "history",
        "outbox",
        "prompts",
        "provider-logins",
        "sessions",
        "tool-results",
    ];

    /// Maximum number of entries to check; a larger home is left to `doctor`.
    const MAX_ENTRIES: usize = 100_000;

    /// Tightens the modes and returns the paths whose modes were too wide.
    pub(super) fn tighten(paths: &Paths) -> Vec<PathBuf> {
        let mut tightened = Vec::new();
        let mut remaining = MAX_ENTRIES;
        if paths.data_dir == paths.home {
            tighten_one(&paths.home, &mut tightened);
        }
        let is_state = |name: &str| name.starts_with("state.db") || name.starts_with("config.json");
        let private_files = [
            paths.config_file.clone(),
            paths.data_dir.join("pairing.json"),
            paths.data_dir.join("restart.json"),
            paths.data_dir.join("mcp-tokens.json"),
        ];
        for path in private_files {
            tighten_one(&path, &mut tightened);
        }
        for entry in paths.data_dir.read_dir().into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_state) {
                tighten_one(&entry.path(), &mut tightened);
            }
        }
        // Inside a tightened home other users reach nothing; elsewhere a folder may belong to
        // someone else.
        if paths.data_dir != paths.home {
            return tightened;
        }
        let own_folders = OWN_FOLDERS.map(|name| paths.data_dir.join(name));
        let folders = [paths.logs.clone(), paths.media.clone()];
        for folder in own_folders.into_iter().chain(folders) {
            tighten_below(folder, &mut remaining, &mut tightened);
        }
        tightened
    }

    fn tighten_below(folder: PathBuf, remaining: &mut usize, tightened: &mut Vec<PathBuf>) {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            if !folder
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir())
            {
                continue;
            }
            tighten_one(&folder, tightened);
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let Some(rest) = remaining.checked_sub(1) else {
                    return;
                };
                *remaining = rest;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => tighten_one(&entry.path(), tightened),
                    _ => {}
                }
            }
        }
    }

    fn tighten_one(path: &Path, tightened: &mut Vec<PathBuf>) {
        match restrict_to_owner(path) {
            Ok(true) => tightened.push(path.to_owned()),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "could not restrict the mode of a file");
            }
        }
    }

    /// Removes the permissions of group and others. Works on the opened file, so that no link is
    /// followed.
    fn restrict_to_owner(path: &Path) -> io::Result<bool> {
        let metadata = path.symlink_metadata()?;
        if metadata.permissions().mode() & 0o077 == 0 || !(metadata.is_dir() || metadata.is_file())
        {
            return Ok(false);
        }
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)?;
        let mode = file.metadata()?.permissions().mode();
        file.set_permissions(Permissions::from_mode(mode & 0o7700))?;
        Ok(true)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn notice_names_the_first_file_and_counts_the_others() {
        let files = ["/home", "/home/a", "/home/b"].map(PathBuf::from);
        let expected = [
            None,
            Some("other users could read /home; it is private now"),
            Some("other users could read /home and 1 more in this home; they are private now"),
            Some("other users could read /home and 2 more in this home; they are private now"),
        ];
        for (count, expected) in expected.into_iter().enumerate() {
            assert_eq!(tightened_notice(&files[..count]).as_deref(), expected);
        }
    }
}
