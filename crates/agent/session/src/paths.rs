//! Locations of session files: three layouts of the Python program, one of which is written.
//!
//! The file name of a key is the key with `:` and the characters that file systems forbid replaced
//! by `_`. That is lossy. If the metadata of a file names another key with the same file name, the
//! file belongs to that key, and this key gets its base64url name instead. If the metadata names a
//! key that can never have that file name, a person renamed the file, and its name decides.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nanobot_disk::{Access, Disk, read_to_end};
use nanobot_types::SessionKey;

use crate::line::{self, Line};

/// File in a workspace that holds the id of its external store.
const WORKSPACE_ID: &str = ".nanobot/workspace-id";
/// File in an external store that holds the path of its workspace.
const BACK_MARKER: &str = ".workspace";
const EXTENSION: &str = "jsonl";
/// Size of the beginning of a file that is searched for its key, in bytes.
const KEY_WINDOW: u64 = 64 * 1024;
/// Maximum length of a file name, in bytes. Every file system accepts it, with room for a suffix.
const NAME_LIMIT: usize = 200;

/// The folders that hold sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPaths {
    /// `<workspace>/sessions`: the folder to which sessions are written.
    pub sessions: PathBuf,
    /// `<home>/sessions` of programs before February 2026: it is read, and the first write moves a
    /// session out of it.
    pub legacy: Option<PathBuf>,
    /// `<data>/sessions/<workspace-id>` of a v0.3 program: written instead of `sessions` if it
    /// exists.
    pub external: Option<PathBuf>,
}

impl SessionPaths {
    /// Creates paths with one folder only.
    pub fn only(sessions: impl Into<PathBuf>) -> Self {
        Self {
            sessions: sessions.into(),
            legacy: None,
            external: None,
        }
    }

    /// Finds the folders of a workspace. `data` is the folder of the configuration file, `home` is
    /// the `.nanobot` folder in the user's home directory. Reads at most two small files.
    #[must_use]
    pub fn discover(workspace: &Path, data: &Path, home: &Path) -> Self {
        let sessions = workspace.join("sessions");
        let legacy = home.join("sessions");
        Self {
            legacy: (legacy != sessions && legacy.is_dir()).then_some(legacy),
            external: external_store(workspace, &data.join("sessions")),
            sessions,
        }
    }

    /// Returns the location of the file of a session.
    pub(crate) fn locate(&self, disk: &dyn Disk, key: &SessionKey) -> io::Result<Location> {
        let encoded = encoded_name(key);
        let escaped = escaped_name(key);
        if let Some(external) = &self.external
            && let Some(found) = existing(disk, external.join(&encoded))?
        {
            return Ok(Location::Here(found));
        }
        if let Some(found) = existing(disk, self.sessions.join(&encoded))? {
            return Ok(Location::Here(found));
        }
        let plain = self.sessions.join(&escaped);
        let taken = disk.exists(&plain)?;
        if taken && belongs(disk, &plain, key)? {
            return Ok(Location::Here(plain));
        }
        let target = match &self.external {
            Some(external) => external.join(encoded),
            None if taken => self.sessions.join(encoded),
            None => plain,
        };
        if let Some(legacy) = &self.legacy {
            for name in [Some(escaped), dingtalk_name(key)].into_iter().flatten() {
                if let Some(old) = existing(disk, legacy.join(name))?
                    && belongs(disk, &old, key)?
                {
                    return Ok(Location::Legacy { old, target });
                }
            }
        }
        Ok(Location::Nowhere { target })
    }

    /// `true` if a file is in the legacy location.
    pub(crate) fn is_legacy(&self, path: &Path) -> bool {
        self.legacy.is_some() && path.parent() == self.legacy.as_deref()
    }

    /// Returns the folders in lookup order.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.external
            .iter()
            .chain([&self.sessions])
            .chain(&self.legacy)
            .map(PathBuf::as_path)
    }
}

/// Location of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In the file that is also written to.
    Here(PathBuf),
    /// In a legacy location; the first write moves it.
    Legacy { old: PathBuf, target: PathBuf },
    /// The session does not exist yet.
    Nowhere { target: PathBuf },
}

fn existing(disk: &dyn Disk, path: PathBuf) -> io::Result<Option<PathBuf>> {
    Ok(disk.exists(&path)?.then_some(path))
}

