//! The gateway as a service of this user: a systemd unit on Linux, a launchd agent on macOS.
//!
//! Decision: a user service instead of a system service: it needs no root, owns nothing that the
//! user does not own, and reads the user's home. The service manager is controlled through its own
//! program. If that fails, the command fails and shows the remaining commands to the user.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nanobot_config::Config;
use nanobot_runtime::RuntimeBuilder;

use crate::failure::{CommandFailure, USAGE};
use crate::output;

/// Name of the systemd unit.
const UNIT: &str = "nanobot.service";
/// Label of the launchd agent.
const LABEL: &str = "ai.nanobot.gateway";

/// Seconds between starts by launchd. It cannot tell exit codes apart, so it also restarts a gateway
/// that ended because of an unusable configuration.
const LAUNCHD_INTERVAL: u32 = 60;

/// A service: the file that describes it, and the commands for its manager.
#[derive(Debug, PartialEq, Eq)]
struct Service {
    file: PathBuf,
    text: String,
    start: Vec<Vec<String>>,
    stop: Vec<Vec<String>>,
    /// Hint that is shown after the installation.
    hint: &'static str,
    /// Explains how to set an environment variable for the service.
    variable_hint: &'static str,
}

pub(super) fn install(program: &RuntimeBuilder, dry_run: bool) -> Result<ExitCode, CommandFailure> {
    let service = service(program)?;
    let runtime = program.build()?;
    let config = runtime.config();
    if dry_run {
        output::line(&format!("# {}\n{}", service.file.display(), service.text))?;
        warn_of_variables(config, &service);
        return show(&service.start);
    }
    let written = service.file.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(&service.file, &service.text))
        .map_err(|error| unwritable(&service.file, &error))?;
    output::line(&format!("Wrote {}", service.file.display()))?;
    warn_of_variables(config, &service);
    run_all(&service.start)?;
    output::line(service.hint)?;
    Ok(ExitCode::SUCCESS)
}

/// Names the variables that the configuration needs and that a service does not inherit.
fn warn_of_variables(config: &Config, service: &Service) {
    let text = fs::read_to_string(&config.paths().config_file).unwrap_or_default();
    for name in variables(&text) {
        output::note(&format!(
            "The configuration takes {name} from the environment, and a service does not have that of your shell: {}",
            service.variable_hint
        ));
    }
    let from_shell = nanobot_runtime::shell_variables(config);
    if !from_shell.is_empty() {
        output::note(&format!(
            "Set in your shell, but not seen by a service: {}. If it needs them: {}",
            from_shell.join(", "),
            service.variable_hint
        ));
    }
}

/// Returns the variables that a text refers to as `${NAME}`.
fn variables(text: &str) -> BTreeSet<&str> {
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let references = text
        .split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}'));
    references.map(|(name, _)| name).filter(is_name).collect()
}

