//! Error messages with their sources.

use std::error::Error;
use std::io;

/// Formats an error and its sources in one line. A full disk is named in words, by
/// [`disk_failure`], instead of the system's text.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        match inner.downcast_ref().and_then(disk_failure) {
            Some(words) => text.push_str(words),
            None => text.push_str(&inner.to_string()),
        }
        source = inner.source();
    }
    text
}

/// Returns the words for an error of writing that has nothing to do with the file: a full disk, or
/// a used-up quota or limit. `None` for all other errors.
pub fn disk_failure(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull => Some("the disk is full"),
        io::ErrorKind::QuotaExceeded => Some("the disk quota of this user is used up"),
        io::ErrorKind::FileTooLarge => Some("the file would exceed a limit of the system"),
        _ => None,
    }
}

/// `true` if an error or one of its sources is a [`disk_failure`].
pub fn is_disk_failure(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref().and_then(disk_failure).is_some() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(u32);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "layer {}", self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            match self.0 {
                0 => Some(&Self(1)),
                1 => Some(&Self(2)),
                _ => None,
            }
        }
    }

    #[test]
    fn chain_appends_the_sources_of_an_error() {
        assert_eq!(chain(&Layer(2)), "layer 2");
        assert_eq!(chain(&Layer(0)), "layer 0: layer 1: layer 2");
    }

    #[derive(Debug)]
    struct Unwritten(io::Error);

    impl fmt::Display for Unwritten {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a.json: cannot be written")
        }
    }

    impl Error for Unwritten {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn full_disk_is_named_in_words() {
        let full = Unwritten(io::ErrorKind::StorageFull.into());
        assert_eq!(chain(&full), "a.json: cannot be written: the disk is full");
        assert!(is_disk_failure(&full));
        let quota = Unwritten(io::ErrorKind::QuotaExceeded.into());
        assert!(chain(&quota).ends_with(": the disk quota of this user is used up"));
        let denied = Unwritten(io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            chain(&denied),
            "a.json: cannot be written: permission denied"
        );
        assert!(!is_disk_failure(&denied) && !is_disk_failure(&Layer(0)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn error_of_a_full_device_is_recognised() {
        let error = std::fs::write("/dev/full", "x").unwrap_err();
        assert_eq!(disk_failure(&error), Some("the disk is full"));
    }
}
