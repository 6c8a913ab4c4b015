//! Promise 3 over thousands of random histories: a request begins with the previous one of its
//! session, or the recorded miss names the event that broke the prefix.
//!
//! There are no sockets here, so that many histories can be played: a provider's request is
//! rendered as both clients would send it. [`crate::prefix`] plays fewer histories through the
//! clients themselves.
//!
//! `NANOBOT_HISTORIES=10000` plays more, `NANOBOT_HISTORIES_SEED=7` others.

mod play;
mod stage;
mod step;

use std::cell::RefCell;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use play::{Counts, Play};
use step::{habits, steps};

/// Number of histories in an ordinary run.
const HISTORIES: u32 = 1000;

/// Returns the number in an environment variable, if it is set.
fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Plays the even or the odd half of the histories, so that two processors can share the work.
#[expect(
    clippy::print_stdout,
    reason = "who plays many histories wants to know what happened in them"
)]
fn play_half(half: u32) {
    let cases = number("NANOBOT_HISTORIES").unwrap_or(HISTORIES).div_ceil(2);
    let seed = 2 * number("NANOBOT_HISTORIES_SEED").unwrap_or(1) + half;
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let told = RefCell::new(Counts::default());
    let played = runner.run(&(habits(), steps()), |(habits, steps)| {
        runtime.block_on(async {
            let mut play = Play::new(habits);
            for step in &steps {
                play.step(step).await?;
            }
            told.borrow_mut().add(&play.counts);
            Ok(())
        })
    });
    if let Err(failure) = played {
        panic!("half {half}: {failure}");
    }
    let Counts { requests, misses } = told.into_inner();
    println!("{cases} histories, {requests} requests, misses {misses:?}");
    // A rule that no event tries to break would prove nothing. Few histories reset a session twice.
    let events: Vec<&str> = misses
        .keys()
        .map(String::as_str)
        .filter(|event| *event != "Renewed")
        .collect();
    assert_eq!(
        events,
        [
            "ColdEpoch",
            "Compaction",
            "ConfigChanged",
            "ImagesDropped",
            "LostState",
            "ProviderSwitch",
            "Reset",
            "Rewound",
            "ToolsChanged"
        ]
    );
}

#[test]
fn histories_extend_requests_or_report_a_cache_miss() {
    play_half(0);
}

#[test]
fn other_histories_extend_requests_or_report_a_cache_miss() {
    play_half(1);
}
