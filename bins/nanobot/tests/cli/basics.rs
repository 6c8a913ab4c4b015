//! Help, version, usage, pipes.

use std::process::Stdio;

use crate::support::{Home, assert_says};

#[tokio::test]
async fn no_arguments_print_help() {
    let home = Home::new();
    let run = home.run(&[]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_says(
        &run.stdout,
        &[
            "onboard",
            "agent",
            "gateway",
            "status",
            "sessions",
            "config",
            "Exit codes",
        ],
    );
    assert_eq!(home.run(&["--help"]).await.stdout, run.stdout);
    assert_eq!(home.names("."), Vec::<String>::new(), "help writes nothing");
}

#[tokio::test]
async fn the_version_has_a_logo() {
    let expected = format!("🐈 nanobot v{}\n", env!("CARGO_PKG_VERSION"));
    for flag in ["--version", "-v"] {
        let run = Home::new().run(&[flag]).await;
        assert_eq!(
            (run.code, run.stdout.as_str(), run.stderr.as_str()),
            (0, expected.as_str(), "")
        );
    }
}

#[tokio::test]
async fn usage_errors_exit_with_code_2() {
    let home = Home::new();
    for (arguments, parts) in [
        (&["agnet"][..], &["agnet", "agent"][..]),
        (&["agent", "--sesion", "x"], &["--sesion", "--session"]),
        (&["agent", "-m", " "], &["the message is empty", "try:"]),
        (
            &["agent"],
            &["the message is empty", "standard input has no text", "try:"],
        ),
        (&["agent", "x"], &["x", "-"]),
        (&["agent", "--lines", "-m", "a"], &["cannot be used with"]),
        (
            &["agent", "--json", "--quiet", "-m", "a"],
            &["cannot be used with"],
        ),
        (
            &["agent", "-m", "a", "-f", "missing.png"],
            &["cannot attach missing.png", "try:"],
        ),
        (&["sessions"], &["list", "show", "export"]),
        (
            &["onboard", "--refresh", "--overwrite"],
            &["cannot be used with"],
        ),
        (&["gateway", "--port", "99999"], &["99999"]),
    ] {
        let run = home.run(arguments).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.stderr
        );
        assert_says(&run.stderr, parts);
    }
}

#[tokio::test]
async fn closed_stdout_is_not_an_error() {
    let home = Home::new();
    let mut child = home
        .program()
        .args(["config", "show"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
