//! The folder of tool files.
//!
//! Decision: links are refused, and files are opened beneath the workspace by the path policy. A
//! file is read once, and what was read is checked and run. All functions block.

use std::fs::Metadata;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nanobot_guard::PathPolicy;

/// Name of the folder in the workspace.
pub const FOLDER: &str = "tools";
/// File that makes a folder a tool.
pub(crate) const MANIFEST: &str = "tool.toml";
/// Maximum number of tools; the first ones by name are used.
pub(crate) const MAX_TOOLS: usize = 64;
/// Maximum number of entries of the folder that are looked at.
const MAX_ENTRIES: usize = 1024;
/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 256 << 10;
/// Maximum length of a file name without its extension, in characters.
const MAX_NAME: usize = 64;

/// State of the folder by names, sizes and times, to notice changes. An absent folder has no stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<Stamp>);

/// State of one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    name: String,
    length: u64,
    modified: Option<SystemTime>,
    /// Inode and time of its last change, where the platform has them.
    identity: (u64, i64, i64),
}

/// A file or folder that should be a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFile {
    /// Its name in the folder.
    pub(crate) name: String,
    /// `true` for a folder with a manifest.
    pub(crate) is_folder: bool,
    /// The content of the file, or of the manifest; `Err` is the reason why it is not used.
    pub(crate) content: Result<String, String>,
}

/// The folder of tool files of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    policy: PathPolicy,
}

impl Folder {
    /// Uses the folder in the workspace of `policy`.
    pub(crate) fn new(policy: &PathPolicy) -> Self {
        Self {
            policy: policy.confined(),
        }
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> PathBuf {
        self.policy.workspace().join(FOLDER)
    }

    /// Returns the present state. Costs one call of the system if there is no folder.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let folder = self.path();
        let is_folder = folder
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir());
        let entries = is_folder.then(|| std::fs::read_dir(&folder).ok()).flatten();
        let mut stamps: Vec<Stamp> = entries
            .into_iter()
            .flatten()
            .take(MAX_ENTRIES)
            .filter_map(|entry| stamp(&entry.ok()?.path()))
            .collect();
        stamps.sort_unstable();
        Fingerprint(stamps)
    }

    /// Reads all tool files, by name.
    pub(crate) fn read(&self) -> Vec<ToolFile> {
        if self.path().is_symlink() {
            return vec![ToolFile {
                name: FOLDER.to_owned(),
                is_folder: true,
                content: Err("it is a link and no folder".to_owned()),
            }];
        }
        let Ok(folder) = self.policy.read(self.path()) else {
            return Vec::new();
        };
        let mut entries = folder.entries().unwrap_or_default();
        entries.truncate(MAX_ENTRIES);
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut files: Vec<ToolFile> = entries
            .into_iter()
            .filter_map(|entry| {
                let name = entry.name.into_string().ok()?;
                let is_folder = entry.is_dir && self.path().join(&name).join(MANIFEST).exists();
                let is_meant = is_folder || has_code(Path::new(&name));
                if !is_meant || is_ignored(&name) {
                    return None;
                }
                let content = match entry.is_link {
                    true => Err("it is a link".to_owned()),
                    false => self.content(&name, is_folder),
                };
                Some(ToolFile {
                    name,
                    is_folder,
                    content,
                })
            })
            .collect();
        for file in files.iter_mut().skip(MAX_TOOLS) {
            file.content = Err(format!("there are more than {MAX_TOOLS} tools"));
        }
        files
    }

    fn content(&self, name: &str, is_folder: bool) -> Result<String, String> {
        let stem = name.strip_suffix(".py").unwrap_or(name);
        let is_allowed =
            |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        if stem.len() > MAX_NAME || !stem.chars().all(is_allowed) {
            return Err(format!(
                "its name may have letters, digits, _ and -, at most {MAX_NAME} of them"
            ));
        }
        let mut path = self.path().join(name);
        if is_folder {
            path.push(MANIFEST);
            if path.is_symlink() {
                return Err(format!("{MANIFEST} is a link"));
            }
        }
        let path = self
            .policy
            .read(path)
            .map_err(|denied| denied.to_string())?;
        let file = path.open().map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        let read = file.take(MAX_FILE + 1).read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        if content.len() as u64 > MAX_FILE {
            return Err(format!("it is larger than {} KiB", MAX_FILE >> 10));
        }
        String::from_utf8(content).map_err(|_not_utf8| "it is not UTF-8".to_owned())
    }
}

