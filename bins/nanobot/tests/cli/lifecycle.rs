//! Managing a gateway from another terminal: status, logs, stop, restart, the user service.

use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

#[tokio::test]
async fn gateway_is_restarted_and_stopped_by_commands() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let none = home.run(&["gateway", "status"]).await;
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (
            1,
            "The gateway does not run. Start it with `nanobot gateway`.\n"
        )
    );
    assert_eq!(home.run(&["gateway", "stop"]).await.code, 0);
    let impossible = home.run(&["gateway", "restart"]).await;
    assert_eq!(impossible.code, 1);
    assert_says(&impossible.stderr, &["does not run", "nanobot gateway"]);

    let gateway = Running::start(&home).await;
    let about = async || -> Value {
        let run = home.run(&["gateway", "status", "--json"]).await;
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.stdout).unwrap()
    };
    let first = about().await;
    assert_eq!(
        (&first["running"], &first["gateway"]["pid"]),
        (&json!(true), &json!(gateway.pid()))
    );
    let restarted = home.run(&["gateway", "restart"]).await;
    assert_eq!(restarted.code, 0, "{restarted:?}");
    assert_says(
        &restarted.stdout,
        &["The gateway runs again", &gateway.pid().to_string()],
    );
    let checked: Value =
        serde_json::from_str(&home.run(&["doctor", "--json"]).await.stdout).unwrap();
    let version = checked["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["id"] == "gateway.version");
    assert_eq!(version.unwrap()["severity"], "good", "{checked}");
    let second = about().await;
    assert_eq!(
        second["gateway"]["pid"], first["gateway"]["pid"],
        "a service manager sees one process"
    );
    assert_ne!(
        second["gateway"]["started_at"],
        first["gateway"]["started_at"]
    );

    let stopped = home.run(&["gateway", "stop"]).await;
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (0, "The gateway has stopped.\n"),
        "{stopped:?}"
    );
    assert_eq!(gateway.end().await.1, Some(0));
    let logs = home.run(&["gateway", "logs", "-n", "1"]).await;
    assert_says(&logs.stdout, &["gateway stopped"]);
    assert_eq!(logs.stdout.lines().count(), 1);
    let all = home.run(&["gateway", "logs", "-n", "1000"]).await.stdout;
    assert_eq!(all.matches("gateway started").count(), 2, "{all}");
}

#[tokio::test]
async fn log_following_continues_after_a_restart() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let missing = home.run(&["gateway", "logs"]).await;
    assert_eq!(missing.code, 1);
    assert_says(&missing.stderr, &["gateway.log", "nanobot gateway"]);
    let gateway = Running::start(&home).await;
    let mut follower = tokio::process::Command::from(home.program());
    let output = home.path().join("followed");
    follower
        .args(["gateway", "logs", "-n", "0", "--follow"])
        .stdout(std::fs::File::create(&output).unwrap());
    let mut follower = follower.kill_on_drop(true).spawn().unwrap();
    // The follower starts at the end of the file, at an unknown time.
    until("the follower shows what is new", async || {
        home.run(&["gateway", "restart"]).await;
        std::fs::read_to_string(&output)
            .unwrap()
            .contains("gateway started")
    })
    .await;
    follower.kill().await.unwrap();
    home.run(&["gateway", "stop"]).await;
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Runs the program with a `systemctl` that is this script.
#[cfg(target_os = "linux")]
async fn with_systemctl(home: &Home, script: &str, arguments: &[&str]) -> crate::support::Run {
    use std::os::unix::fs::PermissionsExt as _;
    home.write("programs/systemctl", &format!("#!/bin/sh\n{script}\n"));
    let file = home.path().join("programs/systemctl");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut program = home.program();
    program
        .args(arguments)
        .env("PATH", home.path().join("programs"));
    crate::support::finish(program, b"").await
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn service_installation_fails_with_its_manager() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let script = "echo 'no medium found' >&2; exit 1";
    let failed = with_systemctl(&home, script, &["gateway", "install-service"]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    assert_says(
        &failed.stderr,
        &[
            "`systemctl --user daemon-reload` did not work (no medium found)",
            "then `systemctl --user enable --now nanobot.service`",
        ],
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn service_preview_names_missing_variables() {
    let home = Home::new();
    home.configure(&serde_json::json!({"providers": {"openai": {"apiKey": "${OPENAI_API_KEY}"}}}));
    let shown = home.run(&["gateway", "install-service", "--dry-run"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert_says(
        &shown.stderr,
        &["takes OPENAI_API_KEY from the environment"],
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn service_is_previewed_installed_and_removed() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let shown = home.run(&["gateway", "install-service", "--dry-run"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let program = format!(
        "ExecStart=\"{}\" \"gateway\"",
        env!("CARGO_BIN_EXE_nanobot")
    );
    assert_says(
        &shown.stdout,
        &[
            ".config/systemd/user/nanobot.service",
            &program,
            "Restart=on-failure",
            "systemctl --user enable --now",
        ],
    );
    let unit = home
        .path()
        .parent()
        .unwrap()
        .join(".config/systemd/user/nanobot.service");
    assert!(!unit.exists(), "a dry run writes nothing");
    assert!(
        !shown.stdout.contains("network-online.target"),
        "user managers have no such target"
    );
    assert_says(&shown.stdout, &["RestartPreventExitStatus=2"]);

    let installed = with_systemctl(&home, "exit 0", &["gateway", "install-service"]).await;
    assert_eq!(installed.code, 0, "{installed:?}");
    assert!(
        shown
            .stdout
            .contains(&std::fs::read_to_string(&unit).unwrap())
    );
    let removed = with_systemctl(&home, "exit 0", &["gateway", "uninstall-service"]).await;
    assert_eq!((removed.code, unit.exists()), (0, false), "{removed:?}");
    let again = home.run(&["gateway", "uninstall-service"]).await;
    assert_says(&again.stdout, &["There is no service"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_accepts_the_unit() {
    let Ok(version) = std::process::Command::new("systemd-analyze")
        .arg("--version")
        .output()
    else {
        // The unit can only be checked where systemd is installed.
        return eprintln!("SKIPPED: there is no systemd-analyze here to check the unit with");
    };
    assert!(version.status.success());
    let home = Home::with_model("http://127.0.0.1:1/v1");
    home.run(&["gateway", "install-service"]).await;
    let unit = home
        .path()
        .parent()
        .unwrap()
        .join(".config/systemd/user/nanobot.service");
    // Without a login session there is no such folder, and nothing would be checked.
    let runtime = tempfile::tempdir().unwrap();
    let mut verify = std::process::Command::new("systemd-analyze");
    verify
        .args(["verify", "--user"])
        .arg(&unit)
        .env("XDG_RUNTIME_DIR", runtime.path());
    let verified = verify.output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    if said.contains("Failed to initialize manager") {
        return eprintln!("SKIPPED: systemd-analyze cannot work here: {said}");
    }
    assert!(verified.status.success(), "{said}");
    assert!(!said.contains("nanobot.service:"), "{said}");
}
