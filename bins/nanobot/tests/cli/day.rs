//! A day with outages on every platform. Every message that a platform delivered is answered once,
//! or is visibly uncertain.
//!
//! Decision: a seeded script decides who writes what, and what is broken at that time; nothing is
//! asserted about time. An hour ends when the chats without an outage have their answers, and the
//! day ends when all chats have. Drafts are off: if the platform accepts a draft just before a
//! kill, the program has no record of it, and the orphan would look like an answer.

#![expect(
    clippy::print_stdout,
    reason = "what happened is shown when the test fails"
)]

mod judge;
mod model;
mod script;
mod world;

use judge::Judge;
use nanobot_chat_fakes::Fault;
use script::{Hour, PlannedFault};
use world::World;

/// The default seed of the script; [`OTHER_SEED`] overrides it.
const SEED: u64 = 20_261_122;
/// Environment variable with another seed, for another day.
const OTHER_SEED: &str = "NANOBOT_DAY_SEED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn day_with_outages_leaves_every_message_answered_or_uncertain() {
    let seed =
        std::env::var(OTHER_SEED).map_or(SEED, |seed| seed.parse().expect("a seed is a number"));
    let mut world = World::open().await;
    let mut judge = Judge::default();
    world.begin().await;
    let day = script::day(seed, world.platforms());
    for (number, hour) in day.iter().enumerate() {
        live(&mut world, &mut judge, hour).await;
        if number == 0 {
            // Everyone has written once, so the chats exist, however soon the first reminder is
            // due.
            world.set_reminders(&mut judge).await;
        }
    }
    world.finish(&judge).await;
    let ledger = world.ledger().await;
    judge.verdict(&world, &ledger);
    world.end().await;
}

/// Runs an hour: something breaks, people write, working chats are answered, outages end.
async fn live(world: &mut World, judge: &mut Judge, hour: &Hour) {
    println!("{hour:?}");
    let is_revoked = |fault: &PlannedFault| matches!(fault, PlannedFault::Of(_, Fault::Revoked));
    if hour.troubles.iter().any(is_revoked) {
        // While the token is revoked, every message fails for good, and should: even a notice that
        // the arrival of an answer is uncertain.
        world.answered(judge, |_| true).await;
        world.at_rest().await;
    }
    for fault in &hour.troubles {
        world.begin_fault(*fault).await;
    }
    for message in &hour.messages {
        world.say(judge, *message);
    }
    world
        .answered(judge, |place| {
            hour.troubles.iter().all(|fault| !fault.is_about(place))
        })
        .await;
    // Kill a gateway after the platforms have recovered, so that the next one receives everything.
    for is_last in [false, true] {
        for fault in hour
            .troubles
            .iter()
            .filter(|fault| fault.kills() == is_last)
        {
            world.end_fault(*fault).await;
        }
    }
}
