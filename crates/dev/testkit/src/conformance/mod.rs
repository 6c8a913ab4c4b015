//! Conformance suites for implementations of nanobot's contracts, as functions that the
//! implementation's own tests call.
//!
//! A suite takes a function that creates a fresh, empty instance. It stops at the first broken
//! promise and returns an error that names the promise, the value found and the value expected.
//! Durability is tested by a suite of its own, which takes a function that reopens the instance;
//! how to simulate a crash is up to the implementation.

mod bus;
mod channel;
mod memory;
mod session;
mod text;

pub use bus::{WholeBus, bus, bus_durability};
pub use channel::{
    Ability, ChannelHarness, Destination, MessageCondition, ObservedChat, Participant,
    PlatformEvent, SampleFile, SendFault, UserMessage, VisibleMessage, channel,
};
pub use memory::memory_store;
pub use session::session_store;
pub use text::{MarkupReader, looks, text_style};

use std::fmt::Debug;

/// Compares whole values and names the promise in the error.
fn same<T: PartialEq + Debug>(promise: &str, found: &T, expected: &T) -> anyhow::Result<()> {
    if found == expected {
        return Ok(());
    }
    anyhow::bail!("{promise}\n   found: {found:#?}\nexpected: {expected:#?}")
}
