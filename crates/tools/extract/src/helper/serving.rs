//! The helper's own side.
//!
//! Decision: one thread reads requests, and another processes them on a stack of known size. So a
//! closed pipe is noticed during the processing, and a helper never outlives its parent.

use std::{
    io::{self, BufWriter, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{self, ExitCode},
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use super::{MAX_DOCUMENT, MAX_FACTS, limits};
use crate::{
    ExtractError, ExtractRequest, Parser,
    exchange::{Parts, answer_parts},
    frame,
};

/// Stack size of the parser thread, in bytes.
const STACK: usize = 64 << 20;

/// Serves requests from standard input until it is closed.
pub(super) fn serve(parse: Parser) -> ExitCode {
    limits::close_inherited();
    if let Err(reason) = nanobot_sandbox::confine_reader() {
        // Without standard error there is no place to report it; documents are not read then.
        drop(reason);
        return ExitCode::FAILURE;
    }
    let (requests, work) = sync_channel(1);
    if thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || answer_all(&work, parse))
        .is_err()
        || limits::begin().is_err()
    {
        return ExitCode::FAILURE;
    }
    let mut input = io::stdin().lock();
    loop {
        match frame::read(&mut input, MAX_DOCUMENT + MAX_FACTS)
            .map(|read| read.map(|parts| requests.send(parts)))
        {
            Ok(Some(Ok(()))) => {}
            Ok(None) => return ExitCode::SUCCESS,
            Ok(Some(Err(_))) | Err(_) => return ExitCode::FAILURE,
        }
    }
}

fn answer_all(requests: &Receiver<Parts>, parse: Parser) {
    let code = loop {
        let Ok(parts) = requests.recv() else { break 0 };
        if answer(parts, parse).is_err() {
            break 1;
        }
        if limits::is_worn_out() {
            // The next request finds the pipe closed and is sent to another helper.
            break 0;
        }
    };
    process::exit(code);
}

fn answer(parts: Parts, parse: Parser) -> io::Result<()> {
    let request = ExtractRequest::from_parts(parts).map_err(io::Error::other)?;
    limits::begin_document(request.size()).map_err(io::Error::other)?;
    let answer =
        catch_unwind(AssertUnwindSafe(|| parse(request))).unwrap_or(Err(ExtractError::Broken));
    // A small answer is one write, so that the other process is woken once.
    let mut output = BufWriter::new(io::stdout().lock());
    frame::write(
        &mut output,
        &answer_parts(answer).map_err(io::Error::other)?,
    )?;
    output.flush()
}
