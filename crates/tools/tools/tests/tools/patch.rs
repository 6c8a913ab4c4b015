//! `apply_patch`: all or nothing, on ordinary and on hostile files.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::{Fixture, shown};

fn project() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("ws/a", "one\ntwo\nthree\n");
    fixture.write("ws/b", "x\r\ny\r\n");
    fixture.write("ws/c", "gone\n");
    fixture
}

/// Returns the names and contents of all files of the workspace.
fn state(fixture: &Fixture) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![fixture.path("ws")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&text).into_owned();
                found.push((shown(path.strip_prefix(fixture.path("ws")).unwrap()), text));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn edits_change_several_files_at_once() {
    let fixture = project();
    let edits = json!({"edits": [
        {"path": "a", "old_text": "two", "new_text": "TWO"},
        {"path": "a", "old_text": "one", "new_text": "1", "replace_all": true},
        {"path": "b", "old_text": "y\n", "new_text": "z\nw\n"},
        {"path": "new/d", "new_text": "fresh\n"},
        {"path": "c", "move_to": "moved/c", "old_text": "gone", "new_text": "kept"},
        {"path": "policy2", "new_text": ""},
    ]});
    let mut rehearsal = edits.clone();
    rehearsal["dry_run"] = json!(true);
    let before = state(&fixture);
    let answer = fixture.call("apply_patch", rehearsal).await;
    assert!(
        answer.starts_with("The patch can be applied:\nchanged /"),
        "{answer}"
    );
    assert_eq!(state(&fixture), before);

    let result = fixture.run("apply_patch", edits).await;
    assert!(
        result.output.starts_with("Applied the patch:\nchanged /"),
        "{}",
        result.output
    );
    for (path, text) in [
        ("a", "1\nTWO\nthree\n"),
        ("b", "x\r\nz\r\nw\r\n"),
        ("new/d", "fresh\n"),
        ("moved/c", "kept\n"),
        ("policy2", ""),
    ] {
        assert_eq!(fixture.read(&format!("ws/{path}")), text, "{path}");
    }
    assert!(!fixture.path("ws/c").exists());
    let change = result.change.unwrap();
    assert!(
        change.contains("+TWO\n") && change.contains("-gone\n+kept\n"),
        "{change}"
    );
}

#[tokio::test]
async fn patch_text_is_applied() {
    let fixture = project();
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n one\n-two\n+2\n*** Update File: b\n-y\n+Y\n\
        *** Add File: n\n+new\n*** Delete File: c\n*** End Patch\n";
    let answer = fixture.call("apply_patch", json!({"patch": patch})).await;
    let root = shown(&fs::canonicalize(fixture.path("ws")).unwrap());
    assert_eq!(
        answer,
        format!(
            "Applied the patch:\nchanged {root}/a\nchanged {root}/b\ncreated {root}/n\ndeleted {root}/c"
        )
    );
    assert_eq!(fixture.read("ws/a"), "one\n2\nthree\n");
    assert_eq!(fixture.read("ws/b"), "x\r\nY\r\n");
    assert_eq!(fixture.read("ws/n"), "new\n");
    assert!(!fixture.path("ws/c").exists());
}

