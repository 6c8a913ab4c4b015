//! The command line, as clap reads it.
//!
//! Decision: only shapes and help texts are here; what a command does is in `commands`. Parsing builds
//! nothing, so that `--help` and `--version` cost what a process costs.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 the turn or the operation failed; 2 wrong usage or configuration;
129, 130, 143 ended by a hangup, by Ctrl-C, by a request to terminate.

Without a configured model, `nanobot agent` uses a local model server if one runs, and the built-in
demo otherwise. Files are under ~/.nanobot, or where NANOBOT_HOME says.";

const REPLAY_ABOUT: &str = "\
Run this program's code over recorded turns, offline, and say where it parts from the record.

The model gives the recorded answers and the tools the recorded results: nothing is asked, run, sent
or changed. A turn is `identical` when every step of it would be recorded again as it was; otherwise
the first step that would not is shown, and the exit code is 1.

With --bundle, what the turns need is also written to a file for another machine: the records, the
tools, the version of this program. Secrets are hidden by their names and looks and home directories
become ~; it is a conversation all the same, so read it before you pass it on.";

/// A self-hosted personal AI assistant.
#[derive(Debug, Parser)]
#[command(name = "nanobot", disable_version_flag = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(short = 'v', long = "version")]
    pub(crate) version: bool,
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Where configuration and workspace are; every command understands these.
#[derive(Debug, Args)]
pub(crate) struct Places {
    /// Configuration file; its directory holds state, logs and media
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Workspace directory, instead of the configured one
    #[arg(short, long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or refresh the configuration and the workspace
    Onboard(OnboardArguments),
    /// Talk to the assistant
    Agent(AgentArguments),
    /// Run the gateway: channels, health endpoint, assistant
    Gateway(GatewayArguments),
    /// Show how things are set up
    Status {
        /// Ask the model whether it answers: costs a few tokens
        #[arg(long)]
        probe: bool,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Find what keeps the assistant from working, and say what to do about it
    Doctor(DoctorArguments),
    /// List, show, export, fork and rewind conversations
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List, show, check, install and remove skills
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Run this program's code over recorded turns, offline, and say where it parts from the record
    #[command(long_about = REPLAY_ABOUT)]
    Replay(ReplayArguments),
    /// Messages that wait, may not have arrived, or failed
    Inbox(InboxArguments),
    /// Set reminders and repeating tasks, list, run, pause and remove them
    #[command(subcommand)]
    Cron(CronCommand),
    /// Let people in who were given a code, list them, and take that back
    #[command(subcommand)]
    Pairing(PairingCommand),
    /// Search memory and conversations; review what changed in memory and bring it back
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// How channels are; try one, or give one its credentials
    #[command(subcommand)]
    Channels(ChannelsCommand),
    /// Show the configuration and where each value comes from
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Options of `onboard`.
#[derive(Debug, Args)]
pub(crate) struct OnboardArguments {
    /// Only say what would be read, kept, ignored and created
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep all values of an existing configuration and add what is missing, without asking
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) refresh: bool,
    /// Replace an existing configuration by the defaults (a copy is kept), without asking
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// Options of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Say this, print the reply and leave
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The conversation to go on with
    #[arg(short, long, value_name = "KEY", default_value = "cli:direct")]
    pub(crate) session: String,
    /// Render Markdown on a terminal (the default)
    #[arg(long, overrides_with = "no_markdown")]
    markdown: bool,
    /// Show replies as they were written
    #[arg(long, overrides_with = "markdown")]
    no_markdown: bool,
    /// Show the log on standard error
    #[arg(long, overrides_with = "no_logs")]
    logs: bool,
    /// No log (the default)
    #[arg(long, overrides_with = "logs")]
    no_logs: bool,
    /// Use the built-in demo model, whatever is configured
    #[arg(long)]
    pub(crate) demo: bool,
}

impl AgentArguments {
    /// Whether Markdown is to be rendered where that makes sense.
    pub(crate) fn renders_markdown(&self) -> bool {
        self.markdown || !self.no_markdown
    }

    /// Whether the log is to be shown.
    pub(crate) fn shows_logs(&self) -> bool {
        self.logs && !self.no_logs
    }
}

/// Options of `doctor`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Mend what can be mended without losing anything
    #[arg(long)]
    pub(crate) fix: bool,
    /// Ask the model and every platform whether they take the credentials: costs a few tokens
    #[arg(long)]
    pub(crate) probe: bool,
    /// As JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GatewayArguments {
    /// Port of the health endpoint, instead of the configured one
    #[arg(short, long)]
    pub(crate) port: Option<u16>,
    /// Log in detail
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Log to standard error as JSON, one object a line
    #[arg(long)]
    pub(crate) json_logs: bool,
    /// What to do about a gateway, instead of running one
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,
}

