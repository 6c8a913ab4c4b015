//! Files of version 1, which the bridge of the Python program writes into the folder of media.
//!
//! Decision: the bridge names them by their paths, and only files in that folder are read. Links
//! are resolved first, so that none leads out of it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use crate::attachment::FetchError;

const NO_FILE: &str = "it is not in the folder of media";

/// Reads a file of at most `limit` bytes below `data_dir/media`.
pub(crate) async fn read(
    data_dir: Option<&Path>,
    path: &str,
    limit: u64,
) -> Result<Vec<u8>, FetchError> {
    let media = data_dir.map(|data_dir| data_dir.join("media"));
    let media = media.ok_or(FetchError::NoAddress(NO_FILE))?;
    let path = path.to_owned();
    let reading = move || read_below(&media, Path::new(&path), limit);
    let read = tokio::task::spawn_blocking(reading).await;
    read.unwrap_or(Err(FetchError::NoAddress(NO_FILE)))
}

fn read_below(folder: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, FetchError> {
    let nothing = |_error| FetchError::NoAddress(NO_FILE);
    let folder = fs::canonicalize(folder).map_err(nothing)?;
    let path = fs::canonicalize(path).map_err(nothing)?;
    // Opening anything else, such as a pipe, could wait for ever.
    let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
    if !path.starts_with(&folder) || !is_file {
        return Err(FetchError::NoAddress(NO_FILE));
    }
    let file = File::open(&path).map_err(nothing)?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(limit.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(nothing)?;
    if bytes.len() as u64 > limit {
        return Err(FetchError::TooLarge { limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_files_of_the_folder_are_read() {
        let data = tempfile::tempdir().unwrap();
        let media = data.path().join("media");
        fs::create_dir_all(media.join("whatsapp")).unwrap();
        fs::write(media.join("wa_1.txt"), "hello").unwrap();
        fs::write(data.path().join("config.json"), "s3cret").unwrap();
        let from_data = async |path: &str, limit| {
            let path = data.path().join(path);
            read(Some(data.path()), path.to_str().unwrap(), limit).await
        };
        assert_eq!(from_data("media/wa_1.txt", 5).await.unwrap(), b"hello");
        let large = from_data("media/wa_1.txt", 4).await.unwrap_err();
        assert!(large.is_about_size(), "{large}");
        for path in [
            "media/../config.json",
            "config.json",
            "media/whatsapp",
            "media/none",
        ] {
            assert!(from_data(path, 100).await.is_err(), "{path}");
        }
        assert!(read(None, "/etc/passwd", 100).await.is_err());
        assert!(read(Some(data.path()), "wa_1.txt", 100).await.is_err());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_do_not_lead_out_of_the_folder() {
        let data = tempfile::tempdir().unwrap();
        let media = data.path().join("media");
        fs::create_dir(&media).unwrap();
        fs::write(data.path().join("config.json"), "s3cret").unwrap();
        let link = media.join("link");
        std::os::unix::fs::symlink(data.path().join("config.json"), &link).unwrap();
        let folder = media.join("folder");
        std::os::unix::fs::symlink(data.path(), &folder).unwrap();
        for path in [link, folder.join("config.json")] {
            let bytes = read(Some(data.path()), path.to_str().unwrap(), 100).await;
            assert!(bytes.is_err(), "{path:?}");
        }
    }
}
