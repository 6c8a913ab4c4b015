//! The rows about tool files of the corpus of attacks.
//!
//! Every malicious file runs twice: as it would, and with the findings of the scan as mere warnings,
//! so that the number says what the sandbox alone is worth.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use nanobot_sandbox::Mechanism;
use nanobot_testkit::corpus::{self, CorpusRow};
use serde_json::json;

use crate::fixture::{Fixture, KEY_CANARY, OUTSIDE_CANARY, SECRET_CANARY, call, names, source};

/// Value of a variable of this process that no tool may see; `cargo` sets it for tests.
const VARIABLE: &str = "PROPTEST_RNG_SEED";

/// What became of the rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    malicious: usize,
    refused: usize,
    effects: usize,
    harmless: usize,
    ran: usize,
    failed: Vec<String>,
}

/// What one malicious file did.
#[derive(Debug)]
struct Attempt {
    was_refused: bool,
    effect: Option<String>,
}

fn fixture(row: &CorpusRow, mechanism: Option<&Mechanism>, has_scan: bool) -> Option<Fixture> {
    let mut fixture = Fixture::new()?;
    fixture.mechanism = mechanism.cloned();
    if row.text("effect") == "dos" {
        // It never ends.
        fixture.config.timeout = 1;
    }
    let file = format!("ws/tools/{}", row.text("filename"));
    fixture.write(&file, row.text("source"));
    Some(match has_scan {
        true => fixture,
        false => fixture.without_scan(),
    })
}

/// Returns the canary that a file read.
fn read_canary(output: &str) -> Option<String> {
    let canaries = [OUTSIDE_CANARY, SECRET_CANARY, KEY_CANARY, VARIABLE];
    let mut found = canaries
        .into_iter()
        .filter(|canary| output.contains(*canary));
    found.next().map(|canary| format!("it read {canary}"))
}

async fn attempt(row: &CorpusRow, fixture: &Fixture) -> Attempt {
    let before = fixture.outside();
    let listener = TcpListener::bind(("127.0.0.1", 18_790)).ok();
    if let Some(listener) = &listener {
        listener.set_nonblocking(true).unwrap();
    }
    let (_files, registry) = fixture.opened().await;
    let found = names(&registry);
    let mut output = String::new();
    for name in &found {
        output.push_str(&call(&registry, name, json!({})).await.output);
    }
    let mut effect = read_canary(&output);
    if fixture.outside() != before {
        effect = Some("it changed a file outside".to_owned());
    }
    if found.iter().any(|name| name == "read_file") {
        effect = Some("it took the name of a built-in tool".to_owned());
    }
    if listener.is_some_and(|listener| listener.accept().is_ok()) {
        effect = Some("it connected".to_owned());
    }
    if row.text("effect") == "dos" && !output.contains("was ended") {
        effect = Some("it was not ended".to_owned());
    }
    // The program goes on, and so do other tools.
    let neighbour = source("neighbour", "return 'alive'");
    let neighbour = neighbour.replace("    async", "    timeout = 60\n    async");
    fixture.write("ws/tools/neighbour.py", &neighbour);
    let neighbour = call(&registry, "neighbour", json!({})).await;
    if neighbour.output != "alive" {
        effect = Some(format!("its neighbour died: {}", neighbour.output));
    }
    Attempt {
        was_refused: found.is_empty(),
        effect,
    }
}

async fn count(mechanism: Option<&Mechanism>, has_scan: bool) -> Option<Count> {
    let mut count = Count::default();
    for row in corpus::rows("tool_files").unwrap() {
        let fixture = fixture(&row, mechanism, has_scan)?;
        if row.text("expect") == "load" {
            let (files, registry) = fixture.opened().await;
            let result = call(&registry, "helper", json!({})).await;
            let status = files.status().await;
            count.harmless += 1;
            match result.success && status[0].findings.is_empty() {
                true => count.ran += 1,
                false => count
                    .failed
                    .push(format!("{}: {} {status:?}", row.id, result.output)),
            }
            continue;
        }
        let Attempt {
            was_refused,
            effect,
        } = attempt(&row, &fixture).await;
        count.malicious += 1;
        count.refused += usize::from(was_refused);
        if let Some(effect) = effect {
            count.effects += 1;
            let (id, reason) = (&row.id, row.text("reason"));
            count.failed.push(format!("{id} ({reason}): {effect}"));
        }
    }
    Some(count)
}

/// Runs all rows by one mechanism, prints the numbers and asserts them.
async fn all_rows_hold(name: &str, mechanism: Option<Mechanism>) {
    for has_scan in [true, false] {
        let Some(found) = count(mechanism.as_ref(), has_scan).await else {
            return;
        };
        let scan = match has_scan {
            true => "",
            false => ", without the scan",
        };
        println!(
            "tool files ({name}{scan}): {} of {} malicious ones had an effect, {} were refused \
             before a call; {} of {} harmless ones ran",
            found.effects, found.malicious, found.refused, found.ran, found.harmless,
        );
        let expected = Count {
            malicious: 31,
            refused: found.refused,
            effects: 0,
            harmless: 8,
            ran: 8,
            failed: Vec::new(),
        };
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn all_rows_hold_in_the_best_sandbox() {
    all_rows_hold("best sandbox", None).await;
}

#[tokio::test]
async fn all_rows_hold_under_landlock() {
    all_rows_hold("Landlock", Some(Mechanism::Landlock)).await;
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
