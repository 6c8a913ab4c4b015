//! The installation.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use nanobot_whatsapp_bridge::BridgeError;

use crate::fixture::{BEGIN, Computer, mode, names, variable_names};

fn silent(_line: &str) {}

#[tokio::test]
async fn package_is_installed_once_and_privately() {
    let computer = Computer::new();
    let bridge = computer.bridge();
    assert!(!bridge.is_installed().await);
    let lines = Mutex::new(Vec::new());
    let progress = |line: &str| lines.lock().unwrap().push(line.to_owned());
    bridge.install(&progress).await.unwrap();
    assert!(bridge.is_installed().await);
    bridge.install(&progress).await.unwrap();

    let arguments = computer.read("npm-arguments");
    assert_eq!(
        arguments,
        "ci --omit=dev --omit=peer --ignore-scripts --no-audit --no-fund\n"
    );
    let lines = lines.into_inner().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let [version, lock] = &computer.installed()[..] else {
        panic!("{:?}", computer.installed());
    };
    assert_eq!((version.len(), lock.as_str()), (16, "install.lock"));
    let folder = computer.data().join("whatsapp-bridge");
    for folder in [&folder, &folder.join(version)] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let files = names(&folder.join(version));
    for file in ["index.js", "node_modules", "package.json"] {
        assert!(files.iter().any(|name| name == file), "{files:?}");
    }
}

#[tokio::test]
async fn npm_gets_few_variables() {
    let computer = Computer::new();
    computer.bridge().install(&silent).await.unwrap();
    assert_eq!(
        variable_names(&computer.read("npm-environment")),
        ["HOME", "HTTPS_PROXY", "LANG", "PATH", "npm_config_loglevel"]
    );
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let remove = |computer: &Computer, name: &str| {
        fs::remove_file(computer.path("bin").join(name)).unwrap();
    };
    let many =
        "i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo line $i; done; echo lost >&2; exit 7";
    type Change<'a> = &'a dyn Fn(&Computer);
    let cases: [(Change<'_>, &[&str]); 8] = [
        (
            &|computer| remove(computer, "node"),
            &["Node.js is missing", "20"],
        ),
        (&|computer| remove(computer, "npm"), &["npm is missing"]),
        (
            &|computer| computer.write("node-version", "v18.19.1\n"),
            &["too old", "v18.19.1", "20"],
        ),
        (
            &|computer| computer.write("node-version", "Welcome\n"),
            &["cannot run", "Welcome"],
        ),
        (
            &|computer| remove_file(computer, "node-version"),
            &["cannot run"],
        ),
        (
            &|computer| computer.write("npm.sh", many),
            &["npm cannot install", "exit status: 7", "line 500", "lost"],
        ),
        (
            &|computer| computer.write("npm.sh", "echo \"failed: $HTTPS_PROXY\"; exit 1"),
            &["npm cannot install", "failed:", "@127.0.0.1:1"],
        ),
        (
            &|computer| computer.write("npm.sh", "true"),
            &["no packages"],
        ),
    ];
    for (change, parts) in cases {
        let computer = Computer::new();
        change(&computer);
        let bridge = computer.bridge();
        let Err(BridgeError::Install(text)) = bridge.install(&silent).await else {
            panic!("{parts:?}");
        };
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.len() < 2_000, "{text}");
        assert!(!text.contains("pine4pple"), "{text}");
        assert!(!bridge.is_installed().await, "{text}");
    }
}

fn remove_file(computer: &Computer, name: &str) {
    fs::remove_file(computer.path(name)).unwrap();
}

