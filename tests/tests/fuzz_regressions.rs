//! Replays the findings of the fuzzer, and its seeds.

use std::fs;
use std::path::Path;

use crate::fuzz_targets::{find, names};

#[test]
fn every_fuzz_finding_stays_fixed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    for folder in ["seeds", "regressions"] {
        for name in names() {
            // A target without findings has no folder.
            let Ok(files) = fs::read_dir(root.join(folder).join(name)) else {
                continue;
            };
            for file in files {
                let path = file.unwrap().path();
                eprintln!("{}", path.display());
                find(name).unwrap()(&fs::read(&path).unwrap());
            }
        }
    }
}

#[test]
fn every_fuzz_folder_belongs_to_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    for folder in ["seeds", "regressions"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                find(&name).is_some() || name.starts_with('.'),
                "{folder}/{name} is of no target"
            );
        }
    }
}
