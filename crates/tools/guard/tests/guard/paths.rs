//! The path policy against `path_access.jsonl`, its races and its modes.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use nanobot_guard::{PathDenied, PathPolicy, PathRules};
use serde::Deserialize;
use tempfile::TempDir;

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

/// The fixture that the corpus describes.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("ws/notes.txt", "one\ntwo\n"),
            ("ws/src/main.rs", "fn main() {}\n"),
            ("ws/AGENTS.md", "rules\n"),
            ("ws/policy/rules.json", "{}"),
            ("outside/canary.txt", "OUTSIDE-CANARY-55aa"),
            ("outside/dir/file", "x"),
            (
                "home/.app/config.json",
                r#"{"apiKey":"CANARY-SECRET-7f3a"}"#,
            ),
            ("home/.ssh/id_ed25519", "CANARY-SSH-KEY-13cd"),
            ("extra/unrelated", ""),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn expand(&self, text: &str) -> String {
        [
            ("@WS@", "ws"),
            ("@OUT@", "outside"),
            ("@HOME@", "home"),
            ("@PROT@", "home/.app/config.json"),
            ("@EXTRA@", "extra"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (mark, name)| {
            text.replace(mark, self.path(name).to_str().unwrap())
        })
    }

    fn policy(&self, restrict: bool, allowed: &[String]) -> PathPolicy {
        let secret = [self.path("home/.app/config.json"), self.path("home/.ssh")];
        PathPolicy::new(PathRules {
            home: Some(self.path("home")),
            restrict,
            allowed_paths: allowed
                .iter()
                .map(|path| self.expand(path).into())
                .collect(),
            protected_paths: vec![secret[0].clone(), "AGENTS.md".into(), "policy".into()],
            secret_paths: secret.to_vec(),
            ..PathRules::new(self.path("ws"))
        })
    }

    #[cfg(unix)]
    fn prepare(&self, setup: &[Vec<String>]) {
        for step in setup {
            let target = self.path("ws").join(self.expand(&step[1]));
            match step[0].as_str() {
                "symlink" => std::os::unix::fs::symlink(self.expand(&step[2]), target).unwrap(),
                "fifo" => nix::unistd::mkfifo(&target, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                "write_abs" => fs::write(target, &step[2]).unwrap(),
                other => unreachable!("{other}"),
            }
        }
    }

    /// Returns every file outside the workspace and every protected one, with its content.
    fn untouchable(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for folder in [
            "outside",
            "outside/dir",
            "home",
            "home/.app",
            "home/.ssh",
            "ws/policy",
        ] {
            for entry in fs::read_dir(self.path(folder)).unwrap() {
                let path = entry.unwrap().path();
                found.push((path.clone(), fs::read(&path).unwrap_or_default()));
            }
        }
        found.push((
            self.path("ws/AGENTS.md"),
            fs::read(self.path("ws/AGENTS.md")).unwrap(),
        ));
        found.sort();
        found
    }
}

/// Performs the operation of a file tool, reduced to its use of the guard.
fn perform(policy: &PathPolicy, op: &str, path: &str) -> Result<String, String> {
    let denied = |error: PathDenied| error.to_string();
    let failed = |error: io::Error| error.to_string();
    let mut text = String::new();
    match op {
        "read" => {
            let mut file = policy.read(path).map_err(denied)?.open().map_err(failed)?;
            file.read_to_string(&mut text).map_err(failed)?;
        }
        "list" => {
            text = format!(
                "{:?}",
                policy
                    .read(path)
                    .map_err(denied)?
                    .entries()
                    .map_err(failed)?
            );
        }
        "write" => policy
            .write(path)
            .map_err(denied)?
            .replace(b"written")
            .map_err(failed)?,
        "edit" => {
            let target = policy.write(path).map_err(denied)?;
            target
                .open()
                .map_err(failed)?
                .read_to_string(&mut text)
                .map_err(failed)?;
            target.replace(b"edited").map_err(failed)?;
        }
        "delete" => {
            fs::remove_dir_all(policy.remove(path).map_err(denied)?.path()).map_err(failed)?;
        }
        other => unreachable!("{other}"),
    }
    Ok(text)
}

#[cfg(unix)]
#[test]
fn corpus_verdicts_match() {
    let rows: Vec<Row> = crate::rows(include_str!(
        "../../../../dev/testkit/corpus/path_access.jsonl"
    ));
    let mut failed = Vec::new();
    for row in &rows {
        let fixture = Fixture::new();
        fixture.prepare(&row.setup);
        let before = fixture.untouchable();
        let policy = fixture.policy(row.profile == "strict", &row.config.allowed_paths);
        let outcome = perform(&policy, &row.op, &fixture.expand(&row.path));
        let unchanged = fixture.untouchable() == before;
        if outcome.is_ok() != (row.expect == "allow") || !unchanged {
            failed.push(format!(
                "{} {} {:.80} ({}): {outcome:?}",
                row.id, row.op, row.path, row.reason
            ));
        }
    }
    crate::no_failures(&failed);
}

#[test]
fn permissions_depend_on_the_root() {
    let fixture = Fixture::new();
    let policy = PathPolicy::new(PathRules {
        read_only_roots: vec![fixture.path("extra")],
        allowed_paths: vec![fixture.path("outside/dir")],
        ..PathRules::new(fixture.path("ws"))
    });
    let extra = fixture.path("extra/unrelated");
    assert!(policy.read(&extra).is_ok());
    assert!(matches!(
        policy.write(&extra),
        Err(PathDenied::ReadOnly { .. })
    ));
    assert!(policy.write(fixture.path("outside/dir/file")).is_ok());
    assert!(policy.write("new.txt").is_ok());
    let sibling = fixture.path("ws2");
    let denied = policy.read(&sibling).unwrap_err().to_string();
    let (given, allowed) = (sibling.display(), fixture.path("ws"));
    assert_eq!(
        denied,
        format!(
            "Path {given} is outside allowed directory {}",
            allowed.display()
        )
    );
}

#[test]
fn parents_of_protected_paths_cannot_be_removed() {
    let fixture = Fixture::new();
    let policy = fixture.policy(false, &[]);
    assert!(matches!(
        policy.remove(fixture.path("home/.app")),
        Err(PathDenied::Secret { .. })
    ));
    assert!(matches!(
        policy.remove("policy"),
        Err(PathDenied::Protected { .. })
    ));
    assert!(matches!(
        policy.remove("."),
        Err(PathDenied::Secret { .. } | PathDenied::Protected { .. })
    ));
    assert!(policy.remove("src").is_ok());
    assert!(policy.remove(fixture.path("outside")).is_ok());
}

#[cfg(unix)]
#[test]
fn removing_a_link_does_not_follow_it() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink("AGENTS.md", fixture.path("ws/link")).unwrap();
    let policy = fixture.policy(true, &[]);
    assert!(policy.write("link").is_err());
    assert_eq!(
        policy.remove("link").unwrap().path().file_name().unwrap(),
        "link"
    );
}

