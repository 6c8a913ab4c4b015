//! `nanobot mcp`: lists MCP servers, tests one, approves changed and new tools, and manages logins.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_runtime::{McpHome, McpReport, McpTest, McpToolReport, RuntimeBuilder};
use serde_json::{Value, json};

use super::{block_on, prepare_write};
use crate::ask;
use crate::failure::CommandFailure;
use crate::output::{self, sanitize};

/// Number of characters of a description in a list.
const MAX_DESCRIPTION: usize = 100;

/// Subcommands of `nanobot mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the configured servers with their known tools; starts none
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Start a server, list its tools, and call one if it is named
    Test {
        /// Name of the server in the configuration
        name: String,
        /// Tool to call, by its own or its full name
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Arguments of the call, a JSON object
        #[arg(long, value_name = "JSON", default_value = "{}", requires = "tool")]
        arguments: String,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Log in to a remote server in a browser, and list its tools
    Login {
        /// Name of the server in the configuration
        name: String,
    },
    /// Forget the login at a remote server
    Logout {
        /// Name of the server in the configuration
        name: String,
    },
    /// Approve the changed and new tools of a server; a running gateway uses them after its next start
    Approve {
        /// Name of the server in the configuration
        name: String,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such server or tool, or the server does not start.
pub(crate) fn mcp(
    program: &RuntimeBuilder,
    command: McpCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let home = McpHome::of(&runtime)?;
    match command {
        McpCommand::List { json } => {
            let servers = home.list();
            let text = match json {
                true => as_json(&servers)?,
                false if servers.is_empty() => {
                    "No MCP server is configured (tools.mcpServers).\n".to_owned()
                }
                false => servers.iter().map(format_server).collect(),
            };
            print(&text, json)?;
        }
        McpCommand::Test {
            name,
            tool,
            arguments,
            json,
        } => {
            let arguments: Value = serde_json::from_str(&arguments).map_err(|error| {
                let hint = "They have to be a JSON object, such as '{\"path\": \".\"}'.";
                CommandFailure::new(format!("the arguments are unusable: {error}"), hint)
            })?;
            block_on(prepare_write(&runtime))?;
            let call = tool.as_deref().map(|tool| (tool, &arguments));
            let test = block_on(async { Ok(home.test(&name, call).await?) })?;
            let text = match json {
                true => as_json(&test)?,
                false => format_test(&test),
            };
            print(&text, json)?;
            if test.call.is_some_and(|(_, succeeded)| !succeeded) {
                return Ok(ExitCode::FAILURE);
            }
        }
        McpCommand::Login { name } => {
            block_on(prepare_write(&runtime))?;
            block_on(login(&home, &name))?;
        }
        McpCommand::Logout { name } => {
            let removed = block_on(async { Ok(home.logout(&name).await?) })?;
            output::line(&match removed {
                true => format!("Logged out of {}.", sanitize(&name)),
                false => format!("There is no login at {}.", sanitize(&name)),
            })?;
        }
        McpCommand::Approve { name, json } => {
            block_on(prepare_write(&runtime))?;
            let approved = home.approve(&name)?;
            let text = match json {
                true => as_json(&json!({ "approved": approved }))?,
                false if approved.is_empty() => {
                    format!("{} has no changed or new tools.\n", sanitize(&name))
                }
                false => format!("Approved: {}\n", sanitize(&approved.join(", "))),
            };
            print(&text, json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Logs in to a server and shows its tools.
async fn login(home: &McpHome, name: &str) -> Result<(), CommandFailure> {
    let show = |address: &str| -> Result<(), CommandFailure> {
        output::line(&format!(
            "Open this address in a browser:\n\n{address}\n\n\
             If the browser is on another machine, its last page cannot be loaded. Paste the address of \
             that page here."
        ))?;
        Ok(())
    };
    // At the end of the input, only the browser's answer is waited for.
    let pasted = async {
        loop {
            let line = ask::line("").await.ok()??;
            if !line.is_empty() {
                return Some(line);
            }
        }
    };
    home.login(name, show, pasted).await?;
    output::line(&format!("Logged in to {}.", sanitize(name)))?;
    let test = home.test(name, None).await?;
    output::write(&format_test(&test))?;
    Ok(())
}

fn print(text: &str, is_json: bool) -> std::io::Result<()> {
    match is_json {
        true => output::write_verbatim(text),
        false => output::write(text),
    }
}

fn as_json(value: &impl serde::Serialize) -> Result<String, CommandFailure> {
    Ok(crate::commands::json(value).map_err(std::io::Error::from)? + "\n")
}

fn format_server(server: &McpReport) -> String {
    let mut text = format!("{}  {}", sanitize(&server.name), server.state);
    if let Some(failure) = &server.failure {
        text.push_str(&format!(": {}", sanitize(failure)));
    }
    text.push('\n');
    text.extend(server.tools.iter().map(format_tool));
    text
}

fn format_tool(tool: &McpToolReport) -> String {
    let about = sanitize(&tool.description).replace(['\n', '\t'], " ");
    let about: String = about.chars().take(MAX_DESCRIPTION).collect();
    let note = match (tool.is_new, tool.is_withheld, tool.is_deferred) {
        (true, ..) => " (new, withheld)",
        (false, true, _) => " (changed, withheld)",
        (false, false, true) => " (found by tool_search)",
        (false, false, false) => "",
    };
    format!("  {}{note}  {about}\n", sanitize(&tool.name))
}

fn format_test(test: &McpTest) -> String {
    let mut text = format_server(&test.server);
    if let Some((output, succeeded)) = &test.call {
        let heading = match succeeded {
            true => "Result",
            false => "Failed",
        };
        text.push_str(&format!("{heading}:\n{}\n", sanitize(output)));
    }
    text
}
