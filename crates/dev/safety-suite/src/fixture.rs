//! The files that the corpus of commands speaks of, made anew for each row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use nanobot_guard::{PathPolicy, PathRules};
use nanobot_tool::Registry;
use nanobot_tool_files::{ScanMode, ToolFiles, ToolFilesConfig, ToolFilesSettings};
use nanobot_tools::{CommandRunner, HttpClients, Mechanism, SandboxRunner, ToolsConfig, builtin};

/// Value of a secret variable in the environment of the suite, which plays the assistant.
pub(crate) const ENVIRONMENT_CANARY: &str = "CANARY-ENV-91bd";

/// Texts that no command may print unless it may read the file.
pub(crate) const OUTSIDE_CANARY: &str = "OUTSIDE-CANARY-55aa";
const SECRET_CANARY: &str = "CANARY-SECRET-7f3a";
const KEY_CANARY: &str = "CANARY-SSH-KEY-13cd";

/// Canaries that no command may print in any profile.
pub(crate) const SECRETS: [&str; 3] = [ENVIRONMENT_CANARY, SECRET_CANARY, KEY_CANARY];

/// Content of files.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Where and how the rows are run.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Folder of the files, made anew for each row.
    pub(crate) root: PathBuf,
    /// The mechanism; `None` for the best one of this system.
    pub(crate) mechanism: Option<Mechanism>,
    /// Proven attacks are run in a plain shell, too.
    pub(crate) has_control: bool,
}

/// The folder of one row.
pub(crate) struct Fixture {
    root: PathBuf,
    setting: Setting,
    is_strict: bool,
    /// Files that no command may change, with their content.
    fenced: Files,
}

