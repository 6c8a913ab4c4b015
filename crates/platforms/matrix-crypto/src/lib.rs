//! The encryption of Matrix, in a process of its own.
//!
//! The state machine of Matrix encryption (`matrix-sdk-crypto`) and its store are in the program
//! `nanobot-matrix-crypto`, so that a gateway without Matrix neither contains nor loads them. This
//! crate contains the [protocol](mod@protocol) between the two, and [`CryptoProcess`], which starts
//! the program and asks it. The program does no network I/O: requests to the homeserver are
//! returned, and the caller sends them.
//!
//! Decision: requests are answered one after the other, so that neither side waits for the other
//! with a full pipe. A request that fails leaves the program running; a program that ends is not
//! restarted here.

mod depth;
mod error;
mod line;
mod process;
pub mod protocol;
mod stderr;
mod types;
mod worker;

pub use crate::{
    error::CryptoError,
    line::{read_line, write_line},
    process::CryptoProcess,
    types::{
        Decrypted, HomeserverRequest, OpenStore, SyncChanges, SyncOutcome, Verification,
        VerificationState,
    },
};