#[cfg(unix)]
#[test]
fn replace_keeps_the_mode_and_leaves_no_temporary_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    let script = fixture.path("ws/notes.txt");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    fixture
        .policy(true, &[])
        .write("notes.txt")
        .unwrap()
        .replace(b"new")
        .unwrap();
    assert_eq!(fs::read(&script).unwrap(), b"new");
    assert_eq!(
        script.metadata().unwrap().permissions().mode() & 0o777,
        0o750
    );
    let left = fs::read_dir(fixture.path("ws")).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("tmp")
    });
    assert_eq!(left.count(), 0);
}

/// A folder and a link to the outside are swapped between the check and the opening, as fast as
/// possible.
#[cfg(target_os = "linux")]
#[test]
fn a_link_swapped_in_after_the_check_is_never_followed() {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let fixture = Fixture::new();
    let (folder, link) = (fixture.path("ws/d"), fixture.path("ws/link"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("canary.txt"), "inside").unwrap();
    std::os::unix::fs::symlink(fixture.path("outside"), &link).unwrap();
    let policy = fixture.policy(true, &[]);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            for _ in 0..100_000 {
                let exchange = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &folder, AT_FDCWD, &link, exchange).unwrap();
            }
        });
        while !swapping.is_finished() {
            if let Ok(text) = perform(&policy, "read", "d/canary.txt") {
                assert_eq!(text, "inside");
            }
            // An error is as good as a success here; it only matters that nothing outside is
            // written.
            drop(perform(&policy, "write", "d/new.txt"));
        }
    });
    assert!(!fixture.path("outside/new.txt").exists());
}

