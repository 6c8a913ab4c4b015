//! Commands in the sandbox, with real processes. Without bubblewrap, or without Landlock of Linux
//! 6.12, its tests are skipped with a message, unless `NANOBOT_REQUIRE_TEST_SERVERS` is set.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at the first surprise"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nanobot_sandbox::{
    Base, ConfinedProcess, Limits, Mechanism, PathAccess, Sandbox, SandboxError, SandboxedCommand,
    View,
};
use tempfile::TempDir;

const LAUNCHER: &str = env!("CARGO_BIN_EXE_nanobot-sandbox-launcher");
const BUBBLEWRAP: &str = "/usr/bin/bwrap";

/// A workspace with protected, hidden and foreign files beside it. Not below `/tmp`, which is
/// private in every view.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir_in("/var/tmp").unwrap());
        for (name, text) in [
            ("ws/notes", "mine"),
            ("ws/policy/deep/rule", "protected"),
            ("ws/secret/key", "hidden"),
            ("ws/secret/open/note", "open"),
            ("library/skill", "readable"),
            ("other/file", "foreign"),
        ] {
            let path = place.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn view(&self, base: Base) -> View {
        let mut view = View::new(base, None);
        for (name, access) in [
            ("ws", PathAccess::ReadWrite),
            ("ws/policy/deep/rule", PathAccess::ReadOnly),
            ("ws/secret", PathAccess::Hidden),
            ("ws/secret/open", PathAccess::ReadWrite),
            ("library", PathAccess::ReadOnly),
            ("other", PathAccess::Hidden),
        ] {
            view.set(self.path(name), access);
        }
        view
    }

    fn command(
        &self,
        sandbox: &Sandbox,
        view: &View,
        limits: Limits,
        script: &str,
    ) -> ConfinedProcess {
        let directory = self.path("ws");
        let command = SandboxedCommand {
            script,
            directory: &directory,
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            limits,
        };
        sandbox.command(view, command).unwrap()
    }

    fn run(&self, sandbox: &Sandbox, view: &View, script: &str) -> Output {
        let mut command = self.command(sandbox, view, Limits::default(), script);
        command.process.stdin(Stdio::null()).output().unwrap()
    }
}

fn bubblewrap() -> Option<Sandbox> {
    if !Path::new(BUBBLEWRAP).is_file() {
        assert!(!is_required(), "{BUBBLEWRAP} is not installed");
        eprintln!("SKIPPED: {BUBBLEWRAP} is not installed");
        return None;
    }
    let mechanism = Mechanism::Bubblewrap(BUBBLEWRAP.into());
    Some(Sandbox::new(mechanism, LAUNCHER.into()).unwrap())
}

fn is_required() -> bool {
    std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some()
}

fn landlock() -> Sandbox {
    Sandbox::new(Mechanism::Landlock, LAUNCHER.into()).unwrap()
}

/// The sandboxes of this computer: Landlock needs Linux 6.12.
fn sandboxes() -> Vec<Sandbox> {
    let closed = tempfile::tempdir_in("/var/tmp").unwrap();
    let view = View::new(Base::System, None);
    let landlock = Some(landlock()).filter(|sandbox| match sandbox.probe(&view, closed.path()) {
        Ok(()) => true,
        Err(error) => {
            assert!(!is_required(), "{error}");
            eprintln!("SKIPPED: {error}");
            false
        }
    });
    bubblewrap().into_iter().chain(landlock).collect()
}

