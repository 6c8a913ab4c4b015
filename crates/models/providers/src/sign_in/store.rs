//! The file of tokens of one provider.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nanobot_disk::{Durability, FileDraft, LocalDisk, lock_beside, replace_file};
use nanobot_redact::{Secret, serialize_exposed};
use serde::{Deserialize, Serialize};

use super::SignInError;
use crate::ProviderSpec;

/// Maximum size of the file, in bytes. A larger one is refused.
const MAX_FILE: u64 = 1 << 20;

/// Time before the end of a token at which it is renewed, in seconds.
const MARGIN: u64 = 300;

/// Maximum lifetime that is believed, in seconds.
const LONGEST_LIFE: u64 = 10 * 365 * 86_400;

/// The result of a login, with all that a renewal needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// Address of the login server. Another one never receives the tokens.
    pub(super) server: String,
    /// The token with which the provider is called.
    #[serde(serialize_with = "serialize_exposed")]
    pub(super) access_token: Secret,
    /// The token with which the other one is renewed.
    #[serde(serialize_with = "serialize_exposed")]
    pub(super) refresh_token: Secret,
    /// Time at which the access token ends, in seconds since 1970.
    pub(super) ends_at: Option<u64>,
    /// Time at which it is renewed.
    pub(super) renew_at: Option<u64>,
    /// The account to name in requests.
    #[serde(default)]
    pub(super) account: Option<String>,
    /// The address of the API that the login server named.
    #[serde(default)]
    pub(super) api: Option<String>,
}

impl Grant {
    /// Sets the times of an access token that was issued now, with its lifetime in seconds.
    pub(super) fn set_life(&mut self, life: Option<u64>) {
        let life = life.map(|life| life.min(LONGEST_LIFE));
        let after = |seconds: u64| now().saturating_add(seconds);
        self.ends_at = life.map(after);
        self.renew_at = life.map(|life| after(life.saturating_sub(MARGIN.min(life.div_ceil(2)))));
    }

    pub(super) fn must_be_renewed(&self) -> bool {
        self.renew_at.is_some_and(|at| at <= now())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ends_at.is_some_and(|at| at <= now())
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        let all = [&self.access_token, &self.refresh_token];
        all.map(|one| one.expose().to_owned()).into()
    }
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// The file, readable by its owner only.
#[derive(Clone, Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
}

/// Excludes other processes, and other tasks of this one, from changes.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    file: &'a TokenFile,
    _lock: File,
}

impl TokenFile {
    pub(super) fn of(spec: &ProviderSpec, folder: &Path) -> Self {
        Self {
            path: folder.join(format!("{}.json", spec.name)),
        }
    }

    /// Reads the file; `None` if there is none. Blocks.
    pub(super) fn read_now(&self) -> io::Result<Option<Grant>> {
        read(&self.path)
    }

    pub(super) async fn read(&self) -> Result<Option<Grant>, SignInError> {
        self.blocking(|path| read(&path)).await
    }

    /// Waits for other changes.
    pub(super) async fn lock(&self) -> Result<Locked<'_>, SignInError> {
        Ok(Locked {
            _lock: self.blocking(|path| lock_beside(&path)).await?,
            file: self,
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SignInError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || act(path)).await;
        done.map_err(io::Error::other)
            .flatten()
            .map_err(|source| SignInError::Store {
                path: self.path.clone(),
                source,
            })
    }
}

impl Locked<'_> {
    pub(super) async fn write(&self, grant: &Grant) -> Result<(), SignInError> {
        let text = serde_json::to_vec_pretty(grant);
        let write = self.file.blocking(move |path| {
            let text = text?;
            let (draft, durability) = (FileDraft::Private, Durability::Disk);
            replace_file(&LocalDisk, &path, &text, draft, durability)
        });
        write.await
    }

    /// Removes the file. Returns `true` if there was one.
    pub(super) async fn remove(&self) -> Result<bool, SignInError> {
        let remove = self.file.blocking(|path| match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        });
        remove.await
    }
}

fn read(path: &Path) -> io::Result<Option<Grant>> {
    let text = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(file) if file.len() > MAX_FILE => return Err(io::ErrorKind::FileTooLarge.into()),
        _ => std::fs::read(path)?,
    };
    // The error of the parser could show a part of a token.
    let grant = serde_json::from_slice(&text).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        let text = format!("it is no valid JSON of tokens: {at}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(Some(grant))
}
