//! Reads the configuration file.

use std::path::Path;
use std::{fs, io};

use crate::ConfigError;

/// Returns the content of a file; `None` if there is no such file.
pub(crate) fn read(file: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read {
            path: file.to_path_buf(),
            source,
        }),
    }
}