fn has_code(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "py")
}

/// `true` for names that never are tools, as in the Python program, and for hidden files.
fn is_ignored(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

/// Returns the state of a file, or of the manifest of a folder; `None` if it is no tool.
fn stamp(path: &Path) -> Option<Stamp> {
    let name = path.file_name()?.to_str()?.to_owned();
    let own = path.symlink_metadata().ok()?;
    let metadata = match own.is_dir() {
        true => path.join(MANIFEST).symlink_metadata().ok()?,
        false if has_code(Path::new(&name)) => own,
        false => return None,
    };
    (!is_ignored(&name)).then(|| Stamp {
        name,
        length: metadata.len(),
        modified: metadata.modified().ok(),
        identity: identity(&metadata),
    })
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;

    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_metadata: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nanobot_guard::PathRules;

    use super::*;

    fn folder(workspace: &Path) -> Folder {
        Folder::new(&PathPolicy::new(PathRules::new(workspace)))
    }

    #[test]
    fn changes_are_noticed() {
        let workspace = tempfile::tempdir().unwrap();
        let folder = folder(workspace.path());
        let absent = folder.fingerprint();
        fs::create_dir(folder.path()).unwrap();
        assert_eq!(folder.fingerprint(), absent);
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut last = absent.clone();
        for (name, text, is_noticed) in [
            ("a.py", "1", true),
            ("a.py", "1234", true),
            ("count/tool.toml", "", true),
            ("count/tool.toml", "x", true),
            ("count/run.sh", "x", false),
            ("data/notes.txt", "x", false),
            ("readme.md", "x", false),
            ("_shared.py", "x", false),
            (".hidden.py", "x", false),
        ] {
            write(name, text);
            let next = folder.fingerprint();
            assert_eq!(next != last, is_noticed, "{name}");
            last = next;
        }
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(folder.fingerprint(), absent);
    }

    #[test]
    fn what_cannot_be_a_tool_has_a_reason() {
        let workspace = tempfile::tempdir().unwrap();
        let folder = folder(workspace.path());
        fs::create_dir_all(folder.path().join("count")).unwrap();
        fs::create_dir_all(folder.path().join("__pycache__")).unwrap();
        for (name, text) in [
            ("good.py", b"x = 1".as_slice()),
            ("_module.py", b""),
            ("notes.txt", b""),
            ("two words.py", b""),
            ("latin.py", b"\xff"),
            ("count/tool.toml", b"name = 1"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let large = "#".repeat(1 + (256 << 10));
        fs::write(folder.path().join("large.py"), large).unwrap();
        let found: Vec<(String, Result<String, String>)> = folder
            .read()
            .into_iter()
            .map(|file| (file.name, file.content))
            .collect();
        let name_rule = "its name may have letters, digits, _ and -, at most 64 of them";
        let refused = |reason: &str| Err(reason.to_owned());
        assert_eq!(
            found,
            [
                ("count".to_owned(), Ok("name = 1".to_owned())),
                ("good.py".to_owned(), Ok("x = 1".to_owned())),
                ("large.py".to_owned(), refused("it is larger than 256 KiB")),
                ("latin.py".to_owned(), refused("it is not UTF-8")),
                ("two words.py".to_owned(), refused(name_rule)),
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        use std::os::unix::fs::symlink;

        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("ws");
        let outside = root.path().join("outside");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("a.py"), "x = 1").unwrap();
        let folder = folder(&workspace);
        symlink(&outside, folder.path()).unwrap();
        let [refused] = folder.read().try_into().unwrap();
        assert_eq!(
            refused.content,
            Err("it is a link and no folder".to_owned())
        );
        assert_eq!(folder.fingerprint(), Fingerprint(Vec::new()));
        fs::remove_file(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        symlink(outside.join("a.py"), folder.path().join("a.py")).unwrap();
        let [file] = folder.read().try_into().unwrap();
        assert_eq!(file.content, Err("it is a link".to_owned()));
    }
}
