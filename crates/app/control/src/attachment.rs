//! Checks the files that a terminal attaches to a message.
//!
//! Decision: the client copies files into the gateway's media folder, and the gateway accepts only
//! files directly in there. The gateway so never reads a path that a request names elsewhere, and a
//! file that changes or disappears later is no concern.

use std::path::{Path, PathBuf};

use nanobot_types::MediaRef;

/// Maximum number of files of one message.
pub(crate) const MAX_FILES: usize = 32;

/// Reason why attached files are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttachmentError {
    /// There are too many.
    #[error("a message has at most {MAX_FILES} files")]
    TooMany,
    /// It is not a file that was copied for the gateway.
    #[error("{} is not a file in the media folder of terminals", path.display())]
    Elsewhere {
        /// The path of the request.
        path: PathBuf,
    },
    /// The check did not run.
    #[error("the attached files could not be checked")]
    Unchecked,
}

/// Returns references to the files if each is a regular file directly in `folder`. Blocks on disk
/// I/O.
pub(crate) fn check(folder: &Path, paths: Vec<PathBuf>) -> Result<Vec<MediaRef>, AttachmentError> {
    if paths.len() > MAX_FILES {
        return Err(AttachmentError::TooMany);
    }
    let of = |path: PathBuf| {
        let is_inside = path.parent() == Some(folder) && path.file_name().is_some();
        // A link is not followed: it may lead anywhere.
        let is_file = || std::fs::symlink_metadata(&path).is_ok_and(|file| file.is_file());
        match path.to_str().filter(|_| is_inside && is_file()) {
            Some(location) => Ok(MediaRef::new(location)),
            None => Err(AttachmentError::Elsewhere { path }),
        }
    };
    paths.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_in_the_folder_are_accepted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("media");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["secret", "media/a.png", "media/sub/b.png"] {
            std::fs::write(home.path().join(name), "x").unwrap();
        }
        let good = folder.join("a.png");
        let found = check(&folder, vec![good.clone()]).unwrap();
        assert_eq!(found, [MediaRef::new(good.to_str().unwrap())]);
        #[cfg(unix)]
        std::os::unix::fs::symlink(home.path().join("secret"), folder.join("link")).unwrap();
        for name in [
            "secret",
            "media/../secret",
            "media/sub/b.png",
            "media/sub",
            "media/missing",
            "media/link",
            "media/sub/../a.png",
            "media/..",
        ] {
            let path = home.path().join(name);
            let refused = check(&folder, vec![good.clone(), path.clone()]);
            assert_eq!(refused, Err(AttachmentError::Elsewhere { path }), "{name}");
        }
        let relative = check(&folder, vec!["a.png".into()]);
        assert!(relative.is_err(), "{relative:?}");
        let many = check(&folder, vec![good; MAX_FILES + 1]);
        assert_eq!(many, Err(AttachmentError::TooMany));
    }
}
