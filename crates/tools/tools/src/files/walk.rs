//! Walks the files below a folder for `grep` and `find_files`.
//!
//! Decision: each folder is opened through the path policy, so that nothing secret, unlisted or
//! outside is entered, and links are skipped, so that no file is found twice and no walk is endless.
//! `.gitignore` files and the folders that `list_dir` leaves out are respected; rules of folders above
//! the start apply up to the one that contains `.git`. The work is bounded by time and by the number
//! of entries, and can be stopped.

use std::{
    io::Read as _,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
    overrides::{Override, OverrideBuilder},
};
use nanobot_guard::{PathPolicy, ResolvedPath};
use tokio_util::sync::CancellationToken;

use super::list::is_ignored;

/// Time limit of a walk with its work on each file.
pub(super) const TIME: Duration = Duration::from_secs(20);
/// Maximum number of entries that are looked at.
const MAX_ENTRIES: usize = 300_000;
/// Maximum depth of folders below the start.
const MAX_DEPTH: usize = 128;
/// Maximum size of a `.gitignore` file that is read, in bytes.
const MAX_RULES: u64 = 64 << 10;
/// Maximum number of folders above the start whose rules are read.
const MAX_ABOVE: usize = 32;

/// Reason why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The visitor has enough.
    Enough,
    /// The time is over.
    Time,
    /// There are too many entries.
    Entries,
    /// The files have too many bytes.
    Bytes,
    /// The turn was stopped.
    Cancelled,
}

impl Stop {
    /// Returns a note for the model, empty if the visitor has enough.
    pub(super) fn note(self) -> String {
        match self {
            Self::Enough => String::new(),
            Self::Time => format!(
                "\n\n(Stopped after {} seconds: the result is incomplete. Name a smaller folder.)",
                TIME.as_secs()
            ),
            Self::Entries => format!(
                "\n\n(Stopped after {MAX_ENTRIES} entries: the result is incomplete. Name a smaller \
                 folder.)"
            ),
            Self::Bytes => "\n\n(Stopped: the files are too large together, and the result is \
                            incomplete. Name a smaller folder.)"
                .to_owned(),
            Self::Cancelled => "\n\n(Stopped: the result is incomplete.)".to_owned(),
        }
    }
}

/// The bounds of one call.
#[derive(Debug)]
pub(super) struct Limits {
    cancel: CancellationToken,
    until: Instant,
}

impl Limits {
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self {
            cancel,
            until: Instant::now() + TIME,
        }
    }

    /// Returns the reason to stop now, if there is one.
    pub(super) fn check(&self) -> ControlFlow<Stop> {
        if self.cancel.is_cancelled() {
            ControlFlow::Break(Stop::Cancelled)
        } else if Instant::now() >= self.until {
            ControlFlow::Break(Stop::Time)
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A file below the start.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// Its path below the start, with `/` between names.
    pub(super) relative: &'a str,
    path: PathBuf,
    policy: &'a PathPolicy,
}

impl Found<'_> {
    /// Returns the file if the path policy lets tools read it.
    pub(super) fn resolve(&self) -> Option<ResolvedPath> {
        self.policy.read(&self.path).ok()
    }
}

/// Parses a glob for [`walk`]: without a slash it matches names, with one it matches paths below the
/// start, and `!` excludes.
pub(super) fn glob(pattern: &str) -> Result<Override, String> {
    let mut builder = OverrideBuilder::new("/");
    builder
        .add(pattern)
        .and_then(|builder| builder.build())
        .map_err(|error| format!("'{pattern}' is not a glob: {error}"))
}

/// A folder yet to be visited.
struct Folder {
    path: PathBuf,
    relative: String,
    depth: usize,
    rules: Vec<Arc<Gitignore>>,
}

