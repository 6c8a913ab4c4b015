//! `path_access.jsonl` through the tools themselves, and a race against them.
#![cfg(unix)]

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixture::Fixture;

#[derive(Deserialize)]
struct Row {
    id: String,
    op: String,
    path: String,
    profile: String,
    expect: String,
    reason: String,
    #[serde(default)]
    setup: Vec<Vec<String>>,
    #[serde(default)]
    config: Config,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    allowed_paths: Vec<String>,
}

const CANARIES: [&str; 4] = ["OUTSIDE-CANARY", "CANARY-SECRET", "CANARY-SSH", "root:x:"];

fn expand(fixture: &Fixture, text: &str) -> String {
    [
        ("@WS@", "ws"),
        ("@OUT@", "outside"),
        ("@HOME@", "home"),
        ("@PROT@", "home/.app/config.json"),
        ("@EXTRA@", "more"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (mark, name)| {
        text.replace(mark, fixture.path(name).to_str().unwrap())
    })
}

fn prepared(row: &Row) -> Fixture {
    let mut fixture = if row.profile == "open" {
        Fixture::open()
    } else {
        Fixture::new()
    };
    fixture.write("ws/notes.txt", "one\ntwo\n");
    fixture.write("ws/src/main.rs", "fn main() {}\n");
    fs::create_dir_all(fixture.path("more")).unwrap();
    let allowed = row.config.allowed_paths.iter();
    fixture.config.allowed_paths = allowed.map(|path| expand(&fixture, path).into()).collect();
    for step in &row.setup {
        let target = fixture.path("ws").join(expand(&fixture, &step[1]));
        match step[0].as_str() {
            "symlink" => symlink(expand(&fixture, &step[2]), target).unwrap(),
            "fifo" => nix::unistd::mkfifo(&target, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            "write_abs" => fs::write(target, &step[2]).unwrap(),
            other => unreachable!("{other}"),
        }
    }
    fixture
}

/// Returns the content of all files that no row may change.
fn untouchable(fixture: &Fixture) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![
        fixture.path("outside"),
        fixture.path("home"),
        fixture.path("ws/policy"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    let agents = fixture.path("ws/AGENTS.md");
    let content = fs::read(&agents).unwrap();
    found.insert(agents, content);
    found
}

/// Returns the calls of an operation: every tool that could perform it.
fn calls(op: &str, path: &str) -> Vec<(&'static str, Value)> {
    let patch = |edit: Value| ("apply_patch", json!({"edits": [edit]}));
    match op {
        "read" => vec![
            ("read_file", json!({ "path": path })),
            ("grep", json!({"pattern": ".", "path": path})),
        ],
        "list" => vec![
            ("list_dir", json!({ "path": path })),
            ("list_dir", json!({"path": path, "recursive": true})),
            ("find_files", json!({"pattern": "*", "path": path})),
            ("grep", json!({"pattern": ".", "path": path})),
        ],
        "write" => vec![
            ("write_file", json!({"path": path, "content": "written"})),
            patch(json!({"path": path, "old_text": "written", "new_text": "again"})),
        ],
        "edit" => ["OUTSIDE", "rules", "CANARY"]
            .into_iter()
            .flat_map(|old| {
                let edit = json!({"path": path, "old_text": old, "new_text": "x"});
                [("edit_file", edit.clone()), patch(edit)]
            })
            .collect(),
        "delete" => vec![
            patch(json!({"path": path, "delete": true})),
            patch(json!({"path": path, "move_to": "taken"})),
        ],
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn corpus_verdicts_match() {
    let corpus = include_str!("../../../../dev/testkit/corpus/path_access.jsonl");
    let rows: Vec<Row> = corpus
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut failed = Vec::new();
    for row in &rows {
        let fixture = prepared(row);
        let before = untouchable(&fixture);
        for (tool, arguments) in calls(&row.op, &expand(&fixture, &row.path)) {
            let result = fixture.run(tool, arguments).await;
            let is_allowed = row.expect == "allow";
            let has_leaked = CANARIES.iter().any(|canary| result.output.contains(canary));
            let is_wrong = result.success != is_allowed || (has_leaked && !is_allowed);
            if is_wrong || untouchable(&fixture) != before {
                failed.push(format!(
                    "{} {tool} {:.80} ({}): {:.200}",
                    row.id, row.path, row.reason, result.output
                ));
            }
        }
    }
    nanobot_testkit::summarize(&format!(
        "paths: {} of {} rows hold in every tool",
        rows.len() - failed.len().min(rows.len()),
        rows.len()
    ));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A folder and a link to the outside are swapped while the tools work in it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn folder_swapped_for_a_link_is_never_followed() {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let fixture = Fixture::new();
    let (folder, link) = (fixture.path("ws/d"), fixture.path("ws/link"));
    fs::create_dir(&folder).unwrap();
    symlink(fixture.path("outside"), &link).unwrap();
    let before = untouchable(&fixture);
    let swapping = std::thread::spawn(move || {
        for _ in 0..100_000 {
            renameat2(
                AT_FDCWD,
                &folder,
                AT_FDCWD,
                &link,
                RenameFlags::RENAME_EXCHANGE,
            )
            .unwrap();
        }
    });
    while !swapping.is_finished() {
        for (tool, arguments) in [
            ("read_file", json!({"path": "d/canary.txt"})),
            ("list_dir", json!({"path": "d"})),
            ("grep", json!({"pattern": "CANARY"})),
            ("find_files", json!({"pattern": "canary*"})),
            ("write_file", json!({"path": "d/new.txt", "content": "x"})),
            (
                "apply_patch",
                json!({"edits": [{"path": "d/canary.txt", "delete": true}]}),
            ),
            (
                "apply_patch",
                json!({"edits": [{"path": "d/patched.txt", "new_text": ""}]}),
            ),
        ] {
            let output = fixture.call(tool, arguments).await;
            let refusal = output.starts_with("Error: ") || output.starts_with("No ");
            assert!(refusal || !output.contains("anary"), "{tool}: {output}");
        }
    }
    swapping.join().unwrap();
    assert_eq!(untouchable(&fixture), before);
}
