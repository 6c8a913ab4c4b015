//! A supervisor that is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use nanobot_whatsapp_bridge::Bridge;

use crate::fixture::{BEGIN, Computer, WORKING};

/// Variable with the home folder, for the process that is the supervisor.
const HOME: &str = "NANOBOT_TEST_SUPERVISOR_HOME";
const STARTED: &str = "the bridge is started";

// This test runs in two processes: it starts itself as the supervisor, and kills it.
#[tokio::test]
async fn bridge_ends_with_its_killed_supervisor() {
    if let Some(home) = std::env::var_os(HOME) {
        let home = std::path::PathBuf::from(home);
        let script = format!("PATH=/usr/bin:/bin; {BEGIN}; {WORKING}");
        let bridge = Bridge::of_program("/bin/sh", ["-c", &script], &home.join("data"), None)
            .with_environment([("HOME", home.as_os_str())]);
        let mut running = bridge.start().await.unwrap();
        println!("{STARTED}");
        panic!("{}", running.ended().await);
    }
    let computer = Computer::new();
    let mut life_line = computer.life_line();
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "orphan::bridge_ends_with_its_killed_supervisor",
            "--nocapture",
        ])
        .env(HOME, computer.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(supervisor.stdout.take().unwrap());
    let mut lines = stdout.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(STARTED)));
    life_line.begun().await;
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    life_line.ended().await;
    assert_eq!(computer.read("bridge-end"), "closed\n");
    // The lock is free.
    computer.script(WORKING).start().await.unwrap().stop().await;
}