/// What can be done about a gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Say whether the gateway runs, and how its channels are; exit code 1 when it does not
    Status {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show the last lines of the gateway's log
    Logs {
        /// How many
        #[arg(short = 'n', long, default_value_t = 50)]
        lines: usize,
        /// Go on with those that come, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// End the gateway in order
    Stop,
    /// End the gateway in order, and have it begin again with what is configured and installed now
    Restart,
    /// Run the gateway as a service of this user (systemd, launchd)
    InstallService {
        /// Only show what would be written and run
        #[arg(long)]
        dry_run: bool,
    },
    /// Take the service away
    UninstallService {
        /// Only show what would be removed and run
        #[arg(long)]
        dry_run: bool,
    },
}

/// Options of `inbox`. Without any of the first three, all of them are listed.
#[derive(Debug, Args)]
pub(crate) struct InboxArguments {
    /// What is not settled yet
    #[arg(long, global = true)]
    pub(crate) pending: bool,
    /// What may or may not have arrived
    #[arg(long, global = true)]
    pub(crate) uncertain: bool,
    /// What was given up
    #[arg(long, global = true)]
    pub(crate) failed: bool,
    /// Everything that is still kept
    #[arg(long, global = true)]
    pub(crate) all: bool,
    /// The most entries to list
    #[arg(long, global = true, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// As JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Option<InboxCommand>,
}

/// What can be done with messages.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List them, the newest first (the default)
    List,
    /// Print one
    Show {
        /// Its number, as `inbox` lists it
        id: String,
    },
    /// Try one again
    Retry {
        /// Its number
        id: String,
    },
    /// Give one up
    Drop {
        /// Its number
        id: String,
    },
}

/// What can be done with conversations.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Conversations, the latest first
    List {
        /// With those that subagents worked in
        #[arg(long)]
        all: bool,
    },
    /// Print a conversation
    Show {
        /// The conversation, as `sessions list` names it
        key: String,
    },
    /// Write a conversation to standard output or a new file
    Export {
        /// The conversation, as `sessions list` names it
        key: String,
        /// The form
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        /// The file; it must not exist yet
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Copy a conversation into a new one, to go on with both
    Fork {
        /// The conversation, as `sessions list` names it
        key: String,
        /// Copy up to this message, by its number in `sessions show`; otherwise everything
        #[arg(long, value_name = "N")]
        at: Option<u64>,
        /// The name of the copy, instead of the first free `KEY:branch:N`
        #[arg(long, value_name = "KEY")]
        to: Option<String>,
    },
    /// Go back in a conversation: what was said later is kept, but no longer sent to the model
    Rewind {
        /// The conversation, as `sessions list` names it
        key: String,
        /// The last message that stands, by its number in `sessions show`
        #[arg(long, value_name = "N")]
        to: u64,
    },
}

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Set a job; a gateway runs it
    Add(CronAddArguments),
    /// List jobs, the next one first
    List {
        /// Also those that do not run
        #[arg(short, long)]
        all: bool,
    },
    /// Show a job as it is kept
    Show {
        /// Its id, as `cron list` shows it
        id: String,
    },
    /// Have a job run now, beside its schedule
    Run {
        /// Its id
        id: String,
    },
    /// Keep a job from running
    Pause {
        /// Its id
        id: String,
    },
    /// Let a job run again, from now on
    Resume {
        /// Its id
        id: String,
    },
    /// Remove a job
    Remove {
        /// Its id
        id: String,
    },
    /// The last runs of a job
    History {
        /// Its id
        id: String,
    },
}

/// Options of `cron add`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["every", "cron", "at"]))]
pub(crate) struct CronAddArguments {
    /// What the assistant is told when the time comes
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: String,
    /// What the job is called; otherwise the beginning of its message
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// Repeat after so many seconds
    #[arg(short, long, value_name = "SECONDS")]
    pub(crate) every: Option<i64>,
    /// Repeat by five fields: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// The time zone, as an IANA name; otherwise that of `cron.timezone`, or of this computer
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// Once, at this local time: 2026-12-24T18:00
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Send the answer to `--channel` and `--to`
    #[arg(short, long, requires = "to", requires = "channel")]
    pub(crate) deliver: bool,
    /// The chat to send to
    #[arg(long, value_name = "CHAT")]
    pub(crate) to: Option<String>,
    /// The channel to send by
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
}