/// Calls `visit` for each file below `start` that matches `glob`, the files of a folder in order of
/// their names before those of its folders. Returns the reason if the walk ended early.
pub(super) fn walk(
    policy: &PathPolicy,
    start: &ResolvedPath,
    glob: Option<&Override>,
    limits: &Limits,
    visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<Stop>,
) -> Option<Stop> {
    let mut entries = 0_usize;
    let mut folders = vec![Folder {
        path: start.path().to_owned(),
        relative: String::new(),
        depth: 0,
        rules: rules_above(policy, start.path()),
    }];
    while let Some(folder) = folders.pop() {
        let mut inner = Vec::new();
        let step = visit_folder(
            policy,
            folder,
            glob,
            limits,
            &mut entries,
            &mut inner,
            visit,
        );
        if let ControlFlow::Break(stop) = step {
            return Some(stop);
        }
        folders.extend(inner.into_iter().rev());
    }
    None
}

/// Visits the files of one folder, and collects its folders in order. An unreadable folder is empty.
fn visit_folder(
    policy: &PathPolicy,
    folder: Folder,
    glob: Option<&Override>,
    limits: &Limits,
    count: &mut usize,
    inner: &mut Vec<Folder>,
    visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<Stop>,
) -> ControlFlow<Stop> {
    limits.check()?;
    let Ok(opened) = policy.read(&folder.path) else {
        return ControlFlow::Continue(());
    };
    let Ok(mut entries) = opened.entries() else {
        return ControlFlow::Continue(());
    };
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let mut rules = folder.rules;
    if entries.iter().any(|entry| entry.name == ".gitignore") {
        rules.extend(rules_of(policy, &folder.path).map(Arc::new));
    }
    for entry in entries {
        *count += 1;
        if *count > MAX_ENTRIES {
            return ControlFlow::Break(Stop::Entries);
        }
        if entry.is_link || is_ignored(&entry.name) {
            continue;
        }
        let path = folder.path.join(&entry.name);
        if is_excluded(&rules, &path, entry.is_dir) {
            continue;
        }
        let name = entry.name.to_string_lossy();
        let relative = format!("{}{name}", folder.relative);
        if entry.is_dir {
            if folder.depth < MAX_DEPTH {
                inner.push(Folder {
                    path,
                    relative: format!("{relative}/"),
                    depth: folder.depth + 1,
                    rules: rules.clone(),
                });
            }
            continue;
        }
        limits.check()?;
        let is_wanted = |glob: &Override| {
            !glob
                .matched(Path::new("/").join(&relative), false)
                .is_ignore()
        };
        if glob.is_none_or(is_wanted) {
            visit(&Found {
                relative: &relative,
                path,
                policy,
            })?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns `true` if the innermost rule about `path` excludes it.
fn is_excluded(rules: &[Arc<Gitignore>], path: &Path, is_dir: bool) -> bool {
    for rules in rules.iter().rev() {
        match rules.matched(path, is_dir) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

/// Reads the `.gitignore` of a folder; `None` if there is none that tools may read.
fn rules_of(policy: &PathPolicy, folder: &Path) -> Option<Gitignore> {
    let file = policy.read(folder.join(".gitignore")).ok()?.open().ok()?;
    let mut text = Vec::new();
    file.take(MAX_RULES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&text).lines() {
        // Like git, a line that is not a pattern excludes nothing.
        builder.add_line(None, line).ok();
    }
    builder.build().ok()
}

/// Returns the rules of the folders above `start`, the outermost first.
fn rules_above(policy: &PathPolicy, start: &Path) -> Vec<Arc<Gitignore>> {
    let mut rules = Vec::new();
    let is_top = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    if is_top(start) {
        return rules;
    }
    for folder in start.ancestors().skip(1).take(MAX_ABOVE) {
        if policy.read(folder).is_err() {
            break;
        }
        rules.extend(rules_of(policy, folder).map(Arc::new));
        if is_top(folder) {
            break;
        }
    }
    rules.reverse();
    rules
}