#[test]
fn closed_folder_opens_only_for_roots_inside_it() {
    let fixture = Fixture::new();
    let closed = fixture.path("home");
    let policy = |workspace: PathBuf, allowed: &[PathBuf], read_only: &[PathBuf]| {
        PathPolicy::new(PathRules {
            restrict: false,
            closed_roots: vec![closed.clone()],
            allowed_paths: allowed.to_vec(),
            read_only_roots: read_only.to_vec(),
            ..PathRules::new(workspace)
        })
    };
    let inside = policy(
        closed.join("work"),
        &[closed.join("more")],
        &[closed.join("logs")],
    );
    for (name, read, written) in [
        ("", false, false),
        ("new", false, false),
        (".app/config.json", false, false),
        ("work", true, true),
        ("work/new", true, true),
        ("work/../new", false, false),
        ("work2/new", false, false),
        ("more/new", true, true),
        ("logs/new", true, false),
    ] {
        let path = closed.join(name);
        assert_eq!(
            (inside.read(&path).is_ok(), inside.write(&path).is_ok()),
            (read, written),
            "{name}"
        );
    }
    assert!(inside.read(fixture.path("outside/canary.txt")).is_ok());
    assert!(inside.remove(closed.parent().unwrap()).is_err());
    // A workspace that is, or contains, the closed folder opens nothing.
    for workspace in [closed.clone(), fixture.path(""), closed.join(".")] {
        let outer = policy(
            workspace,
            std::slice::from_ref(&closed),
            &[fixture.path("")],
        );
        assert!(matches!(
            outer.read(closed.join("new")),
            Err(PathDenied::Secret { .. })
        ));
        assert!(matches!(
            outer.remove(&closed),
            Err(PathDenied::Secret { .. })
        ));
    }
}

/// A tool cannot open part of a closed folder by turning an open root into a link.
#[cfg(unix)]
#[test]
fn linked_root_opens_nothing_in_a_closed_folder() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink(fixture.path("home/.app"), fixture.path("ws/library")).unwrap();
    let policy = PathPolicy::new(PathRules {
        closed_roots: vec![fixture.path("home")],
        read_only_roots: vec!["library".into()],
        ..PathRules::new(fixture.path("ws"))
    });
    for path in [
        "library/config.json".into(),
        fixture.path("home/.app/config.json"),
    ] {
        assert!(
            matches!(policy.read(&path), Err(PathDenied::Secret { .. })),
            "{}",
            path.display()
        );
    }
}

