//! The gateway program for service managers starts the same gateway as `nanobot gateway`.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn program(home: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nanobot-gateway"));
    command
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn gateway_runs_until_sigterm() {
    let home = tempfile::tempdir().unwrap();
    let mut child = program(home.path()).args(["--port", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let title = lines.next().unwrap().unwrap();
    assert_eq!(
        title,
        format!("🐈 nanobot {} gateway", env!("CARGO_PKG_VERSION"))
    );
    assert!(lines.any(|line| line.unwrap().starts_with("Health: http://127.0.0.1:")));
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{log}");
    assert!(log.contains("gateway stopped"), "{log}");
}

#[test]
fn broken_configuration_exits_with_code_2_and_position() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.json");
    std::fs::write(&file, "{\n\"gateway\": {\"port\": \"many\"}}").unwrap();
    let output = program(home.path())
        .arg("--config")
        .arg(&file)
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(
        log.contains(&format!("{}:2:", file.display())) && log.contains("try:"),
        "{log}"
    );
}
