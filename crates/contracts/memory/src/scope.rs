//! Whose memory it is, who is listening, and in which folder a scope is kept.
//!
//! Decision: a scope is a folder, and a name never meets another one's folder: ids are escaped
//! byte by byte in a way that can be undone, also where file systems ignore case. An id too long
//! for a file name has no memory of its own rather than a shortened one.

use std::fmt;
use std::path::{Path, PathBuf};

use nanobot_types::{SenderId, SessionKey};
use serde::{Deserialize, Serialize};

use crate::MemoryError;

/// The longest escaped id, in bytes.
const NAME_LIMIT: usize = 200;
const PEOPLE: &str = "people";
const ROOMS: &str = "rooms";

/// Whose memory it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everybody's.
    #[default]
    Shared,
    /// One person's; never shown in a group.
    Person(SenderId),
    /// One group's.
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

/// Who hears what is said in a conversation, and so what may be told there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Audience {
    /// Memory is not divided: everything is everybody's.
    #[default]
    Undivided,
    /// One person alone.
    Person(SenderId),
    /// Several people, or nobody knows.
    Room(SessionKey),
}

impl Audience {
    /// The scopes that may be told: everybody's, and that of this audience.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        match self {
            Self::Undivided => vec![Scope::Shared],
            Self::Person(_) | Self::Room(_) => vec![Scope::Shared, self.home()],
        }
    }

    /// The scope that is learned into: what is said here belongs to those who hear it.
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
    /// `<workspace>/memory`; `divided` when people and rooms have memory of their own below it.
    pub fn new(root: impl Into<PathBuf>, divided: bool) -> Self {
        Self {
            root: root.into(),
            divided,
        }
    }

    /// The folder of what is everybody's.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether people and rooms have memory of their own.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.divided
    }

    /// The folders of all people and all rooms, which need not exist: what no file tool may read
    /// where memory is divided.
    #[must_use]
    pub fn private(&self) -> [PathBuf; 2] {
        [self.root.join(PEOPLE), self.root.join(ROOMS)]
    }

    /// The folder of the versions of shared memory, which only the store writes.
    #[must_use]
    pub fn versions(&self) -> PathBuf {
        self.root.join(crate::versions::FOLDER)
    }

    /// The folder of a scope.
    ///
    /// # Errors
    /// [`MemoryError::Unsupported`] for a person or room where memory is not divided, and for an
    /// id that cannot be a file name.
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

    /// Every scope that has a folder, everybody's first. What cannot be listed has none.
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

/// Small letters, digits and `-` stay, every other byte is `_` and two hexadecimal digits.
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
    fn every_id_has_a_folder_of_its_own_and_comes_back() {
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
    fn what_cannot_have_a_folder_has_none() {
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
