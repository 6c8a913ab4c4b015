//! The program without its client, for lines that the client never writes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use nanobot_matrix_crypto::{
    OpenStore,
    protocol::{Operation, Outcome, Request, Response, VERSION},
};

use crate::side::PROGRAM;

pub(crate) struct Pipe {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Pipe {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(Path::new(PROGRAM))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            last_id: 0,
        }
    }

    pub(crate) fn open(store: &OpenStore) -> Self {
        let mut pipe = Self::start();
        let store = store.clone();
        let outcome = pipe.ask(Operation::Open {
            version: VERSION,
            store,
        });
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        pipe
    }

    pub(crate) fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
    }

    pub(crate) fn read(&mut self) -> Response {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn post(&mut self, operation: Operation) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&serde_json::to_vec(&Request { id, operation }).unwrap());
        id
    }

    pub(crate) fn ask(&mut self, operation: Operation) -> Outcome {
        let id = self.post(operation);
        let response = self.read();
        assert_eq!(response.id, id);
        response.outcome
    }

    /// Closes stdin and waits. Returns the status, and what was left on stdout.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        drop(self.input.take());
        let mut rest = String::new();
        while self.output.read_line(&mut rest).unwrap() > 0 {}
        (self.child.wait().unwrap(), rest)
    }
}
