//! Behaviour of the guards, with the attack corpus as tables.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up has failed"
)]

#[path = "guard/paths.rs"]
mod paths;
#[path = "guard/urls.rs"]
mod urls;

/// The rows of a corpus file.
fn rows<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Fails with all collected ids.
fn no_failures(failed: &[String]) {
    assert!(
        failed.is_empty(),
        "{} rows fail:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
