//! What packages are made of: completions, manual pages, the unit, the agent and the facts of the
//! build.

use serde_json::{Value, json};

use crate::support::{Home, assert_says, finish};

/// Shells, with the command that checks the syntax of a script.
const SHELLS: [(&str, &[&str]); 4] = [
    ("bash", &["bash", "-n"]),
    ("zsh", &["zsh", "-n"]),
    ("fish", &["fish", "--no-execute"]),
    ("powershell", &[]),
];

/// Returns the visible commands, as `--help` lists them.
async fn commands(home: &Home) -> Vec<String> {
    let help = home.run(&["--help"]).await.stdout;
    let list = help.split_once("Commands:\n").unwrap().1;
    let list = list.split_once("\n\n").unwrap().0;
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    list.lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(first)
        .filter(|name| name != "help")
        .collect()
}

#[tokio::test]
async fn completions_name_every_command() {
    let home = Home::new();
    let commands = commands(&home).await;
    assert!(commands.len() > 12, "{commands:?}");
    for (shell, check) in SHELLS {
        let run = home.run(&["completions", shell]).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        for command in &commands {
            assert!(run.stdout.contains(command), "{shell}: {command}");
        }
        let Some((checker, options)) = check.split_first() else {
            continue;
        };
        let is_there = std::process::Command::new(checker)
            .arg("--version")
            .output()
            .is_ok();
        if !is_there {
            eprintln!("SKIPPED: {checker} is not installed, so its script is not checked");
            continue;
        }
        let script = home.path().with_file_name(format!("completions.{shell}"));
        std::fs::write(&script, &run.stdout).unwrap();
        let mut command = std::process::Command::new(checker);
        command.args(options).arg(&script);
        let checked = finish(command, b"").await;
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{shell}");
    }
    let run = home.run(&["completions", "tcsh"]).await;
    assert_eq!(run.code, 2);
    assert_says(&run.stderr, &["tcsh", "bash"]);
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let home = Home::new();
    let run = home.run(&["man"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &[".TH nanobot 1", env!("CARGO_PKG_VERSION")]);
    let folder = home.path().with_file_name("pages");
    std::fs::create_dir(&folder).unwrap();
    let run = home.run(&["man", "--to", folder.to_str().unwrap()]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let main = std::fs::read_to_string(folder.join("nanobot.1")).unwrap();
    for command in commands(&home).await {
        let name = format!("nanobot-{command}.1");
        assert!(run.stdout.lines().any(|line| line == name), "{name}");
        let page = std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        assert!(
            main.contains(&name.replace('-', "\\-").replace(".1", "(1)")),
            "{main}"
        );
    }
    let run = home.run(&["man", "--to", "/nonexistent/pages"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &["/nonexistent/pages", "try:"]);
}

#[tokio::test]
async fn verbose_version_lists_facts_of_the_build() {
    let run = Home::new().run(&["--version", "-v"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let facts = [
        "commit: ",
        "source date: ",
        "target: ",
        "profile: ",
        "compiler: ",
        "platforms: ",
        "telegram",
    ];
    assert_says(&run.stdout, &facts);
}

#[tokio::test]
async fn unit_of_a_package_names_its_program() {
    let home = Home::new();
    let install = ["gateway", "install-service", "--unit-for"];
    let run = home
        .run(&[&install[..], &["/usr/bin/nanobot"]].concat())
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &["ExecStart=\"/usr/bin/nanobot\" \"gateway\"\n", "[Install]"],
    );
    let page = include_str!("../../../../docs/deployment.md");
    let unit = page.split("```ini\n").nth(1).unwrap();
    let unit = unit.split("```").next().unwrap();
    let documented: String = unit
        .lines()
        .filter(|line| !line.starts_with("Environment="))
        .map(|line| format!("{line}\n"))
        .collect();
    let printed = run
        .stdout
        .replace("/usr/bin/nanobot", "/usr/local/bin/nanobot");
    assert_eq!(documented, printed, "the unit in docs/deployment.md");
    let run = home.run(&[&install[..], &["bin/nanobot"]].concat()).await;
    assert_eq!(run.code, 2);
    assert_says(&run.stderr, &["not an absolute path"]);
    assert_eq!(
        home.names("."),
        Vec::<String>::new(),
        "nothing is installed"
    );
}

/// Prints a property list as JSON.
const PLIST_AS_JSON: &str =
    "import json, plistlib, sys; json.dump(plistlib.loads(sys.stdin.buffer.read()), sys.stdout)";

#[tokio::test]
async fn agent_for_packages_fits_every_user() {
    let home = Home::new();
    let install = ["gateway", "install-service", "--agent-for"];
    let run = home
        .run(&[&install[..], &["/usr/local/bin/nano<&bot"]].concat())
        .await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("<?xml version=\"1.0\""));
    for personal in [home.path().to_str().unwrap(), "NANOBOT_HOME", "~"] {
        assert!(!run.stdout.contains(personal), "{personal}: {}", run.stdout);
    }
    let refused = home.run(&[&install[..], &["bin/nanobot"]].concat()).await;
    assert_eq!(refused.code, 2);
    assert_says(&refused.stderr, &["not an absolute path"]);
    assert_eq!(
        home.names("."),
        Vec::<String>::new(),
        "nothing is installed"
    );

    let mut command = std::process::Command::new("python3");
    if command.arg("--version").output().is_err() {
        eprintln!("SKIPPED: python3 is not installed, so the property list is not parsed");
        return;
    }
    let mut command = std::process::Command::new("python3");
    command.args(["-c", PLIST_AS_JSON]);
    let parsed = finish(command, run.stdout.as_bytes()).await;
    assert_eq!((parsed.code, parsed.stderr.as_str()), (0, ""));
    let expected = json!({
        "Label": "ai.nanobot.gateway",
        "ProgramArguments": ["/usr/local/bin/nano<&bot", "gateway"],
        "RunAtLoad": true,
        "KeepAlive": {"SuccessfulExit": false},
        "ThrottleInterval": 60,
    });
    assert_eq!(
        serde_json::from_str::<Value>(&parsed.stdout).unwrap(),
        expected
    );
}

#[tokio::test]
async fn package_installs_the_program_and_its_reader() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let mut command = std::process::Command::new(env!("CARGO"));
    command
        .args([
            "metadata",
            "--locked",
            "--offline",
            "--no-deps",
            "--format-version",
            "1",
        ])
        .current_dir(folder);
    let run = finish(command, b"").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let metadata: Value = serde_json::from_str(&run.stdout).unwrap();
    let manifest = format!("{folder}/Cargo.toml");
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let package = packages
        .find(|package| package["manifest_path"] == manifest.as_str())
        .expect("the workspace contains the package");
    // `cargo install` needs programs that are built by the default features.
    let targets = package["targets"].as_array().unwrap().iter();
    let programs: Vec<Value> = targets
        .filter(|target| target["kind"] == json!(["bin"]))
        .map(|target| json!([target["name"], target["required-features"]]))
        .collect();
    let expected = ["nanobot", "nanobot-documents"].map(|program| json!([program, null]));
    assert_eq!(programs, expected);
    assert_eq!(package["default_run"], "nanobot");
    let page = include_str!("../../../../README.md");
    assert_says(page, &["cargo install --locked --path bins/nanobot "]);
}