/// A hard link has the same permissions as the file's first name.
#[cfg(unix)]
#[test]
fn hard_links_are_checked_by_inode() {
    let fixture = Fixture::new();
    let link = |from: &str, to: &str| fs::hard_link(fixture.path(from), fixture.path(to)).unwrap();
    fs::create_dir_all(fixture.path("outside/work")).unwrap();
    for (from, to) in [
        ("home/.app/config.json", "ws/config"),
        ("home/.ssh/id_ed25519", "ws/src/key"),
        ("ws/policy/rules.json", "ws/rules"),
        ("ws/AGENTS.md", "ws/agents"),
        ("outside/dir/file", "ws/closed"),
        ("ws/notes.txt", "ws/twin"),
        ("outside/canary.txt", "outside/work/open"),
    ] {
        link(from, to);
    }
    let rules = PathRules {
        restrict: false,
        secret_paths: vec![
            fixture.path("home/.app/config.json"),
            fixture.path("home/.ssh"),
        ],
        protected_paths: vec!["AGENTS.md".into(), "policy".into()],
        closed_roots: vec![fixture.path("outside")],
        allowed_paths: vec![fixture.path("outside/work")],
        ..PathRules::new(fixture.path("ws"))
    };
    let policy = PathPolicy::new(rules);
    for (name, read, written) in [
        ("config", false, false),
        ("src/key", false, false),
        ("closed", false, false),
        ("rules", true, false),
        ("agents", true, false),
        ("twin", true, true),
        ("src/main.rs", true, true),
    ] {
        let outcome = (policy.read(name).is_ok(), policy.write(name).is_ok());
        assert_eq!(outcome, (read, written), "{name}");
    }
    // A file of the closed folder with a hard link in an open root of it is still closed.
    assert!(policy.read(fixture.path("outside/work/open")).is_err());
    // Replacing a harmless file with two names leaves the content under the other name unchanged.
    policy.write("twin").unwrap().replace(b"new").unwrap();
    assert_eq!(
        fs::read_to_string(fixture.path("ws/notes.txt")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(fs::read_to_string(fixture.path("ws/twin")).unwrap(), "new");
}

/// Between the check and the opening, the file is replaced by a hard link to another.
#[cfg(unix)]
#[test]
fn open_detects_a_hard_link_made_after_the_check() {
    let fixture = Fixture::new();
    let policy = fixture.policy(true, &[]);
    let (reading, writing) = (
        policy.read("notes.txt").unwrap(),
        policy.write("src/main.rs").unwrap(),
    );
    for (from, to) in [
        ("home/.ssh/id_ed25519", "ws/notes.txt"),
        ("ws/AGENTS.md", "ws/src/main.rs"),
    ] {
        fs::remove_file(fixture.path(to)).unwrap();
        fs::hard_link(fixture.path(from), fixture.path(to)).unwrap();
    }
    assert_eq!(
        reading.open().unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
    assert_eq!(
        writing.replace(b"mine").unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
    assert_eq!(
        fs::read_to_string(fixture.path("ws/AGENTS.md")).unwrap(),
        "rules\n"
    );
}

/// A file can be read by its full name, but its folder cannot be listed.
#[test]
fn unlisted_folders_can_be_read_but_not_listed() {
    let fixture = Fixture::new();
    let media = fixture.path("outside");
    for restrict in [true, false] {
        let policy = PathPolicy::new(PathRules {
            restrict,
            read_only_roots: vec![media.clone()],
            unlisted_roots: vec![media.clone()],
            ..PathRules::new(fixture.path("ws"))
        });
        assert!(policy.read(media.join("canary.txt")).is_ok());
        for folder in [media.clone(), media.join("dir"), media.join("dir/../dir")] {
            let refused = policy.read(&folder);
            assert!(
                matches!(refused, Err(PathDenied::Unlisted { .. })),
                "{}",
                folder.display()
            );
        }
        assert!(policy.read(fixture.path("ws")).is_ok());
    }
}

/// A snapshot copies the file that was checked, and a failed copy leaves no files.
#[cfg(unix)]
#[test]
fn snapshot_copies_the_checked_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    let (policy, copies) = (fixture.policy(true, &[]), fixture.path("extra/copies"));
    let checked = policy.read("notes.txt").unwrap();
    let copy = checked.snapshot(&copies, 100).unwrap();
    assert_eq!(
        (fs::read(&copy).unwrap(), copy.file_name().unwrap()),
        (b"one\ntwo\n".to_vec(), "notes.txt".as_ref())
    );
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(checked.snapshot(&copies, 100).unwrap(), copy);
    assert_eq!(
        checked.snapshot(&copies, 3).unwrap_err().kind(),
        io::ErrorKind::FileTooLarge
    );
    fs::remove_file(fixture.path("ws/notes.txt")).unwrap();
    std::os::unix::fs::symlink(
        fixture.path("outside/canary.txt"),
        fixture.path("ws/notes.txt"),
    )
    .unwrap();
    assert!(checked.snapshot(&copies, 100).is_err());
    assert!(policy.read("src").unwrap().snapshot(&copies, 100).is_err());
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 2);
}