pub(super) fn uninstall(
    program: &RuntimeBuilder,
    dry_run: bool,
) -> Result<ExitCode, CommandFailure> {
    let service = service(program)?;
    if dry_run {
        output::line(&format!("rm {}", service.file.display()))?;
        return show(&service.stop);
    }
    if !service.file.exists() {
        output::line(&format!("There is no service: {}", service.file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The file is removed even if the manager does not answer: it must not start again.
    let stopped = run_all(&service.stop);
    fs::remove_file(&service.file).map_err(|error| unwritable(&service.file, &error))?;
    output::line(&format!("Removed {}", service.file.display()))?;
    stopped.map(|()| ExitCode::SUCCESS)
}

fn unwritable(file: &Path, error: &std::io::Error) -> CommandFailure {
    let remedy = "Check that this is your home and that you may write there.";
    CommandFailure::unwritable(file, error, remedy)
}

fn show(commands: &[Vec<String>]) -> Result<ExitCode, CommandFailure> {
    for command in commands {
        output::line(&command.join(" "))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the commands of the service manager, up to the first that fails.
fn run_all(commands: &[Vec<String>]) -> Result<(), CommandFailure> {
    for (index, command) in commands.iter().enumerate() {
        let Some((program, arguments)) = command.split_first() else {
            continue;
        };
        let result = Command::new(program).args(arguments).output();
        let why = match result {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let rest: Vec<String> = commands
            .iter()
            .skip(index)
            .map(|left| format!("`{}`", left.join(" ")))
            .collect();
        return Err(CommandFailure::new(
            format!(
                "`{}` did not work ({})",
                command.join(" "),
                output::sanitize(&why)
            ),
            format!(
                "Run it yourself when you are logged in: {}.",
                rest.join(", then ")
            ),
        ));
    }
    Ok(())
}

/// Returns the service for this system and home.
fn service(program: &RuntimeBuilder) -> Result<Service, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let executable = std::env::current_exe().map_err(|error| {
        CommandFailure::new(
            format!("this program cannot be found: {error}"),
            "Install it to a fixed path.",
        )
    })?;
    let home = config
        .environment()
        .user_home()
        .map(Path::to_owned)
        .ok_or_else(|| {
            CommandFailure::new("it is not known whose service this is to be", "Set HOME.")
        })?;
    let mut arguments = gateway_command(&executable);
    if config.paths().is_explicit() {
        arguments.extend(["--config".to_owned(), display(&config.paths().config_file)]);
    }
    if let Some(workspace) = &program.load_options().workspace {
        arguments.extend(["--workspace".to_owned(), workspace.clone()]);
    }
    let nanobot_home = config
        .environment()
        .variable("NANOBOT_HOME")
        .map(str::to_owned);
    match std::env::consts::OS {
        "linux" => Ok(systemd(config, &home, &arguments, nanobot_home.as_deref())),
        "macos" => Ok(launchd(config, &home, &arguments, nanobot_home.as_deref())),
        other => Err(CommandFailure::new(
            format!("services are not known on {other}"),
            "Have your service manager run `nanobot gateway` as your user.",
        )),
    }
}

fn gateway_command(executable: &Path) -> Vec<String> {
    vec![display(executable), "gateway".to_owned()]
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn to_strings(to_strings: &[&str]) -> Vec<String> {
    to_strings.iter().map(|&word| word.to_owned()).collect()
}

/// A service manager, which determines the form of the printed file.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServiceManager {
    Systemd,
    Launchd,
}

/// Prints the systemd unit or the launchd agent of a program at `executable`, which uses the default
/// home of its user.
///
/// # Errors
/// Returns an error if the path is not absolute.
pub(super) fn print_for_packages(
    manager: ServiceManager,
    executable: &Path,
) -> Result<ExitCode, CommandFailure> {
    if !executable.is_absolute() {
        return Err(CommandFailure::usage(
            format!("{} is not an absolute path", executable.display()),
            "Give the path that the program is installed to, such as /usr/bin/nanobot.",
        ));
    }
    let arguments = gateway_command(executable);
    output::write(&match manager {
        ServiceManager::Systemd => systemd_unit(&arguments, None),
        ServiceManager::Launchd => launchd_agent(&arguments, None, None),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the systemd service.
fn systemd(
    config: &Config,
    home: &Path,
    arguments: &[String],
    nanobot_home: Option<&str>,
) -> Service {
    let folder = config
        .environment()
        .variable("XDG_CONFIG_HOME")
        .map_or_else(|| home.join(".config"), PathBuf::from);
    let systemctl = |rest: &[&str]| to_strings(&[&["systemctl", "--user"], rest].concat());
    Service {
        file: folder.join("systemd").join("user").join(UNIT),
        text: systemd_unit(arguments, nanobot_home),
        start: vec![
            systemctl(&["daemon-reload"]),
            systemctl(&["enable", "--now", UNIT]),
        ],
        stop: vec![systemctl(&["disable", "--now", UNIT])],
        hint: "It runs while you are logged in. `loginctl enable-linger` keeps it running beyond that, and starts it \
               with the computer.",
        variable_hint: "set it by `systemctl --user edit nanobot.service`, as Environment=NAME=value below [Service].",
    }
}

/// Returns the systemd unit; its keys are those of systemd.service(5) and systemd.exec(5).
fn systemd_unit(arguments: &[String], nanobot_home: Option<&str>) -> String {
    let quoted: Vec<String> = arguments
        .iter()
        .map(|argument| systemd_word(argument))
        .collect();
    let environment = nanobot_home.map_or_else(String::new, |value| {
        format!(
            "Environment={}\n",
            systemd_assignment(&format!("NANOBOT_HOME={value}"))
        )
    });
    // No network target: user managers have none, and channels reconnect by themselves. An
    // unusable configuration does not become usable by a restart.
    format!(
        "[Unit]\nDescription=nanobot gateway\n\n\
         [Service]\nType=exec\nExecStart={}\n{environment}Restart=on-failure\nRestartSec=5\n\
         RestartPreventExitStatus={USAGE}\nTimeoutStopSec=60\nNoNewPrivileges=true\nUMask=0077\n\n[Install]\nWantedBy=default.target\n",
        quoted.join(" ")
    )
}

/// Quotes one word of a command line in a unit. Doubles `%`, which begins a specifier, and `$`,
/// which begins a variable.
fn systemd_word(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Quotes one assignment of `Environment=`, in which `$` is not special.
fn systemd_assignment(assignment: &str) -> String {
    systemd_word(assignment).replace("$$", "$")
}

/// Returns the launchd service.
fn launchd(
    config: &Config,
    home: &Path,
    arguments: &[String],
    nanobot_home: Option<&str>,
) -> Service {
    let file = home
        .join("Library")
        .join("LaunchAgents")
        .join(format!("{LABEL}.plist"));
    let log = display(&config.paths().logs.join("service.log"));
    Service {
        start: vec![
            to_strings(&["launchctl", "load", "-w"])
                .into_iter()
                .chain([display(&file)])
                .collect(),
        ],
        stop: vec![
            to_strings(&["launchctl", "unload", "-w"])
                .into_iter()
                .chain([display(&file)])
                .collect(),
        ],
        text: launchd_agent(arguments, nanobot_home, Some(&log)),
        file,
        hint: "It runs while you are logged in.",
        variable_hint: "set it by `launchctl setenv NAME value`, or write the value into the configuration.",
    }
}

/// Returns the launchd agent; its keys are those of launchd.plist(5). launchd expands no `~`, so an
/// agent for every user names no file for standard error; the gateway has a log of its own.
fn launchd_agent(arguments: &[String], nanobot_home: Option<&str>, log: Option<&str>) -> String {
    let program: String = arguments
        .iter()
        .map(|argument| format!("    <string>{}</string>\n", xml(argument)))
        .collect();
    let environment = nanobot_home.map_or_else(String::new, |value| {
        format!(
            "  <key>EnvironmentVariables</key>\n  <dict>\n    <key>NANOBOT_HOME</key>\n    <string>{}</string>\n  \
             </dict>\n",
            xml(value)
        )
    });
    let log = log.map_or_else(String::new, |file| {
        format!(
            "  <key>StandardErrorPath</key>\n  <string>{}</string>\n",
            xml(file)
        )
    });
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  \
         <string>{LABEL}</string>\n  <key>ProgramArguments</key>\n  <array>\n{program}  </array>\n{environment}  \
         <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    \
         <false/>\n  </dict>\n  <key>ThrottleInterval</key>\n  <integer>{LAUNCHD_INTERVAL}</integer>\n\
         {log}</dict>\n</plist>\n"
    )
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_words_are_quoted_and_escaped() {
        let table = [
            ("/usr/bin/nanobot", "\"/usr/bin/nanobot\""),
            ("/home/a b/c\"d", "\"/home/a b/c\\\"d\""),
            ("100%$HOME\\", "\"100%%$$HOME\\\\\""),
        ];
        for (word, quoted) in table {
            assert_eq!(systemd_word(word), quoted);
        }
        assert_eq!(
            systemd_assignment("HOME_OF=/a b/100%$$"),
            "\"HOME_OF=/a b/100%%$$\""
        );
    }

    #[test]
    fn referenced_variables_are_listed_once() {
        let text = r#"{"a": "${KEY}", "b": "x ${OTHER_1}", "c": "${KEY}", "d": "$HOME ${} ${a b} ${1} ${open"}"#;
        assert_eq!(Vec::from_iter(variables(text)), ["KEY", "OTHER_1"]);
    }

    #[test]
    fn plist_texts_are_escaped() {
        assert_eq!(xml("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
