//! The suite of [`Channel`](nanobot_channel::Channel), driven from both ends: the platform's, through
//! a harness that each channel brings for its fake, and the assistant's, through a context that is
//! played here.
//!
//! Decision: a case is a conversation on a fresh platform that states one promise. Cases wait for
//! events, never for time to pass; the two promises about silence look again after a moment, so a
//! slow machine can hide a fault there but not invent one. What a platform cannot do, its harness
//! says with a reason, and [`channel`] returns these reasons: the test compares them, so that a case
//! is dropped in plain sight or not at all.

mod abilities;
mod access;
mod basics;
mod doomed;
mod drafts;
mod faults;
mod files;
mod harness;
mod outages;
mod redelivery;
mod rivals;
mod running;
mod stage;
mod stopping;
mod texts;

use anyhow::{Context as _, bail};

pub use harness::{
    Ability, Arranged, ChannelHarness, Credentials, DraftView, IncomingFiles, Oddities, OutgoingFiles, Pairing, Pulse,
    Redelivery, Rivals, Rooms, SampleFile, SendFault, SendFaults, Transport,
};

use crate::log::Log;

/// Something the suite could not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The ability that is missing.
    pub ability: &'static str,
    /// Why, as the harness says.
    pub reason: &'static str,
}

/// Runs the suite of [`Channel`](nanobot_channel::Channel). `open` returns a new harness each time.
/// Returns what the harness cannot do.
///
/// # Errors
/// The first promise that the channel does not keep.
pub async fn channel<H: ChannelHarness>(open: impl AsyncFn() -> anyhow::Result<H>) -> anyhow::Result<Vec<Gap>> {
    Log::capture()?;
    let mut suite = Suite { open, gaps: Vec::new(), missing: Vec::new() };
    suite.declare().await?;
    basics::run(&suite).await?;
    texts::run(&suite).await?;
    stopping::run(&suite).await?;
    access::run(&suite).await?;
    redelivery::run(&suite).await?;
    files::run(&suite).await?;
    outages::run(&suite).await?;
    drafts::run(&suite).await?;
    let rivals = rivals::run(&suite).await?;
    let faults = faults::run(&suite).await?;
    suite.gaps.extend(rivals.into_iter().chain(faults));
    Ok(suite.gaps)
}

/// What the cases share.
struct Suite<O> {
    open: O,
    gaps: Vec<Gap>,
    missing: Vec<&'static str>,
}

impl<H: ChannelHarness, O: AsyncFn() -> anyhow::Result<H>> Suite<O> {
    /// A fresh platform.
    async fn open(&self) -> anyhow::Result<H> {
        (self.open)().await.context("opening a harness")
    }

    /// Whether the harness has an ability.
    fn has(&self, ability: &'static str) -> bool {
        !self.missing.contains(&ability)
    }

    /// Asks a harness what it can do.
    async fn declare(&mut self) -> anyhow::Result<()> {
        let mut harness = self.open().await?;
        let mut undeclared = Vec::new();
        let declared = [
            (REDELIVERY, reason(&harness.redelivery())),
            (ROOMS, reason(&harness.rooms())),
            (PAIRING, reason(&harness.pairing())),
            (INCOMING_FILES, reason(&harness.incoming_files())),
            (OUTGOING_FILES, reason(&harness.outgoing_files())),
            (SEND_FAULTS, reason(&harness.send_faults())),
            (TRANSPORT, reason(&harness.transport())),
            (PULSE, reason(&harness.pulse())),
            (DRAFT_VIEW, reason(&harness.draft_view())),
            (ODDITIES, reason(&harness.oddities())),
            (CREDENTIALS, reason(&harness.credentials())),
            (RIVALS, reason(&harness.rivals())),
        ];
        for (ability, declared) in declared {
            match declared {
                Declared::Offered => {}
                Declared::Missing(reason) => {
                    self.gaps.push(Gap { ability, reason });
                    self.missing.push(ability);
                }
                Declared::Undeclared => undeclared.push(ability),
            }
        }
        if !undeclared.is_empty() {
            bail!("the harness does not say whether it can do these, nor why not: {}", undeclared.join(", "));
        }
        if harness.channel().drafts().is_some() != self.has(DRAFT_VIEW) {
            bail!("a channel shows drafts, and its harness what people see of them, both or neither");
        }
        Ok(())
    }
}

const REDELIVERY: &str = "redelivery";
const ROOMS: &str = "rooms";
const PAIRING: &str = "pairing";
const INCOMING_FILES: &str = "incoming files";
const OUTGOING_FILES: &str = "outgoing files";
const SEND_FAULTS: &str = "send faults";
const TRANSPORT: &str = "transport";
const PULSE: &str = "pulse";
const DRAFT_VIEW: &str = "draft view";
const ODDITIES: &str = "oddities";
const CREDENTIALS: &str = "credentials";
const RIVALS: &str = "rivals";

/// An ability without its handle.
enum Declared {
    Offered,
    Missing(&'static str),
    Undeclared,
}

fn reason<T: ?Sized>(ability: &Ability<'_, T>) -> Declared {
    match ability {
        Ability::Offered(_) => Declared::Offered,
        Ability::Missing(reason) => Declared::Missing(reason),
        Ability::Undeclared => Declared::Undeclared,
    }
}
