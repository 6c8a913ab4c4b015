//! `nanobot provider`: logins at providers without keys, and the state of all providers.

use std::process::ExitCode;

use clap::Subcommand;
use nanobot_runtime::{ProviderLogins, RuntimeBuilder, install_tls};

use super::{block_on, json, prepare_write};
use crate::ask;
use crate::failure::CommandFailure;
use crate::output::{self, sanitize};

/// Subcommands of `nanobot provider`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Log in to openai-codex, github-copilot or xai-grok in a browser
    Login {
        /// Name of the provider
        name: String,
    },
    /// Forget the login at a provider
    Logout {
        /// Name of the provider
        name: String,
    },
    /// List the providers with a key, an address or a login; contacts none
    Status {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the provider has no login, or its login fails.
pub(crate) fn provider(
    program: &RuntimeBuilder,
    command: ProviderCommand,
) -> Result<ExitCode, CommandFailure> {
    install_tls();
    let runtime = program.build()?;
    let logins = ProviderLogins::of(&runtime);
    match command {
        ProviderCommand::Login { name } => {
            block_on(async {
                prepare_write(&runtime).await?;
                login(&logins, &name).await
            })?;
        }
        ProviderCommand::Logout { name } => {
            let removed = block_on(async { Ok(logins.log_out(&name).await?) })?;
            output::line(&match removed {
                true => format!("Logged out of {}.", sanitize(&name)),
                false => format!("There is no login at {}.", sanitize(&name)),
            })?;
        }
        ProviderCommand::Status { json: true } => {
            let text = json(&logins.status()?).map_err(std::io::Error::from)?;
            output::write_verbatim(&(text + "\n"))?;
        }
        ProviderCommand::Status { json: false } => {
            for access in logins.status()? {
                let text = format!("{}  {}: {}", access.name, access.label, access.state);
                output::line(&sanitize(&text))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn login(logins: &ProviderLogins<'_>, name: &str) -> Result<(), CommandFailure> {
    let login = logins.begin(name).await?;
    let label = login.label();
    let address = sanitize(login.address());
    output::line(&match login.user_code() {
        Some(code) => format!(
            "Open this address in a browser:\n\n{address}\n\nand enter the code {}\n\n\
             Waiting for it; Ctrl-C ends the login.",
            sanitize(code)
        ),
        None => {
            let reason = match login.must_be_pasted() {
                true => "The port of the browser's answer is in use, so",
                false => "If the browser is on another machine,",
            };
            format!(
                "Open this address in a browser:\n\n{address}\n\n\
                 {reason} its last page cannot be loaded. Paste the address of that page, or the code \
                 in it, here."
            )
        }
    })?;
    let is_pasted = login.user_code().is_none();
    // At the end of the input, only the browser's answer is waited for.
    let pasted = async {
        if !is_pasted {
            return None;
        }
        loop {
            let line = ask::line("").await.ok()??;
            if !line.is_empty() {
                return Some(line);
            }
        }
    };
    login.finish(pasted).await?;
    output::line(&format!("Logged in to {label}."))?;
    Ok(())
}
