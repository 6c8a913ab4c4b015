//! The loop from stdin to stdout.

use std::io::{self, BufRead, Write};

use nanobot_matrix_crypto::{
    OpenStore,
    protocol::{Failure, Operation, Outcome, Request, Response, VERSION},
    read_line, write_line,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{
    confine,
    engine::Engine,
    fault::{failed, refused},
    folder::Folder,
};

/// Maximum number of threads for the store. Each request needs one at a time.
const STORE_THREADS: usize = 4;

/// Answers requests until `input` ends.
///
/// # Errors
/// Returns the errors of `input` and `output`. A line that is too long is one, since what follows
/// it cannot be told from its rest. Returns an error after a change could not be stored.
pub(crate) fn run(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
    confine::protect_secrets()?;
    let mut service = None;
    let result = serve(&mut service, input, output);
    if let Some(Service { runtime, engine }) = service {
        // The connections of the store are closed by tasks.
        runtime.block_on(async { drop(engine) });
    }
    result
}

fn serve(
    service: &mut Option<Service>,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<()> {
    while let Some(line) = read_line(input)? {
        let response = answer(service, &line);
        match write_line(output, &response) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let outcome = Outcome::Failed(refused("the result is too large"));
                let id = response.id;
                write_line(output, &Response { id, outcome })?;
            }
            result => result?,
        }
        if service
            .as_ref()
            .is_some_and(|service| service.engine.is_ahead)
        {
            return Err(io::Error::other("the store could not be written"));
        }
    }
    Ok(())
}

/// An open store, and the runtime of its tasks.
struct Service {
    runtime: Runtime,
    engine: Engine,
}

/// The part of a request that is readable in any case.
#[derive(Deserialize)]
struct Id {
    id: u64,
}

fn answer(service: &mut Option<Service>, line: &[u8]) -> Response {
    let (id, result) = match serde_json::from_slice::<Request>(line) {
        Ok(request) => (request.id, perform(service, request.operation)),
        Err(error) => {
            let id = serde_json::from_slice(line).map_or(0, |Id { id }| id);
            // The text of the error may contain what was sent.
            let at = error.column();
            let why = format!("the request cannot be read (at byte {at})");
            (id, Err(refused(why)))
        }
    };
    let outcome = match result {
        Ok(value) => Outcome::Done(value),
        Err(failure) => Outcome::Failed(failure),
    };
    Response { id, outcome }
}

fn perform(service: &mut Option<Service>, operation: Operation) -> Result<Value, Failure> {
    match (service.as_mut(), operation) {
        (None, Operation::Open { version, store }) => {
            *service = Some(open(version, &store)?);
            Ok(Value::Null)
        }
        (None, _) => Err(refused("no store is open")),
        (Some(_), Operation::Open { .. }) => Err(refused("a store is open already")),
        (Some(Service { runtime, engine }), operation) => {
            runtime.block_on(engine.perform(operation))
        }
    }
}

fn open(version: u32, store: &OpenStore) -> Result<Service, Failure> {
    if version != VERSION {
        return Err(refused(format!(
            "the program speaks version {VERSION} of its protocol, not {version}: both programs \
             have to be of the same release"
        )));
    }
    let folder = Folder::lock(&store.folder)?;
    // Before the first thread, which would not be confined otherwise.
    confine::enter(folder.path()).map_err(failed("the program cannot be confined"))?;
    let runtime = Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(STORE_THREADS)
        .build()
        .map_err(failed("no runtime"))?;
    let engine = runtime.block_on(Engine::open(folder, store))?;
    Ok(Service { runtime, engine })
}
