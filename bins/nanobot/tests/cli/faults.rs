//! Disks, files and folders with faults.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs;

use nanobot_testkit::{ModelServer, Reply};

use crate::support::{Home, assert_says};

#[tokio::test]
async fn workspace_that_is_a_file_is_an_error() {
    let home = Home::new();
    home.write("file", "not a folder");
    let file = home.path().join("file");
    let run = home
        .run(&[
            "agent",
            "--demo",
            "-m",
            "hello",
            "--workspace",
            file.to_str().unwrap(),
        ])
        .await;
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert_says(
        &run.stderr,
        &[file.to_str().unwrap(), "try:", "--workspace"],
    );
    assert_eq!(home.read("file"), "not a folder");
}

#[tokio::test]
async fn corrupt_session_continues_and_its_torn_line_is_kept() {
    let model = ModelServer::scripted([Reply::text("Mimi.")]).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let corrupt =
        b"{\"_type\": \"metadata\", \"key\": \"cli:direct\"}\n{\"role\": \"user\", \"content\": \"my cat is Mimi\"}\n\
        \xff\xfe garbage\n{\"role\": \"assistant\", \"content\": \"Noted.\"}\n{\"role\": \"user\", \"cont";
    let path = home.workspace().join("sessions/cli_direct.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, corrupt).unwrap();
    let run = home.run(&["agent", "-m", "What is my cat called?"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "Mimi.\n"),
        "{}",
        run.stderr
    );
    assert_says(
        &model.requests()[0].json.to_string(),
        &["my cat is Mimi", "Noted."],
    );
    assert_eq!(model.violations(), Vec::<String>::new());
    // The readable part stays in place; the torn line at the end is moved aside.
    let torn = b"{\"role\": \"user\", \"cont";
    assert!(
        fs::read(&path)
            .unwrap()
            .starts_with(&corrupt[..corrupt.len() - torn.len()])
    );
    let aside = home
        .names("workspace/sessions")
        .into_iter()
        .find(|name| name.contains("torn"))
        .expect("a copy");
    assert_eq!(fs::read(path.with_file_name(aside)).unwrap(), torn);
}

/// The words for a file that may not grow, and for the remedy.
const FULL: &[&str] = &[
    "the file would exceed a limit of the system",
    "try: ",
    "room on ",
];

/// Runs a command with a limit on the size of files: the closest to a full disk that needs no
/// privileges.
#[cfg(unix)]
async fn without_room(home: &Home, arguments: &[&str]) -> crate::support::Run {
    let mut command = home.of(std::path::Path::new("/bin/sh"));
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_nanobot"))
        .args(arguments);
    crate::support::finish(command, b"").await
}

#[cfg(unix)]
#[tokio::test]
async fn full_disk_is_named_by_every_command_that_writes() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    home.run(&["agent", "-m", "hello"]).await;
    let before = home.read("config.json");
    for arguments in [
        &["config", "set", "agents.defaults.model", "other"][..],
        &[
            "cron",
            "add",
            "--name",
            "tea",
            "--message",
            "tea",
            "--in",
            "10m",
        ],
        &["sessions", "rename", "cli:direct", "Hello"],
        &["sessions", "export", "cli:direct", "--output", "export.md"],
        &["onboard", "--non-interactive"],
        &["config", "schema", "--write"],
    ] {
        let run = without_room(&home, arguments).await;
        assert_ne!(run.code, 0, "{arguments:?}: {}", run.stdout);
        assert_says(&run.stderr, FULL);
    }
    assert_eq!(home.read("config.json"), before);
}

