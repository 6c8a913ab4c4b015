//! Supervises channels: access and pairing, rendering, restarts, retries and settlement.
//!
//! Decision: a channel crate knows only its platform; everything common to all channels is
//! implemented here once. Each channel has its own [supervisor](ChannelManager) that keeps it
//! running and its own outbound worker, so no channel waits for another.
//!
//! Turns, sessions and the wire formats of platforms are out of scope.

mod access;
mod backoff;
mod claim;
mod delivery_notice;
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
mod registry;
mod replaceable;
mod settings;
mod sticker;
mod supervisor;
mod waiting;
mod watch;
mod working;

pub use access::{
    AccessNotice, AccessRules, AccessVerdict, DirectPolicy, DirectRules, GroupPolicy, GroupRule,
    Weight,
};
pub use error::ChannelsError;
pub use health::{Health, HealthMap, HealthState};
pub use managed::ManagedChannel;
pub use manager::{ChannelManager, ChannelManagerParts, MediaSettings};
pub use media::FileMediaStore;
pub use notes::FileNotes;
pub use pairing::{
    Asker, PairingError, PairingReply, PairingStore, Pairings, PendingPairing, Person,
    UnnotifiedPeople,
};
pub use registry::ChannelRegistry;
pub use settings::{AllowFrom, ChannelSettings, DeliverySettings, UncertainPolicy};
pub use sticker::Stickers;
pub use watch::{ChannelWatch, NoWatch};
