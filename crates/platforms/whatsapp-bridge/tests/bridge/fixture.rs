//! A computer with stand-ins for Node.js and npm, in a folder of its own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nanobot_whatsapp_bridge::Bridge;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Time limit of waits, for a failing test to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell script of a bridge that works: it listens, and ends when its input is closed.
pub(crate) const WORKING: &str = "
    env >\"$HOME/bridge-environment\"
    echo '{\"listening\":\"ws://127.0.0.1:40123\",\"protocol\":2}'
    cat >/dev/null
    echo closed >\"$HOME/bridge-end\"";

/// A home folder, whose files choose what the scripts do.
pub(crate) struct Computer {
    root: TempDir,
}

impl Computer {
    /// A computer with Node.js 20 and npm, on which everything works.
    pub(crate) fn new() -> Self {
        let computer = Self {
            root: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(computer.path("bin")).unwrap();
        // Links, because a program that was just written cannot always be started: another thread
        // may be starting a child, which has it open for writing until it executes its program.
        for name in ["node", "npm"] {
            let script = format!("tests/programs/{name}.sh");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
            symlink(script, computer.path("bin").join(name)).unwrap();
        }
        computer.write("node-version", "v20.1.0\n");
        computer.write("npm.sh", "mkdir node_modules");
        computer.write("bridge.sh", WORKING);
        computer
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Returns the content of a file; empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Variables as a user has them, with secrets among them.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PATH", self.path("bin").display().to_string()),
            ("HOME", self.root.path().display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("OPENAI_API_KEY", "sk-of-another-program".to_owned()),
            ("NODE_OPTIONS", "--require /tmp/other.js".to_owned()),
            (
                "HTTPS_PROXY",
                "http://ann:pine4pple-Tree@127.0.0.1:1".to_owned(),
            ),
            ("npm_config_loglevel", "warn".to_owned()),
        ]
    }

    /// The package's bridge.
    pub(crate) fn bridge(&self) -> Bridge {
        Bridge::new(&self.data(), None).with_environment(self.variables())
    }

    /// A bridge that is a shell script.
    pub(crate) fn script(&self, script: &str) -> Bridge {
        self.script_of(script, None)
    }

    pub(crate) fn script_of(&self, script: &str, instance: Option<&str>) -> Bridge {
        let script = format!("PATH=/usr/bin:/bin\n{script}");
        Bridge::of_program("/bin/sh", ["-c", &script], &self.data(), instance)
            .with_environment(self.variables())
    }

    /// Returns the entries of the folder with the installations.
    pub(crate) fn installed(&self) -> Vec<String> {
        names(&self.data().join("whatsapp-bridge"))
    }

    /// Creates a pipe, by which the test learns that processes have begun and ended.
    pub(crate) fn life_line(&self) -> LifeLine {
        LifeLine::at(&self.path("alive"))
    }
}

/// Script that opens the pipe of a [`LifeLine`] and says that it has begun.
pub(crate) const BEGIN: &str = "exec 9>\"$HOME/alive\"; echo begun >&9";

/// A named pipe that processes hold open: its end is the end of the last one.
pub(crate) struct LifeLine {
    begun: oneshot::Receiver<()>,
    ended: oneshot::Receiver<()>,
}

impl LifeLine {
    pub(crate) fn at(path: &Path) -> Self {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
        let (begins, begun) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        let path = path.to_owned();
        // A thread that does not keep the test program from ending.
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(File::open(path).unwrap());
            let mut text = String::new();
            pipe.read_line(&mut text).unwrap();
            // A failed test does not listen any more.
            begins.send(()).ok();
            pipe.read_to_string(&mut text).unwrap();
            ends.send(()).ok();
        });
        Self { begun, ended }
    }

    /// Waits until a process has begun.
    pub(crate) async fn begun(&mut self) {
        patient(&mut self.begun).await.unwrap();
    }

    /// Waits until no process has the pipe open.
    pub(crate) async fn ended(self) {
        patient(self.ended).await.unwrap();
    }
}

/// Waits for something that happens, unless the test fails.
pub(crate) async fn patient<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.unwrap()
}

/// Returns the names in a folder, sorted; none if it is missing.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns the names of the variables in the output of `env`, without those that shells add.
pub(crate) fn variable_names(environment: &str) -> Vec<&str> {
    let mut names: Vec<&str> = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    names
}

/// Returns the permissions of a file or folder.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