/// Returns the external store of a workspace, unless its marker names another workspace that still
/// exists. In that case this workspace is a copy.
fn external_store(workspace: &Path, sessions: &Path) -> Option<PathBuf> {
    let id = std::fs::read_to_string(workspace.join(WORKSPACE_ID)).ok()?;
    let id = id.trim();
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let store = sessions.join(id);
    if !store.is_dir() {
        return None;
    }
    let owner = std::fs::read_to_string(store.join(BACK_MARKER)).unwrap_or_default();
    let owner = Path::new(owner.trim());
    let is_same = |owner: &Path| match (owner.canonicalize(), workspace.canonicalize()) {
        (Ok(owner), Ok(workspace)) => owner == workspace,
        _ => false,
    };
    if !owner.as_os_str().is_empty() && owner.is_dir() && !is_same(owner) {
        tracing::warn!(store = %store.display(), owner = %owner.display(), "ignoring the session store of another workspace");
        return None;
    }
    Some(store)
}

/// `true` if the file at `path`, whose name is the escaped name of `key`, is the session of `key`.
fn belongs(disk: &dyn Disk, path: &Path, key: &SessionKey) -> io::Result<bool> {
    let Some(inside) = stored_key(disk, path)? else {
        return Ok(true);
    };
    if inside == *key {
        return Ok(true);
    }
    // On case-insensitive file systems, two names may be the same.
    let collides = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.eq_ignore_ascii_case(&escaped_name(&inside)));
    if !collides {
        tracing::warn!(session = %key, inside = %inside, path = %path.display(), "a session file contains another key; using the key of its name");
    }
    Ok(!collides)
}

/// Returns the key on the first metadata line near the beginning of the file.
pub(crate) fn stored_key(disk: &dyn Disk, path: &Path) -> io::Result<Option<SessionKey>> {
    let beginning = read_to_end(&*disk.open(path, Access::Read)?, 0, KEY_WINDOW)?;
    Ok(beginning
        .split(|byte| *byte == b'\n')
        .find_map(|bytes| match line::parse(bytes).line {
            Line::State(state) => state.key,
            _ => None,
        }))
}

/// Returns the key of a listed file; `inside` is the key in its metadata.
pub(crate) fn key_of_file(path: &Path, inside: Option<&SessionKey>) -> Option<SessionKey> {
    if path.extension()?.to_str()? != EXTENSION {
        return None;
    }
    let name = path.file_name()?.to_str()?;
    if let Some(key) = inside
        && (name == escaped_name(key) || name == encoded_name(key))
    {
        return Some(key.clone());
    }
    let stem = path.file_stem()?.to_str()?;
    let decoded = URL_SAFE_NO_PAD
        .decode(stem)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.filter(|key| key.contains(':')) {
        Some(key) => Some(SessionKey::from(key)),
        None => Some(SessionKey::from(stem.replacen('_', ":", 1))),
    }
}

/// Returns the file name that the Python program of March 2026 gives a key.
fn escaped_name(key: &SessionKey) -> String {
    let escaped: String = key
        .as_str()
        .chars()
        .map(|char| {
            if matches!(char, '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*') {
                '_'
            } else {
                char
            }
        })
        .collect();
    file_name(escaped.trim())
}

/// Returns the file name that v0.3 gives a key.
fn encoded_name(key: &SessionKey) -> String {
    file_name(&URL_SAFE_NO_PAD.encode(key.as_str()))
}

/// Returns the file name that version 0 gave the session of a DingTalk group, without the word
/// `group`.
fn dingtalk_name(key: &SessionKey) -> Option<String> {
    let group = key.as_str().strip_prefix("dingtalk:group:")?;
    Some(escaped_name(&SessionKey::from(format!("dingtalk:{group}"))))
}

fn file_name(stem: &str) -> String {
    if stem.len() <= NAME_LIMIT {
        return format!("{stem}.{EXTENSION}");
    }
    let beginning: String = stem.chars().take(NAME_LIMIT / 8).collect();
    format!("{beginning}-{:016x}.{EXTENSION}", fingerprint(stem))
}

/// FNV-1a: stable across programs and versions, unlike the hasher of `std`.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns an unused name next to `path`: `<path>.<what>-<time>`.
pub(crate) fn unused_name_next_to(disk: &dyn Disk, path: &Path, what: &str) -> io::Result<PathBuf> {
    let time = chrono::Local::now().format("%Y%m%dT%H%M%S");
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}-{time}"));
    let mut candidate = path.with_file_name(&name);
    let mut number = 0_u32;
    while disk.exists(&candidate)? {
        number += 1;
        let mut name = name.clone();
        name.push(format!("-{number}"));
        candidate = path.with_file_name(name);
    }
    Ok(candidate)
}

#[cfg(test)]
mod tests {
    use nanobot_disk::LocalDisk;

    use super::*;

    fn key(text: &str) -> SessionKey {
        SessionKey::from(text)
    }

