//! Encrypts and decrypts messages of Matrix for nanobot.
//!
//! The program reads requests from stdin and writes responses to stdout, one JSON object a line
//! (see `nanobot_matrix_crypto::protocol`). It does no network I/O, and ends when stdin is closed.
//!
//! Decision: requests are handled one after the other on one thread. The machine of the encryption
//! and its store are written for one user of each.

mod confine;
mod decrypt;
mod engine;
mod events;
mod fault;
mod folder;
mod homeserver;
mod identity;
mod replay;
mod room_key;
mod serve;
mod sync;
mod verification;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    match serve::run(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a stderr, the exit code has to be enough.
            drop(writeln!(io::stderr(), "nanobot-matrix-crypto: {error}"));
            ExitCode::FAILURE
        }
    }
}
