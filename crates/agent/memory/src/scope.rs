//! Scopes of memory, audiences of conversations, and the folder of each scope.
//!
//! Decision: a scope is a folder, and no two ids share a folder. Ids are escaped byte by byte in a
//! reversible way that also works on case-insensitive file systems. An id that is too long for a
//! file name has no memory; it is never shortened.

use std::fmt;
use std::path::{Path, PathBuf};

use nanobot_types::{SenderId, SessionKey};
use serde::{Deserialize, Serialize};

use crate::MemoryError;

/// Name of the folder of versions within the folder of a scope.
pub(crate) const VERSIONS_FOLDER: &str = ".versions";

/// Maximum length of an escaped id, in bytes.
const NAME_LIMIT: usize = 200;
const PEOPLE: &str = "people";
const ROOMS: &str = "rooms";

/// Owner of a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Shared by everyone.
    #[default]
    Shared,
    /// Belongs to one person; never shown in a group.
    Person(SenderId),
    /// Belongs to one group.
    Room(SessionKey),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("everybody"),
            Self::Person(person) => write!(f, "person {person}"),
            Self::Room(room) => write!(f, "room {room}"),
        }
    }
}

/// Audience of a conversation, which determines the memory that may be disclosed in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Audience {
    /// Memory is not divided: all of it is shared.
    #[default]
    Undivided,
    /// One person.
    Person(SenderId),
    /// Several people, or an unknown audience.
    Room(SessionKey),
}

impl Audience {
    /// Returns the scopes that may be disclosed: the shared one and that of this audience.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        match self {
            Self::Undivided => vec![Scope::Shared],
            Self::Person(_) | Self::Room(_) => vec![Scope::Shared, self.home()],
        }
    }

    /// Returns the scope for new memory: what is said here belongs to those who hear it.
    #[must_use]
    pub fn home(&self) -> Scope {
        match self {
            Self::Undivided => Scope::Shared,
            Self::Person(person) => Scope::Person(person.clone()),
            Self::Room(room) => Scope::Room(room.clone()),
        }
    }
}

/// The folders of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFolders {
    root: PathBuf,
    divided: bool,
}

impl MemoryFolders {
    /// Creates the folders of memory below `<workspace>/memory`; `divided` if people and rooms have
    /// memory of their own.
    pub fn new(root: impl Into<PathBuf>, divided: bool) -> Self {
        Self {
            root: root.into(),
            divided,
        }
    }

    /// Returns the folder of shared memory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `true` if people and rooms have memory of their own.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.divided
    }

    /// Returns the folders of all people and of all rooms, which need not exist. If memory is
    /// divided, no file tool may read them.
    #[must_use]
    pub fn private(&self) -> [PathBuf; 2] {
        [self.root.join(PEOPLE), self.root.join(ROOMS)]
    }

    /// Returns the folder of the versions of shared memory, which only the store writes.
    #[must_use]
    pub fn versions(&self) -> PathBuf {
        self.root.join(VERSIONS_FOLDER)
    }

    /// Returns the folder of a scope.
    ///
    /// # Errors
    /// Returns [`MemoryError::Unsupported`] for a person or room if memory is not divided, and for
    /// an id that cannot be a file name.
    pub fn of(&self, scope: &Scope) -> Result<PathBuf, MemoryError> {
        let (kind, id) = match scope {
            Scope::Shared => return Ok(self.root.clone()),
            Scope::Person(person) => (PEOPLE, person.as_str()),
            Scope::Room(room) => (ROOMS, room.as_str()),
        };
        let name = escaped(id);
        if !self.divided || name.is_empty() || name.len() > NAME_LIMIT {
            return Err(MemoryError::Unsupported {
                scope: scope.to_string(),
            });
        }
        Ok(self.root.join(kind).join(name))
    }

    /// Returns every scope that has a folder, the shared one first. Folders that cannot be listed
    /// are left out.
    #[must_use]
    pub fn existing(&self) -> Vec<Scope> {
        let mut scopes = vec![Scope::Shared];
        if self.divided {
            scopes.extend(
                ids(&self.root.join(PEOPLE))
                    .into_iter()
                    .map(|id| Scope::Person(id.into())),
            );
            scopes.extend(
                ids(&self.root.join(ROOMS))
                    .into_iter()
                    .map(|id| Scope::Room(id.into())),
            );
        }
        scopes
    }
}

fn ids(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries
        .filter_map(|entry| unescaped(entry.file_name().to_str()?))
        .collect();
    ids.sort_unstable();
    ids
}

/// Escapes an id: lower-case letters, digits and `-` are kept, and every other byte becomes `_` and
/// two hexadecimal digits.
fn escaped(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("_{byte:02x}")),
        }
    }
    name
}

fn unescaped(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'_' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let id = String::from_utf8(bytes).ok()?;
    (escaped(&id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_ids_is_unique_and_reversible() {
        let ids = [
            "telegram:7",
            "telegram_7",
            "Ann",
            "ann",
            "../..",
            ".",
            "会",
            "a/b",
            "a_2fb",
            "con",
            "a b",
            "A\0",
        ];
        let mut names: Vec<String> = ids.iter().map(|id| escaped(id)).collect();
        for (id, name) in ids.iter().zip(&names) {
            assert_eq!(unescaped(name).as_deref(), Some(*id));
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')),
                "{name}"
            );
        }
        names.sort();
        names.dedup_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(names.len(), ids.len());
        for foreign in ["_", "_4", "_zz", "_61", "A", ".versions", "_ff"] {
            assert_eq!(unescaped(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn rejects_scopes_without_a_folder() {
        let folders = MemoryFolders::new("m", true);
        assert_eq!(
            folders.of(&Scope::Person("a:1".into())).unwrap(),
            Path::new("m/people/a_3a1")
        );
        assert_eq!(
            folders.of(&Scope::Room("a:1".into())).unwrap(),
            Path::new("m/rooms/a_3a1")
        );
        for scope in [
            Scope::Person("".into()),
            Scope::Room("x".repeat(201).into()),
        ] {
            assert!(
                matches!(folders.of(&scope), Err(MemoryError::Unsupported { .. })),
                "{scope}"
            );
        }
        let undivided = MemoryFolders::new("m", false);
        assert_eq!(undivided.of(&Scope::Shared).unwrap(), Path::new("m"));
        assert!(matches!(
            undivided.of(&Scope::Person("a".into())),
            Err(MemoryError::Unsupported { .. })
        ));
    }
}
