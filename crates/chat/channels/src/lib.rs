//! Supervises channels: who may talk, what is shown and how, restarts, retries, settlement.
//!
//! Decision: a channel crate knows its platform and nothing else; everything that is the same for
//! all of them is here, once. Per channel there is a [supervisor](ChannelManager) that keeps it
//! running and an outbound worker of its own, so that none waits for another.
//!
//! What is not here: turns, sessions, and any platform's wire format.

mod access;
mod aftermath;
mod claim;
mod error;
mod health;
mod intake;
mod managed;
mod manager;
mod media;
mod notes;
mod orphans;
mod outbound;
mod pairing;
mod pause;
mod registry;
mod replaceable;
mod settings;
mod sticker;
mod supervisor;
mod waiting;
mod working;

pub use access::{
    AccessNotice, AccessRules, DirectPolicy, DirectRules, GroupPolicy, GroupRule, Verdict, Weight,
};
pub use error::ChannelsError;
pub use health::{Health, HealthMap, HealthState};
pub use managed::ManagedChannel;
pub use manager::{ChannelManager, ChannelManagerParts, MediaSettings};
pub use media::FileMediaStore;
pub use notes::FileNotes;
pub use pairing::{
    Asked, Asker, PairingError, PairingStore, Pairings, PendingPairing, Person, Untold,
};
pub use registry::ChannelRegistry;
pub use settings::{AllowFrom, ChannelSettings, DeliverySettings, UncertainPolicy};
pub use sticker::Stickers;
