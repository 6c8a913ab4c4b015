//! The suite of [`Channel`](nanobot_channel::Channel), driven from both ends: the platform's, through
//! a harness that each channel brings for its fake, and the assistant's, through a context that is
//! played here.
//!
//! Decision: a case is a conversation on a fresh platform that states one promise. Cases wait for
//! events, never for time to pass; the two promises about silence look again after a moment, so a
//! slow machine can hide a fault there but not invent one. What a platform cannot do, the test says
//! with a reason when it calls [`channel`], so that a case is dropped in plain sight or not at all.

mod access;
mod basics;
mod doomed;
mod drafts;
mod faults;
mod files;
mod harness;
mod outages;
mod people;
mod redelivery;
mod rivals;
mod running;
mod stage;
mod stopping;
mod texts;

use anyhow::{Context as _, ensure};

pub use harness::{
    Ability, ChannelHarness, Chat, Event, Place, Said, SampleFile, Seen, SendFault, Wanted, Who,
};

use crate::log::Log;

/// Runs the suite of [`Channel`](nanobot_channel::Channel). `open` returns a new harness each time;
/// `missing` is what its platform cannot do, and why, in one sentence each.
///
/// # Errors
/// The first promise that the channel does not keep.
pub async fn channel<H: ChannelHarness>(
    open: impl AsyncFn() -> anyhow::Result<H>,
    missing: &[(Ability, &str)],
) -> anyhow::Result<()> {
    Log::capture()?;
    let missing = missing.iter().map(|(ability, reason)| {
        ensure!(
            !reason.trim().is_empty(),
            "nothing says why {ability:?} is missing"
        );
        Ok(*ability)
    });
    let suite = Suite {
        open,
        missing: missing.collect::<Result<_, _>>()?,
    };
    suite.agrees().await?;
    basics::run(&suite).await?;
    texts::run(&suite).await?;
    stopping::run(&suite).await?;
    access::run(&suite).await?;
    redelivery::run(&suite).await?;
    files::run(&suite).await?;
    outages::run(&suite).await?;
    drafts::run(&suite).await?;
    rivals::run(&suite).await?;
    faults::run(&suite).await
}

/// What the cases share.
struct Suite<O> {
    open: O,
    missing: Vec<Ability>,
}

impl<H: ChannelHarness, O: AsyncFn() -> anyhow::Result<H>> Suite<O> {
    /// A fresh platform.
    async fn open(&self) -> anyhow::Result<H> {
        (self.open)().await.context("opening a harness")
    }

    /// Whether the platform has an ability.
    fn has(&self, ability: Ability) -> bool {
        !self.missing.contains(&ability)
    }

    /// Whether the channel itself says the same of what is missing.
    async fn agrees(&self) -> anyhow::Result<()> {
        let shows_drafts = self.open().await?.connect()?.drafts().is_some();
        let agrees = shows_drafts == self.has(Ability::DraftView);
        ensure!(
            agrees,
            "a channel shows drafts, and its harness what people see of them, both or neither"
        );
        Ok(())
    }
}
