//! Connections and their tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Protocol that a client speaks after its token was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Version1,
    Version2,
}

/// An open connection.
#[derive(Debug, Default)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more messages.
    pub(crate) is_leaving: bool,
    /// `None` before a valid token.
    pub(crate) role: Option<Role>,
    /// Seqs of messages that were sent, or are about to be.
    pub(crate) offered: BTreeSet<u64>,
    /// The last `seq` that a client of version 1 has got.
    pub(crate) last: u64,
    /// Files that the client uploaded, by their `ref`.
    pub(crate) uploads: BTreeMap<String, Vec<u8>>,
    /// Time of its begin, in milliseconds of the fake's clock.
    pub(crate) opened: i64,
    /// Time of the last ping of the fake, or of the begin.
    pub(crate) pinged: i64,
    /// Number of pings without an answer.
    pub(crate) unanswered: u32,
}

impl SocketConnection {
    /// Returns `true` if this is the client of version 2.
    pub(crate) fn is_client(&self) -> bool {
        self.role == Some(Role::Version2) && !self.is_leaving
    }

    /// Returns `true` if this is a client of version 1.
    pub(crate) fn is_client_of_version_1(&self) -> bool {
        self.role == Some(Role::Version1) && !self.is_leaving
    }

    /// Returns `true` if the client of any version was admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        self.role.is_some() && !self.is_leaving
    }
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    /// The message of this seq.
    Message(u64),
    Binary(Vec<u8>),
    Ping,
    /// Closes with this code.
    Close(u16),
    Drop,
}
