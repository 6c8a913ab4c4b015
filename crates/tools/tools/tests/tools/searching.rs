//! `grep` and `find_files`, on ordinary and on hostile folders.

use std::{fs, time::Duration};

use nanobot_tool::ToolContext;
use serde_json::{Value, json};

use crate::fixture::{Fixture, error, shown};

fn project() -> Fixture {
    let fixture = Fixture::new();
    for (path, text) in [
        (
            "ws/a.rs",
            "fn one() {}\nfn two() {\n    one();\n}\n// One\n",
        ),
        ("ws/sub/b.rs", "let x = one();\r\n"),
        ("ws/sub/c.txt", "nothing\n"),
        ("ws/sub/deep/d.md", "one\n"),
        ("ws/node_modules/x.rs", "fn one() {}\n"),
        ("ws/.git/config", "one\n"),
        ("ws/.gitignore", "*.log\n/target/\n!keep.log\n"),
        ("ws/x.log", "one\n"),
        ("ws/keep.log", "one\n"),
        ("ws/target/t.rs", "one\n"),
        ("ws/sub/.gitignore", "deep\n"),
        ("ws/binary", "one\0two\n"),
    ] {
        fixture.write(path, text);
    }
    fixture
}

#[tokio::test]
async fn grep_lists_lines_files_and_counts() {
    let fixture = project();
    for (arguments, expected) in [
        (
            json!({"pattern": "one"}),
            "a.rs:1: fn one() {}\na.rs:3:     one();\nkeep.log:1: one\nsub/b.rs:1: let x = one();",
        ),
        (
            json!({"pattern": "ONE", "ignore_case": true, "output": "count"}),
            "a.rs: 3\nkeep.log: 1\nsub/b.rs: 1",
        ),
        (
            json!({"pattern": "one", "output": "files", "glob": "*.rs"}),
            "a.rs\nsub/b.rs",
        ),
        (
            json!({"pattern": "one", "glob": "!*.rs", "output": "files"}),
            "keep.log",
        ),
        (
            json!({"pattern": r"^let .*;$", "path": "sub"}),
            "b.rs:1: let x = one();",
        ),
        (
            json!({"pattern": "two", "path": "a.rs", "context": 1}),
            "a.rs-1- fn one() {}\na.rs:2: fn two() {\na.rs-3-     one();",
        ),
        (
            json!({"pattern": "one", "max_matches": 1}),
            "a.rs:1: fn one() {}\n\n(Stopped after 1 matches.)",
        ),
        (json!({"pattern": "absent"}), "No matches for 'absent'"),
        // Rules of the folders above the start apply, too.
        (json!({"pattern": "one", "path": "sub/deep"}), "d.md:1: one"),
    ] {
        assert_eq!(
            fixture.call("grep", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn grep_groups_lines_with_context() {
    let fixture = Fixture::new();
    fixture.write("ws/f", "x\na\nb\nc\nd\nx\nx\ne\n");
    let answer = fixture
        .call("grep", json!({"pattern": "x", "path": "f", "context": 1}))
        .await;
    assert_eq!(answer, "f:1: x\nf-2- a\n--\nf-5- d\nf:6: x\nf:7: x\nf-8- e");
}

#[tokio::test]
async fn find_files_matches_names_and_paths() {
    let fixture = project();
    let by_name = |pattern: &str| json!({"pattern": pattern, "sort": "name"});
    for (arguments, expected) in [
        (by_name("*.rs"), "a.rs\nsub/b.rs"),
        (by_name("sub/*"), "sub/.gitignore\nsub/b.rs\nsub/c.txt"),
        (by_name("**/b.*"), "sub/b.rs"),
        (
            json!({"pattern": "*", "path": "sub", "sort": "name", "limit": 1}),
            ".gitignore\n\n(Showing 1 of 3 files.)",
        ),
        (by_name("*.none"), "No files match '*.none'"),
    ] {
        assert_eq!(
            fixture.call("find_files", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
    let old = fs::File::options()
        .write(true)
        .open(fixture.path("ws/a.rs"))
        .unwrap();
    old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    assert_eq!(
        fixture.call("find_files", json!({"pattern": "*.rs"})).await,
        "sub/b.rs\na.rs"
    );
}

#[tokio::test]
async fn mistakes_are_explained() {
    let fixture = project();
    for (tool, arguments, expected) in [
        (
            "grep",
            json!({"pattern": "("}),
            "Error: '(' cannot be searched: ",
        ),
        (
            "grep",
            json!({"pattern": r"(\w{1,500}){500}"}),
            "Error: '(\\w{1,500}){500}' cannot be searched: Compiled regex exceeds size limit",
        ),
        (
            "grep",
            json!({"pattern": "x", "path": "none"}),
            "Error: File not found: none",
        ),
        (
            "grep",
            json!({"pattern": "x", "glob": "["}),
            "Error: '[' is not a glob: ",
        ),
        (
            "find_files",
            json!({"pattern": "[a"}),
            "Error: '[a' is not a glob: ",
        ),
        (
            "find_files",
            json!({"pattern": "*", "path": "none"}),
            "Error: Directory not found: none",
        ),
        (
            "find_files",
            json!({"pattern": "*", "path": "a.rs"}),
            "Error: Not a directory: a.rs",
        ),
    ] {
        let answer = fixture.call(tool, arguments).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
}

/// Secret files, files outside and files in unlisted folders are neither read nor named.
#[cfg(unix)]
#[tokio::test]
async fn closed_files_are_neither_read_nor_named() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::open();
    symlink(fixture.path("outside/canary.txt"), fixture.path("ws/link")).unwrap();
    symlink(fixture.path("home"), fixture.path("ws/folder")).unwrap();
    fs::hard_link(
        fixture.path("home/.ssh/id_ed25519"),
        fixture.path("ws/hard"),
    )
    .unwrap();
    for (tool, arguments) in [
        ("grep", json!({"pattern": "CANARY|x", "path": "."})),
        ("grep", json!({"pattern": "CANARY-S", "path": ".."})),
        (
            "grep",
            json!({"pattern": "apiKey", "path": "..", "output": "files"}),
        ),
        (
            "find_files",
            json!({"pattern": "{link,hard,id_ed25519,canary.txt,config.json}"}),
        ),
        (
            "find_files",
            json!({"pattern": "{hard,id_ed25519,config.json}", "path": ".."}),
        ),
        ("find_files", json!({"pattern": "*", "path": "folder/.ssh"})),
        ("grep", json!({"pattern": "KEY", "path": "hard"})),
    ] {
        let answer = fixture.call(tool, arguments.clone()).await;
        let is_refused = answer.starts_with("No ") || answer.starts_with("Error: ");
        assert!(
            is_refused && !answer.contains("CANARY-S-"),
            "{arguments}: {answer}"
        );
    }
    let confined = Fixture::new();
    for (tool, pattern) in [("grep", "OUTSIDE"), ("find_files", "*")] {
        let outside = shown(&confined.path("outside"));
        let answer = confined
            .call(tool, json!({"pattern": pattern, "path": outside}))
            .await;
        let allowed = shown(&confined.path("ws"));
        assert_eq!(
            answer,
            error(format!(
                "Path {outside} is outside allowed directory {allowed}"
            ))
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn hostile_files_are_survived() {
    use std::os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _};
    let fixture = Fixture::new();
    nix::unistd::mkfifo(&fixture.path("ws/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let long = [
        &b"x".repeat(3 << 20)[..],
        b" needle ",
        &b"y".repeat(3 << 20),
    ]
    .concat();
    fixture.write(
        "ws/long",
        [b"needle ", &long[..], b"\nneedle after\n"].concat(),
    );
    fixture.write("ws/invalid", b"caf\xe9 needle \xff\n");
    fixture.write("ws/hidden", "needle \u{202e}txt\u{200b}\u{1b}[2J\n");
    let strange = std::ffi::OsStr::from_bytes(b"a\nb\xff\x1b[2J");
    fs::write(fixture.path("ws").join(strange), "needle\n").unwrap();
    fs::create_dir(fixture.path("ws/closed")).unwrap();
    fixture.write("ws/closed/f", "needle\n");
    fs::set_permissions(fixture.path("ws/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let answer = fixture.call("grep", json!({"pattern": "needle"})).await;
    fs::set_permissions(fixture.path("ws/closed"), fs::Permissions::from_mode(0o755)).unwrap();
    for expected in [
        "a b\u{fffd}[2J:1: needle",
        "hidden:1: needle \\u{202e}txt\\u{200b}[2J",
        "invalid:1: caf\u{fffd} needle \u{fffd}",
        "long:1: needle xxx",
        "long:2: needle after",
    ] {
        assert!(answer.contains(expected), "{expected}: {answer:.2000}");
    }
    assert!(answer.len() < 3_000, "{}", answer.len());
    // Nested repetition takes linear time.
    fixture.write("ws/evil", format!("{}b\n", "a".repeat(100_000)));
    let answer = fixture
        .call("grep", json!({"pattern": "(a+a+)+$", "path": "evil"}))
        .await;
    assert_eq!(answer, "No matches for '(a+a+)+$'");
}

/// Many files are searched within the bound of entries and the list stays short.
#[tokio::test]
async fn many_files_are_searched() {
    let fixture = Fixture::new();
    for folder in 0..50 {
        let folder = fixture.path(&format!("ws/many/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..100 {
            fs::File::create(folder.join(format!("f{file}"))).unwrap();
        }
    }
    let answer = fixture
        .call(
            "find_files",
            json!({"pattern": "f*", "path": "many", "limit": 5}),
        )
        .await;
    assert!(
        answer.ends_with("(Showing 5 of 5000 files.)"),
        "{answer:.500}"
    );
    let answer = fixture
        .call("grep", json!({"pattern": "x", "path": "many"}))
        .await;
    assert_eq!(answer, "No matches for 'x'");
}

#[tokio::test]
async fn stopped_turns_stop_the_search() {
    let fixture = project();
    let context = ToolContext::detached("cli:direct");
    context.cancel.cancel();
    for tool in ["grep", "find_files"] {
        let arguments: Value = json!({"pattern": "*"});
        let arguments = if tool == "grep" {
            json!({"pattern": "one"})
        } else {
            arguments
        };
        let result = fixture.run_with(tool, arguments, &context).await;
        assert!(!result.output.contains("a.rs"), "{}", result.output);
    }
}
