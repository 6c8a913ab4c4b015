//! What every implementation of a contract has to do, as functions that its own tests call.
//!
//! A suite takes a function that makes a fresh, empty instance and returns the first promise that
//! was not kept, in words, with what was found and what was expected. What has to outlive a process
//! is a suite of its own, which takes a function that reopens; how to crash is the implementation's
//! own affair.

mod bus;
mod channel;
mod memory;
mod session;
mod text;

pub use bus::{WholeBus, bus, bus_durability};
pub use channel::{
    Ability, ChannelHarness, Chat, Event, Place, Said, SampleFile, Seen, SendFault, Wanted, Who,
    channel,
};
pub use memory::memory_store;
pub use session::session_store;
pub use text::{MarkupReader, looks, text_style};

use std::fmt::Debug;

/// Compares whole values; the error names the promise.
fn same<T: PartialEq + Debug>(promise: &str, found: &T, expected: &T) -> anyhow::Result<()> {
    if found == expected {
        return Ok(());
    }
    anyhow::bail!("{promise}\n   found: {found:#?}\nexpected: {expected:#?}")
}
