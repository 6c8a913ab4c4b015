//! Reports before the first write into a home of the Python program.

use std::fs;
use std::path::Path;

use nanobot_config::{ConfigSeverity, ImportReport, RunningProgram, running_python_program};

use crate::home::Home;

fn put(root: &Path, file: &str, content: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

#[test]
fn import_report_lists_keys_and_counts_files() {
    let home = Home::with(
        r#"{
  "agents": {"defaults": {"model": "m", "memoryWindow": 50, "botName": "Bo", "maxTokens": null}},
  "providers": {"openai": {"apiKey": "abc"}},
  "tools": {"exec": {"restrictToWorkspace": true}},
  "plugins": {"x": 1}
}"#,
    );
    let root = home.directory.path();
    put(root, "workspace/sessions/cli_direct.jsonl", "");
    put(root, "workspace/sessions/notes.txt", "");
    put(root, "workspace/memory/MEMORY.md", "");
    put(root, "workspace/memory/HISTORY.md", "");
    put(root, "workspace/skills/weather/SKILL.md", "");
    put(root, "workspace/skills/empty/README.md", "");
    put(root, "sessions/telegram_1.jsonl", "");
    put(root, "sessions/0123abcd/Y2xp.jsonl", "");
    put(
        root,
        "cron/jobs.json",
        r#"{"version": 1, "jobs": [{}, {}]}"#,
    );
    let report = ImportReport::new(&home.load().unwrap()).unwrap();
    assert_eq!(
        home.tilde(&report),
        "Configuration ~/config.json
  read: agents.defaults.memoryWindow, agents.defaults.model, providers.openai.apiKey, tools.restrictToWorkspace
  kept, unknown: plugins
  ignored: agents.defaults.botName
  migrated: tools.exec.restrictToWorkspace → tools.restrictToWorkspace
  ~/config.json:4:22: `tools.exec.restrictToWorkspace` is read as `tools.restrictToWorkspace`
  ~/config.json:2:41: `agents.defaults.memoryWindow` is still read, but `agents.defaults.contextWindowTokens` measures better: set that instead
  ~/config.json:2:61: `agents.defaults.botName` is kept but not read by this version
  ~/config.json:5:3: unknown key `plugins` is kept but has no effect
Workspace ~/workspace
  sessions: 1, in older places: 2
  memory: HISTORY.md, MEMORY.md
  skills: weather
  scheduled jobs: 2
"
    );
    let severities: Vec<ConfigSeverity> = report
        .findings
        .iter()
        .map(|finding| finding.severity())
        .collect();
    assert_eq!(
        severities,
        [
            ConfigSeverity::Note,
            ConfigSeverity::Warning,
            ConfigSeverity::Note,
            ConfigSeverity::Warning
        ]
    );
}

#[test]
fn unreadable_job_store_has_no_count() {
    let home = Home::with("{}");
    put(home.directory.path(), "cron/jobs.json", "{\"jobs\": [");
    let report = ImportReport::new(&home.load().unwrap()).unwrap();
    assert_eq!(report.contents.cron_jobs, None);
}

#[test]
fn only_python_program_of_this_home_is_detected() {
    let home = Home::empty();
    let config = home.file().to_string_lossy().into_owned();
    let with_config = [
        "/usr/bin/python3.12",
        "/usr/local/bin/nanobot",
        "gateway",
        "--config",
        &config,
    ];
    let as_module = [
        "python3",
        "-m",
        "nanobot",
        "agent",
        &format!("--config={config}"),
    ];
    let table: [(&[&str], &str, Option<&str>); 8] = [
        (&with_config, "", Some("gateway")),
        (&as_module, "", Some("agent")),
        (
            &["python3", "/x/nanobot", "gateway"],
            "HOME=/people/ann\0",
            None,
        ),
        (&["python3", "/x/nanobot", "gateway"], "", Some("gateway")),
        (
            &["python3", "/x/nanobot", "gateway", "-c", "/other.json"],
            "",
            None,
        ),
        (&["python3", "/x/nanobot", "status"], "", None),
        (&["/usr/bin/nanobot", "gateway"], "", None),
        (&["python3", "server.py", "gateway"], "", None),
    ];
    for (arguments, environ, expected) in table {
        let processes = tempfile::tempdir().unwrap();
        put(
            processes.path(),
            "self/cmdline",
            "python3\0nanobot\0gateway\0",
        );
        put(
            processes.path(),
            "7/cmdline",
            &format!("{}\0", arguments.join("\0")),
        );
        put(processes.path(), "7/environ", environ);
        let found = running_python_program(processes.path(), 1, &home.paths());
        let found = found.map(|RunningProgram { pid, command, .. }| (pid, command));
        assert_eq!(
            found,
            expected.map(|command| (7, command.to_owned())),
            "{arguments:?}"
        );
        assert_eq!(
            running_python_program(processes.path(), 7, &home.paths()),
            None
        );
    }
    let nowhere = home.directory.path().join("proc");
    assert_eq!(running_python_program(&nowhere, 1, &home.paths()), None);
}