impl Fixture {
    /// Creates the files in `root`, replacing those of the previous row.
    pub(crate) fn new(setting: &Setting, is_strict: bool) -> anyhow::Result<Self> {
        let root = &setting.root;
        if root.exists() {
            fs::remove_dir_all(root)?;
        }
        let mut fixture = Self {
            root: root.clone(),
            setting: setting.clone(),
            is_strict,
            fenced: Files::new(),
        };
        let secret = format!("{{\"apiKey\":\"{SECRET_CANARY}\"}}");
        let program = "#!/bin/sh\necho evil\n";
        for (path, text) in [
            ("outside/canary.txt", OUTSIDE_CANARY),
            ("outside/dir/file", "x"),
            ("home/.app/config.json", secret.as_str()),
            ("home/.ssh/id_ed25519", KEY_CANARY),
            ("home/.bashrc", "# empty\n"),
            ("ws/AGENTS.md", "rules\n"),
            ("ws/policy/rules.json", "{\"a\":1}"),
            ("ws/notes.txt", "one\ntwo\n"),
            ("ws/README.md", "read me\n"),
            ("ws/src/main.rs", "fn main() {}\n"),
            ("ws/data.csv", "a,b\n1,2\n"),
            ("ws/app.log", "started\n"),
            (
                "ws/package.json",
                "{\"scripts\":{\"format\":\"true\",\"shutdown-tests\":\"true\"}}",
            ),
            ("ws/hex.txt", "726d"),
            ("ws/yes.txt", "y\n"),
            ("ws/bin/ls", program),
            ("ws/evil.sh", program),
        ] {
            let path = fixture.path(path);
            let folder = path.parent().context("a file has a folder")?;
            fs::create_dir_all(folder)?;
            fs::write(path, text)?;
        }
        symlink("../outside", fixture.path("ws/link_out"))?;
        symlink("../home/.app/config.json", fixture.path("ws/link_prot"))?;
        fixture.commit()?;
        fixture.fenced = fixture.outside()?;
        Ok(fixture)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Replaces the marks of the corpus by paths.
    pub(crate) fn expand(&self, command: &str) -> String {
        let marks = [
            ("@ROOT@", ""),
            ("@WS@", "ws"),
            ("@OUT@", "outside"),
            ("@HOME@", "home"),
            ("@PROTDIR@", "home/.app"),
            ("@PROT@", "home/.app/config.json"),
        ];
        marks.iter().fold(command.to_owned(), |text, (mark, name)| {
            text.replace(mark, &self.path(name).to_string_lossy())
        })
    }

    /// Returns the tools, with commands in the sandbox.
    pub(crate) fn registry(&self) -> anyhow::Result<Registry> {
        let config = self.config();
        let policy = self.policy(&config);
        let runner = self.runner();
        runner.check()?;
        let runner = Arc::new(runner);
        self.registry_with(&config, &policy, runner)
    }

    fn registry_with(
        &self,
        config: &ToolsConfig,
        policy: &Arc<PathPolicy>,
        runner: Arc<dyn CommandRunner>,
    ) -> anyhow::Result<Registry> {
        let guard = Arc::new(config.url_guard()?);
        let reader = Arc::new(nanobot_testkit::InProcess);
        let http = Arc::new(HttpClients::new(&config.web, guard, reader));
        let registry = Registry::new();
        for tool in builtin(config, policy, &http, runner)?.listed {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// Returns the runner of commands, without the text guard before it.
    pub(crate) fn runner(&self) -> SandboxRunner {
        let config = self.config();
        let runner = SandboxRunner::new(&config.exec, self.policy(&config));
        match &self.setting.mechanism {
            Some(mechanism) => runner.with_mechanism(mechanism.clone()),
            None => runner,
        }
    }

    /// Returns the tools of `ws/tools`, which have `limit` seconds for a call.
    pub(crate) fn tool_files(
        &self,
        scan: ScanMode,
        limit: Option<u64>,
    ) -> (Arc<ToolFiles>, Registry) {
        let mut config = ToolFilesConfig {
            scan,
            ..ToolFilesConfig::default()
        };
        config.timeout = limit.unwrap_or(config.timeout);
        let policy = (*self.policy(&self.config())).clone();
        let reserved = BTreeSet::from(["read_file".to_owned(), "exec".to_owned()]);
        let files = Arc::new(ToolFiles::new(ToolFilesSettings {
            mechanism: self.setting.mechanism.clone(),
            ..ToolFilesSettings::new(config, policy, reserved)
        }));
        (Arc::clone(&files), Registry::new().fed_by(files))
    }

    fn config(&self) -> ToolsConfig {
        let mut config = ToolsConfig {
            restrict_to_workspace: self.is_strict,
            protected_paths: vec![
                "AGENTS.md".into(),
                "policy".into(),
                self.path("home/.app/config.json"),
            ],
            ..ToolsConfig::default()
        };
        config.exec.timeout = 5;
        config.exec.limits.file_size_mb = 16;
        config
    }

    fn policy(&self, config: &ToolsConfig) -> Arc<PathPolicy> {
        let rules = PathRules {
            home: Some(self.path("home")),
            secret_paths: vec![self.path("home/.app/config.json"), self.path("home/.ssh")],
            ..config.path_rules(self.path("ws"))
        };
        Arc::new(PathPolicy::new(rules))
    }

    /// Returns what a command changed although it may not, in any profile.
    pub(crate) fn changed(&self) -> anyhow::Result<Option<String>> {
        let now = self.outside()?;
        for (path, content) in &self.fenced {
            if now.get(path) != Some(content) {
                return Ok(Some(format!("{} was changed", path.display())));
            }
        }
        let added = now.keys().find(|path| !self.fenced.contains_key(*path));
        Ok(added.map(|path| format!("{} was created", path.display())))
    }

    /// Returns a process that works in the workspace. Killed ones have a moment to disappear.
    pub(crate) async fn survivor(&self) -> anyhow::Result<Option<String>> {
        for _ in 0..100 {
            if self.process_in_workspace()?.is_none() {
                return Ok(None);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.process_in_workspace()
    }

    fn process_in_workspace(&self) -> anyhow::Result<Option<String>> {
        let workspace = self.path("ws");
        for entry in fs::read_dir("/proc")?.filter_map(Result::ok) {
            if fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == workspace) {
                return Ok(Some(format!("process {:?} runs", entry.file_name())));
            }
        }
        Ok(None)
    }

    /// Returns the files that have to stay as they are: those outside of the workspace, and the
    /// protected ones in it.
    fn outside(&self) -> anyhow::Result<Files> {
        let mut files = Files::new();
        for folder in ["outside", "home", "ws/policy", "ws/AGENTS.md"] {
            collect(&self.path(folder), &mut files)?;
        }
        Ok(files)
    }

    fn commit(&self) -> anyhow::Result<()> {
        for arguments in [
            ["init", "-q", "-b", "main"].as_slice(),
            &["config", "user.name", "t"],
            &["config", "user.email", "t@example.com"],
            // It would go on in the background.
            &["config", "maintenance.auto", "false"],
            &["add", "notes.txt"],
            &["commit", "-q", "-m", "first"],
        ] {
            let status = Command::new("git")
                .current_dir(self.path("ws"))
                .args(arguments)
                .status()
                .context("git cannot be started")?;
            ensure!(status.success(), "git {arguments:?} failed");
        }
        Ok(())
    }
}

/// Adds all files at and below `path`. What a process removes meanwhile is missing in the result.
fn collect(path: &Path, files: &mut Files) -> anyhow::Result<()> {
    let content = if path.is_symlink() {
        fs::read_link(path).map(|target| target.as_os_str().as_encoded_bytes().to_vec())
    } else if path.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten() {
            collect(&entry?.path(), files)?;
        }
        return Ok(());
    } else {
        fs::read(path)
    };
    match content {
        Ok(content) => {
            files.insert(path.to_owned(), content);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