    #[test]
    fn file_names_match_the_python_program() {
        for (text, name) in [
            ("telegram:12345", "telegram_12345.jsonl"),
            ("matrix:!abc:matrix.org", "matrix_!abc_matrix.org.jsonl"),
            ("telegram:-100:topic:7", "telegram_-100_topic_7.jsonl"),
            (" a<b>c ", "a_b_c.jsonl"),
        ] {
            assert_eq!(escaped_name(&key(text)), name);
        }
        assert_eq!(
            encoded_name(&key("telegram:12345")),
            "dGVsZWdyYW06MTIzNDU.jsonl"
        );
        let long = key(&format!("matrix:{}", "界".repeat(300)));
        assert!(escaped_name(&long).len() < 255 && encoded_name(&long).len() < 255);
    }

    #[test]
    fn derives_the_key_from_a_file() {
        for (name, inside, expected) in [
            ("a_b_c.jsonl", Some("a:b_c"), Some("a:b_c")),
            ("telegram_1.jsonl", Some("telegram:2"), Some("telegram:1")),
            ("telegram_1.jsonl", None, Some("telegram:1")),
            ("dGVsZWdyYW06MTIzNDU.jsonl", None, Some("telegram:12345")),
            ("a.jsonl.torn-20260101T000000", None, None),
        ] {
            assert_eq!(
                key_of_file(Path::new(name), inside.map(key).as_ref()),
                expected.map(key),
                "{name}"
            );
        }
    }

    #[test]
    fn searches_layouts_in_order() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (sessions, legacy, external) =
            (folder("sessions"), folder("legacy"), folder("external"));
        let paths = SessionPaths {
            sessions: sessions.clone(),
            legacy: Some(legacy.clone()),
            external: Some(external.clone()),
        };
        let a = key("t:1");
        let canonical = external.join(encoded_name(&a));
        assert_eq!(
            paths.locate(&LocalDisk, &a).unwrap(),
            Location::Nowhere {
                target: canonical.clone()
            }
        );
        let old = legacy.join("t_1.jsonl");
        std::fs::write(&old, "").unwrap();
        assert_eq!(
            paths.locate(&LocalDisk, &a).unwrap(),
            Location::Legacy {
                old,
                target: canonical.clone()
            }
        );
        for path in [
            sessions.join("t_1.jsonl"),
            sessions.join(encoded_name(&a)),
            canonical,
        ] {
            std::fs::write(&path, "").unwrap();
            assert_eq!(paths.locate(&LocalDisk, &a).unwrap(), Location::Here(path));
        }
    }

    #[test]
    fn a_name_taken_by_another_key_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let paths = SessionPaths::only(root.path());
        let taken = root.path().join("a_b_c.jsonl");
        std::fs::write(&taken, "{\"_type\":\"metadata\",\"key\":\"a:b_c\"}\n").unwrap();
        assert_eq!(
            paths.locate(&LocalDisk, &key("a:b_c")).unwrap(),
            Location::Here(taken)
        );
        let other = key("a_b:c");
        assert_eq!(
            paths.locate(&LocalDisk, &other).unwrap(),
            Location::Nowhere {
                target: root.path().join(encoded_name(&other))
            }
        );
    }

    #[test]
    fn finds_dingtalk_groups_under_their_old_name() {
        let root = tempfile::tempdir().unwrap();
        let paths = SessionPaths {
            legacy: Some(root.path().to_owned()),
            ..SessionPaths::only(root.path().join("sessions"))
        };
        let old = root.path().join("dingtalk_cid9.jsonl");
        std::fs::write(
            &old,
            "{\"_type\":\"metadata\",\"created_at\":\"2026-02-01T00:00:00\"}\n",
        )
        .unwrap();
        let target = root.path().join("sessions/dingtalk_group_cid9.jsonl");
        assert_eq!(
            paths
                .locate(&LocalDisk, &key("dingtalk:group:cid9"))
                .unwrap(),
            Location::Legacy { old, target }
        );
    }

    #[test]
    fn external_store_needs_an_id_and_a_matching_owner() {
        let root = tempfile::tempdir().unwrap();
        let (workspace, data) = (root.path().join("workspace"), root.path().join("data"));
        std::fs::create_dir_all(workspace.join(".nanobot")).unwrap();
        let id = "0123456789abcdef0123456789abcdef";
        let store = data.join("sessions").join(id);
        std::fs::create_dir_all(&store).unwrap();
        let found = || SessionPaths::discover(&workspace, &data, &data).external;
        assert_eq!(found(), None);
        std::fs::write(workspace.join(WORKSPACE_ID), "../../etc").unwrap();
        assert_eq!(found(), None);
        std::fs::write(workspace.join(WORKSPACE_ID), format!("{id}\n")).unwrap();
        assert_eq!(found(), Some(store.clone()));
        for (owner, expected) in [
            (&workspace, true),
            (&root.path().join("gone"), true),
            (&data, false),
        ] {
            std::fs::write(store.join(BACK_MARKER), owner.to_str().unwrap()).unwrap();
            assert_eq!(found().is_some(), expected, "{}", owner.display());
        }
    }
}
