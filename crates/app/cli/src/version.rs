//! The version of the program, and the facts of its build (`build.rs`).

use std::fmt::Write as _;

use chrono::DateTime;
use nanobot_runtime::shipped_platforms;

/// The version, without `v`.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the line that `--version` prints.
pub(crate) fn version() -> String {
    format!("🐈 nanobot v{VERSION}")
}

/// Returns the version and the facts of the build, a line each.
pub(crate) fn build_facts() -> String {
    let facts = [
        ("commit", env!("NANOBOT_BUILD_COMMIT").to_owned()),
        ("source date", source_date(env!("NANOBOT_BUILD_SECONDS"))),
        ("target", env!("NANOBOT_BUILD_TARGET").to_owned()),
        ("profile", env!("NANOBOT_BUILD_PROFILE").to_owned()),
        ("compiler", env!("NANOBOT_BUILD_RUSTC").to_owned()),
        ("platforms", shipped_platforms().join(", ")),
    ];
    facts.iter().fold(version(), |mut text, (name, value)| {
        // Writing to a string does not fail.
        write!(text, "\n{:<13}{value}", format!("{name}:")).unwrap_or_default();
        text
    })
}

/// Formats seconds since 1970 as a date in UTC.
fn source_date(seconds: &str) -> String {
    let date = seconds
        .parse()
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    date.map_or_else(
        || "unknown".to_owned(),
        |date| date.format("%Y-%m-%d").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_date_is_a_date_or_unknown() {
        let table = [
            ("0", "1970-01-01"),
            ("1795478400", "2026-11-24"),
            ("unknown", "unknown"),
            ("-", "unknown"),
            ("99999999999999999999", "unknown"),
            ("9223372036854775807", "unknown"),
        ];
        for (seconds, date) in table {
            assert_eq!(source_date(seconds), date, "{seconds}");
        }
    }
}
