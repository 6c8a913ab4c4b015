//! Reads user-edited files for a prompt, bounded in size and without ever blocking on a pipe or a
//! device.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The beginning of a file.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// Text, with invalid UTF-8 replaced.
    pub(crate) text: String,
    /// `true` if the file is longer than the excerpt.
    pub(crate) cut: bool,
}

/// Returns the first `limit` bytes of a regular file as text, or `None` if the file does not exist.
/// Pipes and devices are an error, because reading one may never end.
pub(crate) fn read_text(path: &Path, limit: usize) -> io::Result<Option<Excerpt>> {
    let Some(bytes) = read_bytes(path, limit)? else {
        return Ok(None);
    };
    let cut = bytes.len() > limit;
    let kept = bytes.get(..limit).unwrap_or(&bytes);
    let text = match String::from_utf8_lossy(kept) {
        text if !text.contains(char::REPLACEMENT_CHARACTER) => text.into_owned(),
        // The cut may have split the last character.
        text if cut
            && std::str::from_utf8(kept).is_err_and(|error| error.error_len().is_none()) =>
        {
            text.trim_end_matches(char::REPLACEMENT_CHARACTER)
                .to_owned()
        }
        text => {
            tracing::warn!(path = %path.display(), "file is not UTF-8; invalid bytes were replaced");
            text.into_owned()
        }
    };
    Ok(Some(Excerpt {
        text: text.trim_start_matches('\u{feff}').to_owned(),
        cut,
    }))
}

/// Returns at most `limit` + 1 bytes of a regular file, or `None` if the file does not exist.
pub(crate) fn read_bytes(path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_bounded_and_lossy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        let table: [(&[u8], &str, bool); 5] = [
            (b"short", "short", false),
            (b"longer than ten", "longer tha", true),
            ("\u{feff}mark".as_bytes(), "mark", false),
            (b"bad \xff one", "bad \u{fffd} one", false),
            ("123456789é".as_bytes(), "123456789", true),
        ];
        for (bytes, text, cut) in table {
            std::fs::write(&path, bytes).unwrap();
            let excerpt = read_text(&path, 10).unwrap().unwrap();
            assert_eq!((excerpt.text.as_str(), excerpt.cut), (text, cut));
        }
        assert!(
            read_text(&directory.path().join("none"), 10)
                .unwrap()
                .is_none()
        );
        assert!(read_text(directory.path(), 10).is_err());
    }
}
