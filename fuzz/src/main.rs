//! Runs the target named by `NANOBOT_FUZZ_TARGET` under libFuzzer. All targets are in one program,
//! so that they are built once.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod targets;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("NANOBOT_FUZZ_TARGET").unwrap_or_default();
    targets::find(&name).unwrap_or_else(|| {
        eprintln!(
            "NANOBOT_FUZZ_TARGET has to name a target: {}",
            targets::names().join(" ")
        );
        std::process::exit(2)
    })
});

fuzz_target!(|data: &[u8]| TARGET(data));
