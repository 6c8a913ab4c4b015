//! Kills the real gateway thirty times.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_crash_suite::{Nanobot, Options, Property, run};

/// Path of the executable, if it is not where Cargo builds it.
const BINARY: &str = "NANOBOT_CRASH_BINARY";

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn thirty_kills_lose_nothing() {
    let named = std::env::var_os(BINARY).map(PathBuf::from);
    let Some(binary) = named.or_else(Nanobot::beside_this_program) else {
        eprintln!(
            "SKIPPED: no gateway was built. Build it with `cargo build -p nanobot`, or name it in {BINARY}."
        );
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for homes");
    let options = Options {
        kills: 30,
        seed: 7,
        jobs: 2,
        resume: Some(folder.path().join("progress.jsonl")),
        folder: folder.path().join("homes"),
        keep: false,
    };
    let system = Arc::new(Nanobot::new(binary));
    let report = run(system.clone(), &options, |_| {})
        .await
        .expect("the suite works");
    assert!(report.is_clean(), "{report}\n{:#?}", report.failures);
    assert!(report.tally.kills >= 30, "{report}");
    let looked = [
        Property::PrefixContinuation,
        Property::EffectOnce,
        Property::ConsumeOnce,
        Property::NothingLost,
    ];
    assert!(
        looked
            .into_iter()
            .all(|property| report.checked(property) > 0),
        "{report}"
    );
    // Finished rounds are not repeated.
    let again = run(system, &options, |_| {})
        .await
        .expect("the suite works");
    assert_eq!(again, report);
}
