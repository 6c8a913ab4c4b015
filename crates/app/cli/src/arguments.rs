//! Definition of the command line for clap.
//!
//! Decision: this module defines what all commands share and the list of commands; the arguments of
//! each command are next to its implementation, in `commands`. Parsing builds nothing, so that
//! `--help` and `--version` cost no more than starting a process.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::{
    AgentArguments, ApprovalsCommand, AuditArguments, ChannelsCommand, CompletionsArguments,
    ConfigCommand, CronCommand, DoctorArguments, GatewayArguments, InboxArguments, ManualArguments,
    McpCommand, MemoryCommand, ModelsCommand, OnboardArguments, PairingCommand, ProviderCommand,
    REPLAY_ABOUT, ReplayArguments, SessionsCommand, SkillsCommand, StatusArguments, ToolsCommand,
    UPDATE_ABOUT, UpdateArguments, UsageArguments,
};

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 the turn or the operation failed; 2 wrong usage or configuration;
129, 130, 143 ended by a hangup, by Ctrl-C, by a request to terminate.

Without a configured model, `nanobot agent` uses a local model server if one runs, and the built-in
demo otherwise. Files are under ~/.nanobot, or where NANOBOT_HOME says.";

/// A self-hosted personal AI assistant.
#[derive(Debug, Parser)]
#[command(name = "nanobot", disable_version_flag = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Print the version; `--version -v` prints facts of the build, too
    #[arg(short = 'v', long = "version", action = ArgAction::Count)]
    pub(crate) version: u8,
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Paths of the configuration and the workspace; every command accepts these.
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
    /// Show the configuration, the model and the state of this home
    Status(StatusArguments),
    /// Find problems of the setup and show how to fix them
    Doctor(DoctorArguments),
    /// List, show, export, fork and rewind conversations
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List, show, check, install and remove skills
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Replay recorded turns offline with this program's code and report differences
    #[command(long_about = REPLAY_ABOUT)]
    Replay(ReplayArguments),
    /// List messages that are pending, uncertain or failed; retry or drop them
    Inbox(InboxArguments),
    /// Show tokens and cost of model requests by day, session, model or job
    Usage(UsageArguments),
    /// Print the audit log, or check that it was not changed
    Audit(AuditArguments),
    /// Add, list, run, pause and remove scheduled jobs
    #[command(subcommand)]
    Cron(CronCommand),
    /// List open questions and standing permissions; revoke permissions
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Approve people who received a pairing code; list and revoke approvals
    #[command(subcommand)]
    Pairing(PairingCommand),
    /// Search memory and conversations; review and restore versions of memory
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// List the configured models; explain which provider serves one
    #[command(subcommand)]
    Models(ModelsCommand),
    /// List MCP servers and their tools, test one, log in to one, approve changed tools
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Log in to a provider without keys, log out, and show keys and logins
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// List, check and run the tools in files of the workspace
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Show the state of channels, test one, or set its credentials
    #[command(subcommand)]
    Channels(ChannelsCommand),
    /// Show, explain and change the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check for a newer release
    #[command(long_about = UPDATE_ABOUT)]
    Update(UpdateArguments),
    /// Print the completion script for a shell
    Completions(CompletionsArguments),
    /// Print the manual page
    #[command(hide = true)]
    Man(ManualArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn path_options_parse_before_and_after_the_command() {
        for arguments in [
            ["nanobot", "-c", "a.json", "-w", "b", "status"],
            ["nanobot", "status", "-c", "a.json", "-w", "b"],
        ] {
            let parsed = Cli::try_parse_from(arguments).unwrap();
            assert_eq!(parsed.places.config, Some(PathBuf::from("a.json")));
            assert_eq!(parsed.places.workspace.as_deref(), Some("b"));
        }
    }
}