#[tokio::test]
async fn cancelled_installation_ends_npm_and_is_repeated() {
    let computer = Computer::new();
    let mut life_line = computer.life_line();
    let endless =
        format!("echo half >left-over; mkdir node_modules; {BEGIN}; sleep 600 & sleep 600");
    computer.write("npm.sh", &endless);
    let bridge = computer.bridge();
    tokio::select! {
        ended = bridge.install(&silent) => panic!("{ended:?}"),
        () = life_line.begun() => {}
    }
    life_line.ended().await;
    assert!(!bridge.is_installed().await);
    let part = computer
        .installed()
        .into_iter()
        .find(|name| name.ends_with(".part"));
    assert!(part.is_some());
    assert!(!bridge.is_outdated().await);

    computer.write("npm.sh", "mkdir node_modules");
    bridge.install(&silent).await.unwrap();
    assert!(bridge.is_installed().await);
    let [version, _lock] = &computer.installed()[..] else {
        panic!("{:?}", computer.installed());
    };
    let files = names(&computer.data().join("whatsapp-bridge").join(version));
    assert!(!files.iter().any(|name| name == "left-over"), "{files:?}");
}

#[tokio::test]
async fn two_installers_run_npm_once() {
    let computer = Computer::new();
    let (one, other) = (computer.bridge(), computer.bridge());
    let (one, other) = tokio::join!(one.install(&silent), other.install(&silent));
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert_eq!(computer.read("npm-arguments").lines().count(), 1);
}

#[tokio::test]
async fn npm_of_a_killed_program_is_waited_for() {
    let computer = Computer::new();
    let folder = computer.data().join("whatsapp-bridge");
    fs::create_dir_all(&folder).unwrap();
    let left = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    fs::write(folder.join("install.lock"), left.id().to_string()).unwrap();
    let left = Mutex::new(Some(left));
    let progress = |line: &str| {
        let Some(mut left) = left.lock().unwrap().take() else {
            return;
        };
        assert!(line.starts_with("Waiting"), "{line}");
        assert_eq!(computer.read("npm-arguments"), "");
        left.kill().unwrap();
        left.wait().unwrap();
    };
    computer.bridge().install(&progress).await.unwrap();
    assert!(left.lock().unwrap().is_none());
    assert_eq!(computer.read("npm-arguments").lines().count(), 1);
}

#[tokio::test]
async fn incomplete_version_is_repaired() {
    let computer = Computer::new();
    let bridge = computer.bridge();
    bridge.install(&silent).await.unwrap();
    let version = computer
        .data()
        .join("whatsapp-bridge")
        .join(&computer.installed()[0]);
    fs::remove_dir(version.join("node_modules")).unwrap();
    assert!(!bridge.is_installed().await);
    bridge.install(&silent).await.unwrap();
    assert!(bridge.is_installed().await);
}

#[tokio::test]
async fn old_versions_are_removed_unless_they_are_used() {
    let computer = Computer::new();
    let folder = computer.data().join("whatsapp-bridge");
    let (used, unused, unfinished) = (
        "00000000000000aa",
        "00000000000000bb",
        "00000000000000cc.part",
    );
    for name in [used, unused, unfinished, "accounts", "notes"] {
        fs::create_dir_all(folder.join(name).join("node_modules")).unwrap();
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let lock = File::create(folder.join(used).join("in-use.lock")).unwrap();
    lock.lock_shared().unwrap();
    let bridge = computer.bridge();
    assert!(bridge.is_outdated().await && !bridge.is_installed().await);
    bridge.install(&silent).await.unwrap();
    assert!(!bridge.is_outdated().await && bridge.is_installed().await);
    assert_eq!(mode(&folder), 0o700);
    let installed = computer.installed();
    let has = |name: &str| installed.iter().any(|other| other == name);
    assert!(
        has(used) && has("accounts") && has("notes"),
        "{installed:?}"
    );
    assert!(!has(unused) && !has(unfinished), "{installed:?}");
    assert_eq!(installed.len(), 5, "{installed:?}");
}

#[tokio::test]
async fn other_program_needs_no_installation() {
    let computer = Computer::new();
    let bridge = computer.script("true");
    assert!(bridge.is_installed().await);
    bridge.install(&silent).await.unwrap();
    assert_eq!(computer.installed(), [""; 0]);
}