fn text(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_command_reads_and_writes_what_its_view_opens() {
    for sandbox in sandboxes() {
        let place = Place::new();
        let view = place.view(Base::System);
        let library = place.path("library/skill");
        let script = format!(
            "cat notes {} secret/open/note policy/deep/rule && echo new > notes && echo more > secret/open/note",
            library.display()
        );
        let output = place.run(&sandbox, &view, &script);
        assert_eq!(text(&output), "minereadableopenprotected", "{sandbox:?}");
        assert!(output.status.success());
        assert_eq!(place.read("ws/notes"), "new\n");
        assert_eq!(place.read("ws/secret/open/note"), "more\n");
    }
}

#[test]
fn a_command_has_no_effect_elsewhere() {
    let attempts = [
        "cat secret/key",
        "cat ../other/file",
        "echo x > policy/deep/rule",
        "rm -f policy/deep/rule",
        "mv policy elsewhere",
        "mv policy/deep policy/other",
        "echo x > ../library/skill",
        "echo x > ../other/new",
        "echo x > secret/new",
        "ln -s ../other/file link && cat link",
        "ln ../other/file hard && cat hard",
        "cat /etc/shadow",
        "cat /proc/1/root/etc/shadow",
        "mount -t tmpfs none .",
        "unshare -Ur true",
        "umount /proc",
        "kill -0 @THIS@",
        "cat /proc/net/tcp | grep -q 01",
    ];
    for sandbox in sandboxes() {
        for base in [Base::System, Base::Everything] {
            for attempt in attempts {
                let place = Place::new();
                let attempt = attempt.replace("@THIS@", &std::process::id().to_string());
                let output = place.run(&sandbox, &place.view(base), &attempt);
                let what = format!("{attempt} ({base:?}, {sandbox:?}): {}", text(&output));
                assert!(!output.status.success(), "{what}");
                assert!(!text(&output).contains("hidden"), "{what}");
                assert!(!text(&output).contains("foreign"), "{what}");
                assert_eq!(place.read("ws/policy/deep/rule"), "protected", "{what}");
                assert_eq!(place.read("library/skill"), "readable", "{what}");
                assert!(!place.path("other/new").exists(), "{what}");
                assert!(!place.path("ws/secret/new").exists(), "{what}");
            }
        }
    }
}

#[test]
fn a_missing_protected_path_cannot_be_created() {
    for sandbox in sandboxes() {
        let place = Place::new();
        let mut view = place.view(Base::System);
        view.set(place.path("ws/lock.json"), PathAccess::ReadOnly);
        view.set(place.path("ws/versions"), PathAccess::ReadOnly);
        let script = "echo x > lock.json; mkdir -p versions; echo x > versions/1; mv lock.json z; rm lock.json; exit 3";
        let outputs = [(); 2].map(|()| place.run(&sandbox, &view, script));
        for output in outputs {
            assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        }
        for name in ["ws/lock.json", "ws/versions", "ws/z"] {
            assert!(!place.path(name).exists(), "{name} ({sandbox:?})");
        }
    }
}

#[test]
fn a_placeholder_that_was_filled_stays() {
    let Some(sandbox) = bubblewrap() else { return };
    let place = Place::new();
    let mut view = place.view(Base::System);
    view.set(place.path("ws/lock.json"), PathAccess::ReadOnly);
    let first = place.command(&sandbox, &view, Limits::default(), "true");
    let second = place.command(&sandbox, &view, Limits::default(), "true");
    drop(first);
    assert_eq!(place.read("ws/lock.json"), "");
    fs::write(place.path("ws/lock.json"), "{}").unwrap();
    drop(second);
    assert_eq!(place.read("ws/lock.json"), "{}");
}

#[test]
fn temporary_files_of_a_command_are_its_own() {
    let Some(sandbox) = bubblewrap() else { return };
    let place = Place::new();
    let view = place.view(Base::System);
    let output = place.run(
        &sandbox,
        &view,
        "echo x > $TMPDIR/nanobot-sandbox-test && ls /tmp",
    );
    assert_eq!(text(&output), "nanobot-sandbox-test\n");
    assert!(!Path::new("/tmp/nanobot-sandbox-test").exists());
    let output = place.run(&sandbox, &view, "ls -A /tmp");
    assert_eq!(text(&output), "");
}

#[test]
fn limits_end_a_command() {
    for sandbox in sandboxes() {
        let place = Place::new();
        let view = place.view(Base::System);
        let limits = Limits {
            memory: Some(256 << 20),
            file_size: Some(1 << 20),
            cpu_seconds: Some(1),
            processes: Some(64),
        };
        let run = |script: &str| {
            let mut command = place.command(&sandbox, &view, limits, script);
            command.process.stdin(Stdio::null()).output().unwrap()
        };
        assert!(run("head -c 100000 /dev/zero > notes").status.success());
        let output = run("head -c 2000000 /dev/zero > notes");
        assert!(!output.status.success(), "{sandbox:?}");
        assert_eq!(place.path("ws/notes").metadata().unwrap().len(), 1 << 20);
        assert!(!run("while :; do :; done").status.success(), "{sandbox:?}");
        let memory = run("dd if=/dev/zero of=/dev/null bs=400M count=1");
        assert!(
            text(&memory).to_lowercase().contains("memory"),
            "{sandbox:?}: {}",
            text(&memory)
        );
        assert!(run("ulimit -c | grep -qx 0").status.success());
    }
}

#[test]
fn what_a_command_started_ends_with_it() {
    let Some(sandbox) = bubblewrap() else { return };
    let place = Place::new();
    let view = place.view(Base::System);
    // The lock would be held as long as a process has it open.
    let script = "exec 3> lock; flock 3; (setsid sleep 1000 &) ; echo started";
    let output = place.run(&sandbox, &view, script);
    assert_eq!(text(&output), "started\n");
    let locked = Command::new("flock")
        .arg(place.path("ws/lock"))
        .arg("true")
        .status()
        .unwrap();
    assert!(locked.success());
}

#[test]
fn a_sandbox_that_does_not_hold_is_found_out() {
    // It takes the arguments of bubblewrap and confines nothing.
    let place = Place::new();
    let program = place.path("bwrap");
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec {LAUNCHER} \"$@\"\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let sandbox = Sandbox::new(Mechanism::Bubblewrap(program), LAUNCHER.into()).unwrap();
    let view = place.view(Base::System);
    let error = sandbox.probe(&view, &place.path("other")).unwrap_err();
    assert!(matches!(error, SandboxError::Broken(_)), "{error}");
    assert_eq!(fs::read_dir(place.path("other")).unwrap().count(), 1);
    // One that cannot be started is not taken for one that holds.
    let sandbox = Sandbox::new(Mechanism::Bubblewrap("/bin/false".into()), LAUNCHER.into());
    let error = sandbox
        .unwrap()
        .probe(&view, &place.path("other"))
        .unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable(_)), "{error}");
}

#[test]
fn every_sandbox_of_this_computer_passes_its_probe() {
    let place = Place::new();
    for sandbox in sandboxes() {
        for base in [Base::System, Base::Everything] {
            for view in [place.view(base), place.view(base).with_network()] {
                if let Err(error) = sandbox.probe(&view, &place.path("other")) {
                    panic!("{sandbox:?} {view:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_command_cannot_start_where_it_sees_nothing() {
    let Some(sandbox) = bubblewrap() else { return };
    let place = Place::new();
    let directory = place.path("other");
    let command = SandboxedCommand {
        script: "true",
        directory: &directory,
        environment: Vec::new(),
        limits: Limits::default(),
    };
    let error = sandbox
        .command(&place.view(Base::System), command)
        .unwrap_err();
    assert!(matches!(error, SandboxError::View { .. }), "{error}");
}

#[test]
fn a_reader_can_only_compute() {
    let status = Command::new(LAUNCHER).arg("reader").status().unwrap();
    assert!(status.success());
}
