//! The package of the bridge, as text in this program.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use crate::BridgeError;

/// Digits of a version.
const DIGITS: usize = 16;
/// Ending of the name of an unfinished installation.
pub(crate) const PART: &str = ".part";

/// A file of the package.
struct PackageFile {
    path: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($path:literal)*) => {
        &[$(PackageFile {
            path: $path,
            text: include_str!(concat!("../tests/stand-in/", $path)),
        }),*]
    };
}

const FILES: &[PackageFile] = files! {
    "package.json"
    "index.js"
};

static VERSION: LazyLock<String> = LazyLock::new(|| version_of(FILES));

/// Returns the version of the embedded package: the beginning of the SHA-256 of all files.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// `true` if `name` is that of an installed version or of an unfinished installation.
pub(crate) fn is_version(name: &str) -> bool {
    let name = name.strip_suffix(PART).unwrap_or(name);
    name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes the package into a folder.
pub(crate) fn write(folder: &Path) -> Result<(), BridgeError> {
    for file in FILES {
        let path = folder.join(file.path);
        if let Some(parent) = path.parent() {
            crate::folders::create_private(parent)?;
        }
        fs::write(&path, file.text).map_err(BridgeError::file("write", &path))?;
    }
    Ok(())
}

fn version_of(files: &[PackageFile]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        // With their lengths, so that no two packages are the same bytes.
        for text in [file.path, file.text] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
    format!("{:x}", hash.finalize())
        .chars()
        .take(DIGITS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn file(path: &'static str, text: &'static str) -> PackageFile {
        PackageFile { path, text }
    }

    #[test]
    fn version_depends_on_every_name_and_text() {
        let versions = [
            version_of(&[file("a", "bc")]),
            version_of(&[file("ab", "c")]),
            version_of(&[file("a", "bd")]),
            version_of(&[file("a", "bc"), file("", "")]),
        ];
        for (index, version) in versions.iter().enumerate() {
            assert!(is_version(version), "{version}");
            assert!(!versions[..index].contains(version), "{version}");
        }
        assert!(is_version(&format!("{}.part", version())));
        for other in ["accounts", "install.lock", "0123456789abcde", ".part"] {
            assert!(!is_version(other), "{other}");
        }
    }
}
