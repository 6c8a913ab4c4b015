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
            text: include_str!(concat!("../../../../bridges/whatsapp/", $path)),
        }),*]
    };
}

/// All files of the package, without its documentation and tests.
const FILES: &[PackageFile] = files! {
    "index.js"
    "package-lock.json"
    "package.json"
    "src/auth.js"
    "src/baileys.js"
    "src/bounded.js"
    "src/bridge.js"
    "src/client.js"
    "src/commands.js"
    "src/content.js"
    "src/disk.js"
    "src/downloads.js"
    "src/early.js"
    "src/failure.js"
    "src/folder.js"
    "src/jid.js"
    "src/journal.js"
    "src/lines.js"
    "src/log.js"
    "src/messages.js"
    "src/outbox.js"
    "src/process.js"
    "src/requests.js"
    "src/sent.js"
    "src/server.js"
    "src/settings.js"
    "src/uploads.js"
    "src/whatsapp.js"
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

    /// Returns the paths of the scripts in a folder of the package.
    fn scripts(root: &Path, folder: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                paths.extend(scripts(root, &path));
            } else {
                paths.push(path);
            }
        }
        paths
    }

    #[test]
    fn every_file_of_the_package_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bridges/whatsapp");
        let mut expected = scripts(&root, "src");
        expected.extend(["package.json", "package-lock.json", "index.js"].map(str::to_owned));
        expected.sort();
        let mut embedded: Vec<_> = FILES.iter().map(|file| file.path).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, expected);
    }

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