#[tokio::test]
async fn any_mistake_changes_nothing() {
    let good = json!({"path": "a", "old_text": "one", "new_text": "1"});
    let update = |lines: &str| {
        format!("*** Begin Patch\n*** Update File: a\n-one\n+1\n{lines}*** End Patch")
    };
    let outside = json!({"path": "../outside/canary.txt", "old_text": "OUT", "new_text": "x"});
    let table: Vec<(Value, &str)> = vec![
        (
            json!({"edits": [good, {"path": "a", "old_text": "four", "new_text": ""}]}),
            "Error: edit 2: old_text not found in a",
        ),
        (
            json!({"edits": [good, {"path": "none", "old_text": "x", "new_text": ""}]}),
            "Error: edit 2: File not found: none",
        ),
        (
            json!({"edits": [good, {"path": "b", "new_text": "x"}]}),
            "Error: edit 2: b exists already",
        ),
        (
            json!({"edits": [good, {"path": "c", "move_to": "b"}]}),
            "Error: edit 2: b exists already",
        ),
        (
            json!({"edits": [good, {"path": "c", "move_to": "./c"}]}),
            "Error: edit 2: ./c is the same file",
        ),
        (
            json!({"edits": [good, {"path": "c", "delete": true}, {"path": "c", "delete": true}]}),
            "Error: edit 3: File not found: c",
        ),
        (
            json!({"edits": [good, {"path": "AGENTS.md", "delete": true}]}),
            "Error: edit 2: ",
        ),
        (
            json!({"edits": [good, {"path": "policy/rules.json", "old_text": "{", "new_text": ""}]}),
            "Error: edit 2: ",
        ),
        (
            json!({"edits": [good, outside]}),
            "Error: edit 2: Path ../outside/canary.txt is outside",
        ),
        (
            json!({"edits": [good, {"path": "c", "move_to": "../outside/c"}]}),
            "Error: edit 2: Path ../outside/c is outside",
        ),
        (
            json!({"edits": [good, {"path": "~/.ssh/id_ed25519", "delete": true}]}),
            "Error: edit 2: ",
        ),
        (
            json!({"edits": [good, {"path": "c"}]}),
            "Error: edit 2: new_text, move_to or delete is missing",
        ),
        (
            json!({"edits": [good], "patch": update("")}),
            "Error: give either edits or patch",
        ),
        (
            json!({"patch": update("*** Update File: b\n@@ z\n-y\n+Y\n")}),
            "Error: edit 2: b, hunk 1: no line 'z' follows",
        ),
        (
            json!({"patch": update("*** Update File: b\n-q\n+Y\n")}),
            "Error: edit 2: b, hunk 1: its lines, beginning with 'q'",
        ),
        (
            json!({"patch": update("*** Frobnicate\n")}),
            "Error: line 5 of the patch (a): ",
        ),
        (json!({}), "Error: there is nothing to change"),
    ];
    for (arguments, expected) in table {
        let fixture = project();
        let before = state(&fixture);
        let answer = fixture.call("apply_patch", arguments.clone()).await;
        assert!(answer.starts_with(expected), "{arguments}: {answer}");
        assert_eq!(state(&fixture), before, "{arguments}");
        assert_eq!(fixture.read("outside/canary.txt"), "OUTSIDE-CANARY-55aa");
        assert!(fixture.path("home/.ssh/id_ed25519").exists());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn failed_writes_restore_the_files_before() {
    use std::os::unix::fs::PermissionsExt as _;
    if nix::unistd::geteuid().is_root() {
        // Root writes anywhere: a folder in the way of a parent folder fails for everyone.
        let fixture = project();
        let before = state(&fixture);
        let edits = json!({"edits": [
            {"path": "a", "old_text": "one", "new_text": "1"},
            {"path": "c/below", "new_text": "x"},
        ]});
        let answer = fixture.call("apply_patch", edits).await;
        assert!(answer.starts_with("Error: "), "{answer}");
        assert_eq!(state(&fixture), before);
        return;
    }
    let fixture = project();
    fixture.write("ws/closed/f", "x\n");
    let before = state(&fixture);
    fs::set_permissions(fixture.path("ws/closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let edits = json!({"edits": [
        {"path": "a", "old_text": "one", "new_text": "1"},
        {"path": "closed/new", "new_text": "x"},
    ]});
    let answer = fixture.call("apply_patch", edits).await;
    fs::set_permissions(fixture.path("ws/closed"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(answer.contains("No file has been changed"), "{answer}");
    assert_eq!(state(&fixture), before);
}

#[cfg(unix)]
#[tokio::test]
async fn links_modes_and_pipes_are_respected() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let fixture = project();
    symlink("a", fixture.path("ws/inner")).unwrap();
    symlink(fixture.path("outside/canary.txt"), fixture.path("ws/out")).unwrap();
    nix::unistd::mkfifo(&fixture.path("ws/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for edit in [
        json!({"path": "inner", "delete": true}),
        json!({"path": "out", "old_text": "OUT", "new_text": "x"}),
        json!({"path": "out", "delete": true}),
        json!({"path": "pipe", "delete": true}),
        json!({"path": "pipe", "new_text": "x"}),
    ] {
        let answer = fixture.call("apply_patch", json!({"edits": [edit]})).await;
        assert!(answer.starts_with("Error: edit 1: "), "{edit}: {answer}");
    }
    fs::set_permissions(fixture.path("ws/c"), fs::Permissions::from_mode(0o755)).unwrap();
    let moved = json!({"edits": [{"path": "c", "move_to": "script"}]});
    fixture.call("apply_patch", moved).await;
    let mode = fixture
        .path("ws/script")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
}
