//! Files on the server.

use std::collections::BTreeMap;

use bytes::Bytes;
use nanobot_testkit::http::Response;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::incoming::FileKind;
use crate::params::Params;

/// Maximum size of a file that bots can download, in bytes.
const DOWNLOAD_LIMIT: usize = 20 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
    unique_id: String,
    path: String,
}

impl StoredFile {
    pub(crate) fn meta(&self) -> Value {
        json!({"file_id": self.id, "file_unique_id": self.unique_id, "file_size": self.bytes.len()})
    }
}

#[derive(Debug, Default)]
pub(crate) struct FileStore(BTreeMap<String, StoredFile>);

impl FileStore {
    pub(crate) fn keep(
        &mut self,
        kind: FileKind,
        name: &str,
        mime: Option<&str>,
        bytes: Bytes,
    ) -> StoredFile {
        let number = self.0.len() + 1;
        let ending = name.rsplit_once('.').map_or("bin", |(_, ending)| ending);
        let file = StoredFile {
            id: format!("AgACAgIAAxk_{}_{number}", kind.field()),
            name: name.to_owned(),
            mime: mime.unwrap_or("application/octet-stream").to_owned(),
            bytes,
            unique_id: format!("AQAD{number}"),
            path: format!("{}s/file_{number}.{ending}", kind.field()),
        };
        self.0.insert(file.id.clone(), file.clone());
        file
    }

    pub(crate) fn get(&self, id: &str) -> Option<&StoredFile> {
        self.0.get(id)
    }

    pub(crate) fn get_file(&self, params: &Params) -> ApiResult {
        let file = self
            .get(params.text("file_id"))
            .ok_or_else(|| ApiError::bad("invalid file_id"))?;
        if file.bytes.len() > DOWNLOAD_LIMIT {
            return Err(ApiError::bad("file is too big"));
        }
        let mut meta = file.meta();
        nanobot_testkit::json::set(&mut meta, "file_path", file.path.as_str());
        Ok(meta)
    }

    /// Returns the response to a download.
    pub(crate) fn download(&self, path: &str) -> Option<Response> {
        let file = self.0.values().find(|file| file.path == path)?;
        Some(Response::bytes(
            200,
            "application/octet-stream",
            file.bytes.clone(),
        ))
    }
}
