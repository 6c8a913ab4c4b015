//! Numbers that a run of all tests shows at its end.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Variable with the path of the file that the numbers are added to.
const FILE: &str = "NANOBOT_TEST_SUMMARY";

/// Prints a line with the numbers of a test, and adds it to the file that `NANOBOT_TEST_SUMMARY`
/// names, if it is set and can be written.
#[expect(clippy::print_stdout, reason = "tests print their numbers")]
pub fn summarize(numbers: &str) {
    println!("{numbers}");
    let file =
        std::env::var_os(FILE).map(|path| OpenOptions::new().create(true).append(true).open(path));
    if let Some(Ok(mut file)) = file {
        // The summary is lost; the test does not depend on it.
        drop(writeln!(file, "{numbers}"));
    }
}
