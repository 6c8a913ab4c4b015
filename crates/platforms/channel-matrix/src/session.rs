//! The session of the account: its access token, its device and the user it belongs to.
//!
//! Decision: a session of a login by password is kept in the file `session.json` of the channel's
//! folder, which only the owner can read. A token of the configuration is kept nowhere else.

use std::path::{Path, PathBuf};

use nanobot_channel::ChannelName;
use serde::Deserialize;
use serde_json::json;

use crate::Secret;

const FILE: &str = "session.json";
/// Largest session file that is read, in bytes.
const FILE_LIMIT: u64 = 64 << 10;

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) user_id: String,
    /// Empty until the homeserver was asked.
    pub(crate) device_id: String,
    pub(crate) token: Secret,
}

/// The file of a session.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredSession {
    homeserver: String,
    user_id: String,
    device_id: String,
    access_token: String,
}

/// Returns the folder of a channel in the folder of the program's data.
pub(crate) fn folder(data_dir: &Path, name: &ChannelName) -> PathBuf {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match name.as_str() {
        "matrix" => data_dir.join("matrix-store"),
        name => {
            let name: String = name
                .chars()
                .map(|c| if is_safe(c) { c } else { '_' })
                .collect();
            data_dir.join(format!("matrix-store-{name}"))
        }
    }
}

/// Reads the session of an earlier login. `None` if there is none of this account.
pub(crate) async fn read(folder: &Path, homeserver: &str, user_id: &str) -> Option<Session> {
    let path = folder.join(FILE);
    let length = tokio::fs::metadata(&path).await.ok()?.len();
    if length > FILE_LIMIT {
        return None;
    }
    let text = tokio::fs::read(&path).await.ok()?;
    let stored: StoredSession = serde_json::from_slice(&text).ok()?;
    let is_same_server = stored.homeserver.is_empty() || stored.homeserver == homeserver;
    let is_usable = is_same_server && stored.user_id == user_id && !stored.access_token.is_empty();
    is_usable.then(|| Session {
        user_id: stored.user_id,
        device_id: stored.device_id,
        token: Secret::new(stored.access_token),
    })
}

/// Writes a session; the file is either the old or the new one.
///
/// # Errors
/// If the folder or the file cannot be written.
pub(crate) async fn write(
    folder: &Path,
    homeserver: &str,
    session: &Session,
) -> std::io::Result<()> {
    let text = json!({
        "homeserver": homeserver, "user_id": session.user_id, "device_id": session.device_id,
        "access_token": session.token.expose(),
    });
    tokio::fs::create_dir_all(folder).await?;
    let draft = folder.join(format!("{FILE}.part"));
    write_private(&draft, text.to_string().as_bytes()).await?;
    tokio::fs::rename(&draft, folder.join(FILE)).await
}

async fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.open(path).await?;
    file.write_all(bytes).await?;
    file.sync_all().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_has_a_folder_of_its_own() {
        let folder = |name: &str| folder(Path::new("data"), &ChannelName::from(name));
        assert_eq!(folder("matrix"), Path::new("data").join("matrix-store"));
        assert_eq!(folder("../x"), Path::new("data").join("matrix-store-___x"));
    }

    #[tokio::test]
    async fn session_is_kept_for_its_account_only() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("matrix-store");
        let session = Session {
            user_id: "@bot:x".to_owned(),
            device_id: "D".to_owned(),
            token: Secret::new("s3cret"),
        };
        write(&folder, "http://x", &session).await.unwrap();
        write(&folder, "http://x", &session).await.unwrap();
        let found = read(&folder, "http://x", "@bot:x").await.unwrap();
        assert_eq!(
            (found.device_id.as_str(), found.token.expose()),
            ("D", "s3cret")
        );
        assert!(read(&folder, "http://y", "@bot:x").await.is_none());
        assert!(read(&folder, "http://x", "@eve:x").await.is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let metadata = std::fs::metadata(folder.join(FILE)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
    }
}
