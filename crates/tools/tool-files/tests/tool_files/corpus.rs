//! The malicious files of the corpus, without a sandbox: the control of the safety suite, which runs
//! the same files in it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use nanobot_testkit::corpus::{self, CorpusRow};
use serde_json::json;

use crate::fixture::{Fixture, KEY_CANARY, OUTSIDE_CANARY, SECRET_CANARY};

/// Value of a variable of this process that no tool may see; `cargo` sets it for tests.
const VARIABLE: &str = "PROPTEST_RNG_SEED";

/// Returns the canary that a file read.
fn read_canary(output: &str) -> Option<&'static str> {
    let canaries = [OUTSIDE_CANARY, SECRET_CANARY, KEY_CANARY, VARIABLE];
    canaries.into_iter().find(|canary| output.contains(*canary))
}

/// Reads the host from its input, as the program does, and runs it without a sandbox.
const START: &str = "import json, os, sys\n\
    REQUESTS = os.fdopen(os.dup(0), 'rb')\n\
    exec(compile(json.loads(REQUESTS.readline()), '<host>', 'exec'))";

/// Loads and calls a file with all rights of this user. Returns `true` if that had an effect.
fn has_effect_unconfined(row: &CorpusRow, fixture: &Fixture) -> bool {
    let before = fixture.outside();
    let host = include_str!("../../src/host.py");
    let load = json!({
        "id": 1, "op": "load", "file": "helper.py", "source": row.text("source"),
        "refuses": false, "allowed_dirs": [], "workspace": "",
    });
    let call = json!({"id": 2, "op": "call", "arguments": {}});
    let mut child = Command::new("python3")
        .args(["-I", "-S", "-B", "-c", START])
        .current_dir(fixture.path("ws"))
        .env(VARIABLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let requests = format!("{}\n{load}\n{call}\n", json!(host));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(requests.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    fixture.outside() != before || read_canary(&text).is_some()
}

/// The effects that the sandbox prevents would be seen.
#[test]
fn malicious_files_have_effects_outside_of_the_sandbox() {
    let rows = corpus::rows("tool_files").unwrap();
    let proven = |row: &&CorpusRow| row.json["proven"] == true && row.text("expect") == "contain";
    let (mut count, mut without) = (0, Vec::new());
    for row in rows.iter().filter(proven) {
        let Some(fixture) = Fixture::new() else {
            return;
        };
        count += 1;
        if !has_effect_unconfined(row, &fixture) {
            without.push(row.id.as_str());
        }
    }
    // One takes a name, and one runs at its import, which the host does not reach.
    assert_eq!((count, without), (29, vec!["tf-s-028", "tf-s-029"]));
}
