//! The folders of an account, and the name under which it was last connected.

use std::path::{Path, PathBuf};

use nanobot_disk::{
    Access, Disk as _, Durability, FileDraft, LocalDisk, read_to_end, replace_file,
};

use crate::BridgeError;
use crate::folders::create_private;

/// Maximum size of a note, in bytes.
const MAX_NOTE: usize = 4096;
/// The account if a channel has the name of its kind.
const DEFAULT: &str = "whatsapp";

/// The folders of one account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Journal and other files of the bridge, and ours.
    pub(crate) folder: PathBuf,
    /// Keys of the linked device.
    pub(crate) keys: PathBuf,
}

impl Account {
    pub(crate) fn new(data_dir: &Path, bridges: &Path, instance: Option<&str>) -> Self {
        let accounts = bridges.join("accounts");
        match instance.filter(|name| *name != DEFAULT).map(file_name) {
            None => Self {
                folder: accounts.join(DEFAULT),
                keys: data_dir.join("whatsapp-auth"),
            },
            Some(name) => Self {
                folder: accounts.join(&name),
                keys: data_dir.join(format!("whatsapp-auth-{name}")),
            },
        }
    }

    pub(crate) fn create_folders(&self) -> Result<(), BridgeError> {
        create_private(&self.state())?;
        create_private(&self.keys)
    }

    /// Returns the folder of the bridge's own files.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Returns the lock that the supervisor of the bridge holds.
    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("bridge.lock")
    }

    /// Returns the note; `None` if there is none, or it cannot be read.
    pub(crate) fn note(&self) -> Option<String> {
        let file = LocalDisk.open(&self.note_path(), Access::Read).ok()?;
        let bytes = read_to_end(&*file, 0, MAX_NOTE as u64).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Replaces the note.
    pub(crate) fn write_note(&self, note: &str) -> Result<(), BridgeError> {
        let path = self.note_path();
        if note.len() > MAX_NOTE {
            let text = format!("cannot write {}: it is too large", path.display());
            return Err(BridgeError::Install(text));
        }
        create_private(&self.folder)?;
        let (draft, durability) = (FileDraft::Random, Durability::Disk);
        replace_file(&LocalDisk, &path, note.as_bytes(), draft, durability)
            .map_err(BridgeError::file("write", &path))
    }

    fn note_path(&self) -> PathBuf {
        self.folder.join("account")
    }
}

/// Returns the name of an instance as the name of a file: different ones for different names, and
/// without separators. Other bytes than letters, digits, `-` and `_` are written as `%2e`.
fn file_name(instance: &str) -> String {
    let written = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    instance.bytes().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_folders_of_their_own() {
        let folders = |instance| {
            let account = Account::new(Path::new("/data"), Path::new("/data/b"), instance);
            (
                account.folder.display().to_string(),
                account.keys.display().to_string(),
            )
        };
        let own = |folder: &str, keys: &str| (folder.to_owned(), keys.to_owned());
        let default = own("/data/b/accounts/whatsapp", "/data/whatsapp-auth");
        assert_eq!(folders(None), default);
        assert_eq!(folders(Some("whatsapp")), default);
        assert_eq!(
            folders(Some("work_2")),
            own("/data/b/accounts/work_2", "/data/whatsapp-auth-work_2")
        );
        assert_eq!(
            folders(Some("../é")),
            own(
                "/data/b/accounts/%2e%2e%2f%c3%a9",
                "/data/whatsapp-auth-%2e%2e%2f%c3%a9"
            )
        );
    }

    #[test]
    fn note_is_replaced_and_bounded() {
        let root = tempfile::tempdir().unwrap();
        let account = Account::new(root.path(), &root.path().join("new"), None);
        assert_eq!(account.note(), None);
        account.write_note("Ann").unwrap();
        account.write_note("Bob").unwrap();
        assert!(account.write_note(&"x".repeat(MAX_NOTE + 1)).is_err());
        assert_eq!(account.note().as_deref(), Some("Bob"));
        std::fs::write(account.note_path(), [0xff]).unwrap();
        assert_eq!(account.note(), None);
    }
}
