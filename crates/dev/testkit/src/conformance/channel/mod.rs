//! Conformance suite for [`Channel`](nanobot_channel::Channel), driven from both ends: the
//! platform's end by a harness that each channel provides for its fake, the assistant's end by a
//! context that the suite provides.
//!
//! Decision: a case is a conversation on a fresh platform and tests one promise. Cases wait for
//! events, not for time to pass. The two promises about silence are checked again after a moment,
//! so a slow machine can hide a fault there but cannot cause a false one. The test passes to
//! [`channel`] what its platform cannot do, each with a reason, so that no case is skipped
//! silently.

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
    Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SampleFile, SendFault, UserMessage, VisibleMessage,
};

use crate::log::Log;

/// Runs the suite for [`Channel`](nanobot_channel::Channel). `open` returns a new harness each
/// time; `missing` lists the abilities that the platform lacks, each with the reason in one
/// sentence.
///
/// # Errors
/// Returns an error that names the first promise the channel breaks.
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

/// State shared by all cases.
struct Suite<O> {
    open: O,
    missing: Vec<Ability>,
}

impl<H: ChannelHarness, O: AsyncFn() -> anyhow::Result<H>> Suite<O> {
    /// Opens a fresh platform.
    async fn open(&self) -> anyhow::Result<H> {
        (self.open)().await.context("opening a harness")
    }

    /// Returns `true` if the platform has an ability.
    fn has(&self, ability: Ability) -> bool {
        !self.missing.contains(&ability)
    }

    /// Checks that the channel and its list of missing abilities agree.
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