/// What can be done about people who want in.
#[derive(Debug, Subcommand)]
pub(crate) enum PairingCommand {
    /// Who waits with a code, and who was approved
    List {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Let in who was given this code
    Approve {
        /// The code, in any case, with or without its dash
        code: String,
    },
    /// Take a code back without letting anybody in
    Deny {
        /// The code
        code: String,
    },
    /// Take an approval back
    Revoke {
        /// The channel, as the configuration names it
        channel: String,
        /// The person, as `pairing list` shows them; of `7|ann` either half is enough
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

/// What can be done with memory.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Search facts, history, day notes and conversations
    Search {
        /// What to look for; two characters are enough in Chinese and Japanese
        #[arg(required = true)]
        words: Vec<String>,
        /// The most places to show, of memory and of conversations each
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// What changed in memory and why, the newest first
    Log {
        #[command(flatten)]
        whose: Whose,
    },
    /// Show what a change did
    Show {
        /// Its number, as `memory log` lists it
        number: u64,
        #[command(flatten)]
        whose: Whose,
    },
    /// Bring a file back to what it was behind a change; that is a change of its own
    Restore {
        /// Its number
        number: u64,
        #[command(flatten)]
        whose: Whose,
    },
}

/// Whose memory, where people and rooms have their own; otherwise everybody's.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// One person's: the channel and the sender, such as `telegram:12345`
    #[arg(long, value_name = "ID", conflicts_with = "room")]
    pub(crate) person: Option<String>,
    /// One group's: its session, such as `telegram:-100123`
    #[arg(long, value_name = "KEY")]
    pub(crate) room: Option<String>,
}

/// What can be done with skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// All skills, and what is not well with them
    List,
    /// Print a skill
    Show {
        /// The skill, as `skills list` names it
        name: String,
    },
    /// Say what is to be mended in a skill, or in all but the built-in ones; exit code 1 if anything is
    Check {
        /// The skill, as `skills list` names it
        name: Option<String>,
    },
    /// Install a skill into the workspace, after showing what it brings along
    Install {
        /// A folder with a SKILL.md, or a .skill file; a folder of the workspace's own is agreed to as it is
        path: PathBuf,
        /// Agree to what is shown
        #[arg(long)]
        yes: bool,
    },
    /// Remove a skill from the workspace
    Remove {
        /// The skill, as `skills list` names it
        name: String,
        /// Agree to it
        #[arg(long)]
        yes: bool,
    },
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The conversation, as `sessions list` names it; a bundle knows its own
    #[arg(required_unless_present = "from")]
    pub(crate) session: Option<String>,
    /// One turn, by its number from 1 or its id; otherwise every turn
    pub(crate) turn: Option<String>,
    /// Also write what the turns need, redacted, to this file; it must not exist yet
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) bundle: Option<PathBuf>,
    /// Replay a file that --bundle wrote, instead of a conversation of this workspace
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

/// Forms of an exported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line, as sessions are stored
    Jsonl,
    /// Markdown, to be read
    Md,
}

/// What can be done with channels.
#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// How every configured channel is, as the running gateway says
    Status {
        /// Ask each platform whether it accepts the channel; exit code 1 if one is not well
        #[arg(long)]
        probe: bool,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Ask the platform who the channel is, and send a test message if a chat is named
    Test {
        /// The channel, as the configuration names it
        name: String,
        /// The chat, by its id on the platform
        #[arg(long, value_name = "CHAT", allow_hyphen_values = true)]
        to: Option<String>,
    },
    /// Ask for the channel's credentials, try them, write them down and switch the channel on
    Login {
        /// The channel: a platform such as `telegram`, or a name of your own with --kind
        name: String,
        /// The platform, where the channel is not named after it
        #[arg(long, value_name = "PLATFORM")]
        kind: Option<String>,
        /// Do not ask the platform
        #[arg(long)]
        no_probe: bool,
    },
}

/// What can be asked of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// The file in use
    Path,
    /// Everything in force, secrets hidden
    Show,
    /// Who set a key, and what else was said about it
    Explain {
        /// A key such as `agents.defaults.model`, or a section
        key: String,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn agent(arguments: &[&str]) -> AgentArguments {
        let arguments = ["nanobot", "agent"].iter().chain(arguments);
        match Cli::try_parse_from(arguments).unwrap().command {
            Some(Command::Agent(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_last_of_two_opposite_flags_counts() {
        for (arguments, markdown, logs) in [
            (&[][..], true, false),
            (&["--no-markdown", "--logs"], false, true),
            (&["--no-markdown", "--markdown"], true, false),
            (&["--markdown", "--no-markdown"], false, false),
            (&["--logs", "--no-logs"], true, false),
            (&["--no-logs", "--logs"], true, true),
        ] {
            let parsed = agent(arguments);
            assert_eq!((parsed.renders_markdown(), parsed.shows_logs()), (markdown, logs), "{arguments:?}");
        }
    }

    #[test]
    fn places_are_understood_before_and_behind_a_command() {
        for arguments in
            [["nanobot", "-c", "a.json", "-w", "b", "status"], ["nanobot", "status", "-c", "a.json", "-w", "b"]]
        {
            let parsed = Cli::try_parse_from(arguments).unwrap();
            assert_eq!(parsed.places.config, Some(PathBuf::from("a.json")));
            assert_eq!(parsed.places.workspace.as_deref(), Some("b"));
        }
    }
}