#[cfg(unix)]
#[tokio::test]
async fn full_disk_is_reported_and_loses_nothing() {
    let model = ModelServer::scripted([Reply::text("Noted."), Reply::text("never")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    assert_eq!(home.run(&["agent", "-m", "my cat is Mimi"]).await.code, 0);
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    let run = without_room(&home, &["agent", "-m", "hello"]).await;
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert_says(&run.stderr, &["nanobot:", "cli_direct.jsonl"]);
    assert_says(&run.stderr, FULL);
    assert_eq!(home.read("workspace/sessions/cli_direct.jsonl"), session);
    assert_eq!(
        model.requests().len(),
        1,
        "a question that cannot be recorded is not sent"
    );
    let run = without_room(&home, &["doctor"]).await;
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert_says(
        &run.stdout,
        &["the file would exceed a limit of the system", "Make room"],
    );
    for folder in ["", "workspace", "logs"] {
        let names = home.names(folder);
        let is_left = names.iter().any(|name| name.contains("nanobot-doctor"));
        assert!(!is_left, "{folder}: {names:?}");
    }
}

/// Runs a command in a copy of a home on a small disk with `free` KiB left, and lists the files
/// before and after it. `None` if no disk can be mounted, which needs root on Linux.
#[cfg(target_os = "linux")]
async fn on_small_disk(home: &Home, free: u32, arguments: &[&str]) -> Option<SmallDiskRun> {
    const SCRIPT: &str = r#"
        free=$1; shift
        mount -t tmpfs -o size=8m none "$HOME/disk" || exit 99
        cp -a "$HOME/.nanobot" "$HOME/disk/home"
        cat /dev/zero > "$HOME/disk/filling" 2>/dev/null
        truncate -s "-${free}K" "$HOME/disk/filling"
        export NANOBOT_HOME="$HOME/disk/home"
        find "$NANOBOT_HOME" -type f | sort > "$HOME/before"
        "$@"; code=$?
        find "$NANOBOT_HOME" -type f | sort > "$HOME/after"
        exit $code"#;
    let folder = home.path().parent().unwrap().to_owned();
    fs::create_dir_all(folder.join("disk")).unwrap();
    fs::create_dir_all(home.path()).unwrap();
    let mut command = home.of(std::path::Path::new("unshare"));
    command
        .args(["-m", "sh", "-c", SCRIPT, "sh", &free.to_string()])
        .arg(env!("CARGO_BIN_EXE_nanobot"))
        .args(arguments);
    let run = crate::support::finish(command, b"").await;
    let Ok(before) = fs::read_to_string(folder.join("before")) else {
        eprintln!(
            "SKIPPED: a small disk can only be mounted by root with CAP_SYS_ADMIN: {}",
            run.stderr.trim()
        );
        return None;
    };
    let after = fs::read_to_string(folder.join("after")).unwrap();
    let new = after.lines().filter(|file| !before.contains(file));
    Some(SmallDiskRun {
        new_files: new.map(str::to_owned).collect(),
        run,
    })
}

#[cfg(target_os = "linux")]
struct SmallDiskRun {
    run: crate::support::Run,
    new_files: Vec<String>,
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn doctor_on_a_full_disk_leaves_no_file_and_keeps_the_ledger() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    home.run(&["agent", "-m", "hello"]).await;
    fs::create_dir_all(home.path().join("logs")).unwrap();
    for free in [0, 4, 12, 28, 100] {
        let Some(SmallDiskRun { run, new_files }) = on_small_disk(&home, free, &["doctor"]).await
        else {
            return;
        };
        assert_eq!(run.code, 1, "{free} KiB: {}{}", run.stdout, run.stderr);
        assert_says(&run.stdout, &["Leave it where it is", "ake room"]);
        for wrong in ["move the file away", "os error 28", "or remove it"] {
            assert!(!run.stdout.contains(wrong), "{free} KiB: {}", run.stdout);
        }
        assert_eq!(new_files, Vec::<String>::new(), "{free} KiB");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_has_one_remedy_and_leaves_no_partial_copies() {
    let model = ModelServer::scripted([Reply::text("Noted.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    assert_eq!(home.run(&["agent", "-m", "my cat is Mimi"]).await.code, 0);
    for arguments in [
        &["sessions", "rename", "cli:direct", "Cat"][..],
        &["sessions", "undo", "cli:direct"],
        &["sessions", "fork", "cli:direct"],
        &["sessions", "delete", "cli:direct", "--yes"],
        &["config", "set", "agents.defaults.model", "other"],
        &["onboard", "--non-interactive", "--overwrite"],
    ] {
        let Some(SmallDiskRun { run, new_files }) = on_small_disk(&home, 0, arguments).await else {
            return;
        };
        assert_eq!(run.code, 1, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert_says(
            &run.stderr,
            &["the disk is full", "try: Make room on that disk"],
        );
        let copies = new_files
            .iter()
            .filter(|file| !file.ends_with("gateway.lock"));
        assert_eq!(copies.count(), 0, "{arguments:?}: {new_files:?}");
    }
    let fresh = Home::new();
    for free in [0, 4, 12, 28] {
        let arguments = ["agent", "--demo", "-m", "hello"];
        let Some(SmallDiskRun { run, .. }) = on_small_disk(&fresh, free, &arguments).await else {
            return;
        };
        assert_eq!(run.code, 1, "{free} KiB: {}{}", run.stdout, run.stderr);
        assert_says(
            &run.stderr,
            &["the disk is full", "try: Make room on that disk"],
        );
    }
}

#[tokio::test]
async fn ten_megabyte_line_is_one_message() {
    let model = ModelServer::answering(|_| Reply::text("Long."))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut input = vec![b'a'; 10 * 1024 * 1024];
    input.extend(b"\n\xff\xfe\n");
    let run = home.run_with_input(&["agent", "--lines"], &input).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "Long.\nLong.\n"),
        "{}",
        run.stderr
    );
    assert_eq!(model.violations(), Vec::<String>::new());
}
