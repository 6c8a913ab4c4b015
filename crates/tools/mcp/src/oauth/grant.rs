//! The file of tokens, `mcp-tokens.json` in the data folder.
//!
//! Decision: tokens belong to the address of their server, so another address in the configuration
//! never receives them. Several processes use the file, and a refresh token that is used twice may
//! end the login, so a refresh holds the lock from reading the old tokens to writing the new ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nanobot_disk::{Durability, FileDraft, LocalDisk, lock_beside, replace_file};
use nanobot_redact::{Secret, serialize_exposed};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::client::OAuthClient;
use crate::McpError;

const NAME: &str = "mcp-tokens.json";
/// Maximum size of the file, in bytes. A larger one is refused.
const MAX_FILE: u64 = 4 << 20;

/// What a login gave, with what a refresh needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// Address of the MCP server.
    pub(super) url: String,
    pub(super) resource: String,
    pub(super) token_endpoint: Url,
    pub(super) client: OAuthClient,
    #[serde(serialize_with = "serialize_exposed")]
    pub(super) access_token: Secret,
    #[serde(
        default,
        serialize_with = "exposed_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) refresh_token: Option<Secret>,
    /// Time at which the access token has to be renewed, in seconds since 1970. `None` if its end is
    /// unknown.
    pub(super) renew_at: Option<u64>,
}

fn exposed_option<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serialize_exposed(secret, serializer),
        None => serializer.serialize_none(),
    }
}

impl Grant {
    /// Returns the values that have to stay secret.
    pub(super) fn secrets(&self) -> Vec<String> {
        let all = [
            Some(&self.access_token),
            self.refresh_token.as_ref(),
            Some(&self.client.secret),
        ];
        let all = all.into_iter().flatten().map(|one| one.expose().to_owned());
        all.filter(|value| !value.is_empty()).collect()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    servers: BTreeMap<String, Grant>,
}

/// Returns the tokens in the file of a data folder; none if it cannot be read.
#[must_use]
pub fn known_tokens(folder: &Path) -> Vec<String> {
    let content = read(&folder.join(NAME)).unwrap_or_default();
    content.servers.values().flat_map(Grant::secrets).collect()
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct GrantFile {
    path: PathBuf,
}

/// Excludes other processes, and other tasks of this one, from changes.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    file: &'a GrantFile,
    _lock: File,
}

impl GrantFile {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
        }
    }

    /// Returns the grant of a server; `None` if there is none for its address.
    pub(super) async fn grant(&self, name: &str, url: &Url) -> Result<Option<Grant>, McpError> {
        let mut content = self.blocking(|path| read(&path)).await?;
        let found = content.servers.remove(name);
        Ok(found.filter(|grant| grant.url == url.as_str()))
    }

    /// Removes the grant of a server. Returns `true` if there was one.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, McpError> {
        self.lock().await?.set(name, None).await
    }

    /// Waits for other changes.
    pub(super) async fn lock(&self) -> Result<Locked<'_>, McpError> {
        Ok(Locked {
            _lock: self.blocking(|path| lock_beside(&path)).await?,
            file: self,
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> Result<T, McpError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || act(path)).await;
        done.map_err(io::Error::other)
            .flatten()
            .map_err(|source| McpError::Record {
                path: self.path.clone(),
                source,
            })
    }
}

impl Locked<'_> {
    /// Replaces the grant of a server, or removes it. Returns `true` if there was one.
    pub(super) async fn set(&self, name: &str, grant: Option<Grant>) -> Result<bool, McpError> {
        let name = name.to_owned();
        let replace = self.file.blocking(move |path| {
            let mut content = read(&path)?;
            let before = match grant {
                Some(grant) => content.servers.insert(name, grant),
                None => content.servers.remove(&name),
            };
            let text = serde_json::to_vec(&content)?;
            replace_file(
                &LocalDisk,
                &path,
                &text,
                FileDraft::Random,
                Durability::Disk,
            )?;
            Ok(before.is_some())
        });
        replace.await
    }
}

fn read(path: &Path) -> io::Result<Content> {
    let text = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Ok(file) if file.len() > MAX_FILE => return Err(io::ErrorKind::FileTooLarge.into()),
        _ => std::fs::read(path)?,
    };
    // The error of the parser could show a part of a token.
    serde_json::from_slice(&text).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is no valid JSON of tokens: {at}"),
        )
    })
}
