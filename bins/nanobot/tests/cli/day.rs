//! A day with outages on every platform: whatever goes wrong, every message that a platform handed
//! over is answered once, or it is visible that nobody knows.
//!
//! Decision: a script made of a seed says who writes what while what is broken; nothing is asserted
//! about time. An hour goes on when the chats that nothing is wrong with have their answers, and the
//! day is over when everything is. Drafts are off: one that a platform took just when the kill came,
//! before the program could note it, stays and would look like an answer.

#![expect(
    clippy::print_stdout,
    reason = "what happened is shown when the test fails"
)]

mod friend;
mod judge;
mod script;
mod world;

use judge::Judge;
use script::{Hour, Trouble};
use world::World;

/// Makes the script, unless [`OTHER_SEED`] names another one.
const SEED: u64 = 20_261_122;
/// The variable that names another number, for another day.
const OTHER_SEED: &str = "NANOBOT_DAY_SEED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_with_outages_ends_with_every_message_answered_once_or_visibly_uncertain() {
    let seed =
        std::env::var(OTHER_SEED).map_or(SEED, |seed| seed.parse().expect("a seed is a number"));
    let mut world = World::open().await;
    let mut judge = Judge::default();
    world.begin().await;
    for (number, hour) in script::day(seed).iter().enumerate() {
        live(&mut world, &mut judge, hour).await;
        if number == 0 {
            // Everybody has said hello, so the chats are there, however soon the first reminder comes.
            world.set_reminders(&mut judge).await;
        }
    }
    world.finish(&judge).await;
    let ledger = world.ledger().await;
    judge.verdict(&world, &ledger);
    world.end().await;
}

/// An hour: something breaks, people write, what is well answers, what is broken is mended.
async fn live(world: &mut World, judge: &mut Judge, hour: &Hour) {
    println!("{hour:?}");
    if hour.troubles.contains(&Trouble::TelegramRevoked) {
        // What is sent while the platform knows nobody fails for good, and should: also the news that nobody
        // knows whether an answer arrived.
        world.answered(judge, |_| true).await;
        world.at_rest().await;
    }
    for trouble in &hour.troubles {
        world.begin_trouble(*trouble);
        world.begin_outage(*trouble).await;
    }
    for message in &hour.messages {
        world.say(judge, *message);
    }
    world
        .answered(judge, |place| {
            hour.troubles.iter().all(|trouble| !trouble.is_about(place))
        })
        .await;
    // A gateway is killed when the platforms are well again, so that the next one hears all of them.
    for is_last in [false, true] {
        for trouble in hour
            .troubles
            .iter()
            .filter(|trouble| trouble.kills() == is_last)
        {
            world.end_trouble(*trouble).await;
        }
    }
}
