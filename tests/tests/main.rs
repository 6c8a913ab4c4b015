//! One binary for all tests of the workspace as a whole.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod book;
mod budget;
mod contracts;
mod documented;
mod fuzz_regressions;
#[path = "../../fuzz/src/targets.rs"]
mod fuzz_targets;
mod glossary;
mod histories;
mod hostile;
mod layers;
mod model_faults;
mod prefix;
mod profiles;
mod python_home;
mod tokens;
mod week;
mod world;

/// A file without a `mod` line would never be compiled, and its tests would never run.
#[test]
fn no_file_is_forgotten() {
    let source = include_str!("main.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            name == "main" || source.contains(&format!("\nmod {name};\n")),
            "{} has no mod line",
            path.display()
        );
    }
}
