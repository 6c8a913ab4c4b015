//! `nanobot channels`: shows the state of channels, tests one, or logs one in.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use nanobot_runtime::bus::{EntryState, LedgerEntry};
use nanobot_runtime::{
    ChannelLogin, ChannelTest, Credential, Runtime, RuntimeBuilder, SendRecovery, TestOutcome,
    channels_status, install_tls,
};

use super::{block_on, prepare_write, report_schema};
use crate::failure::{CommandFailure, FAILED};
use crate::output::{self, sanitize};
use crate::sign_in::TerminalPrompt;
use crate::signals::Signals;
use crate::terminal::fitted_to_terminal;
use crate::{ask, serve};

/// Maximum time to wait for an action that the user takes elsewhere.
const DISCOVERY_TIMEOUT: Duration = Duration::from_mins(15);

/// The remedy for a test message that was refused.
const NO_SUCH_CHAT: &str = "Is it the id of a chat that the assistant can write to, and may its \
                            app send messages? `nanobot sessions list` names chats as \
                            CHANNEL:CHAT; give CHAT alone.";

/// The remedy for a test message that could not be sent without a gateway.
const START_GATEWAY: &str = "Start `nanobot gateway` and try again: some platforms are reached \
                             only by a gateway that runs.";

/// The answer that removes an optional credential.
const REMOVE: &str = "-";

/// Subcommands of `nanobot channels`.
#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// Show the state of every configured channel
    #[command(visible_alias = "list")]
    Status {
        /// Check each channel with its platform; exit code 1 if one has a problem
        #[arg(long)]
        probe: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Check the channel's account with the platform, and optionally send a test message
    Test {
        /// Channel, by its name in the configuration
        name: String,
        /// Chat, by its id on the platform
        #[arg(long, value_name = "CHAT", allow_hyphen_values = true)]
        to: Option<String>,
    },
    /// Ask for the channel's credentials, check and store them, and enable the channel
    Login {
        /// Channel: a platform such as `telegram`, or your own name with --kind
        name: String,
        /// Platform of a channel that is not named after it
        #[arg(long, value_name = "PLATFORM")]
        kind: Option<String>,
        /// Do not check the credentials with the platform
        #[arg(long)]
        no_probe: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such channel, its platform does not accept it, or nothing can be
/// written.
pub(crate) fn channels(
    program: &RuntimeBuilder,
    command: ChannelsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    serve::warn_of_findings(config);
    install_tls();
    match command {
        ChannelsCommand::Status { probe, json } => status(&runtime, probe, json),
        ChannelsCommand::Test { name, to } => test(&runtime, &name, to.as_deref()),
        ChannelsCommand::Login {
            name,
            kind,
            no_probe,
        } => login(&runtime, &name, kind.as_deref(), !no_probe),
    }
}

fn status(runtime: &Runtime, probe: bool, json: bool) -> Result<ExitCode, CommandFailure> {
    let reports = block_on(async { Ok(channels_status(runtime, probe).await?) })?;
    if json {
        output::line(&crate::commands::json(&reports).map_err(std::io::Error::from)?)?;
    } else if reports.is_empty() {
        output::line("No channel is configured: `nanobot channels login NAME` sets one up.")?;
    } else {
        let lines: Vec<String> = reports
            .iter()
            .map(|report| sanitize(&report.to_string()))
            .collect();
        output::line(&lines.join("\n"))?;
    }
    let is_healthy = !probe
        || reports
            .iter()
            .filter(|report| report.enabled)
            .all(nanobot_runtime::ChannelReport::is_healthy);
    Ok(if is_healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn test(runtime: &Runtime, name: &str, to: Option<&str>) -> Result<ExitCode, CommandFailure> {
    block_on(async {
        let test = ChannelTest::new(runtime, name).await?;
        match test.probe().await {
            Ok(Some(account)) => {
                output::line(&format!("The platform answers: {}", sanitize(&account)))?;
            }
            Ok(None) => output::line("There is nothing to ask on this platform.")?,
            Err(error) => {
                return Err(CommandFailure::new(
                    format!("{name} cannot be used: {error}"),
                    probe_remedy(name, error.recovery()),
                ));
            }
        }
        let Some(chat) = to else {
            output::line(
                "Add --to CHAT to send a message; `nanobot sessions list` names chats as CHANNEL:CHAT.",
            )?;
            return Ok(ExitCode::SUCCESS);
        };
        let unsent = |why: &str, remedy: &str| {
            CommandFailure::new(
                format!("the message to {chat} was not sent: {}", sanitize(why)),
                remedy,
            )
        };
        let refused = |why: &str| unsent(why, NO_SUCH_CHAT);
        match test.send(chat).await? {
            TestOutcome::Sent => output::line(&format!("Sent to {chat}."))?,
            TestOutcome::Refused(why) => return Err(refused(&why)),
            TestOutcome::Unavailable(why) => return Err(unsent(&why, START_GATEWAY)),
            TestOutcome::ByGateway(entry) => {
                report_test(&entry, chat).map_err(|why| refused(&why))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Reports the state of a test message in the gateway's ledger. An error is the reason why it was
/// not sent.
fn report_test(entry: &LedgerEntry, chat: &str) -> Result<(), String> {
    let why = entry
        .why
        .clone()
        .unwrap_or_else(|| format!("it is {}", entry.state));
    match entry.state {
        EntryState::Sent => output::line(&format!("Sent to {chat} by the gateway."))
            .map_err(|error| error.to_string()),
        state if state.is_open() => Err(format!(
            "it is still being tried; `nanobot inbox show {}` says what becomes of it",
            entry.id
        )),
        _ => Err(why),
    }
}

/// Returns the remedy for a platform that does not answer as it should.
fn probe_remedy(name: &str, recovery: SendRecovery) -> String {
    let first = match recovery {
        SendRecovery::GiveUp => {
            format!("`nanobot channels login {name}` asks for the credentials anew")
        }
        // The credentials were not judged.
        SendRecovery::Retry { .. } | SendRecovery::Uncertain => {
            "Check the network and the proxy, and try again later".to_owned()
        }
    };
    format!("{first}; `nanobot config explain channels.{name}` shows what is set.")
}

fn login(
    runtime: &Runtime,
    name: &str,
    kind: Option<&str>,
    probe: bool,
) -> Result<ExitCode, CommandFailure> {
    let login = ChannelLogin::new(runtime, name, kind)?;
    block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            outcome = set_up(runtime, name, login, probe) => outcome.map(|()| ExitCode::SUCCESS),
            code = signals.next() => Ok(ExitCode::from(code)),
        }
    })
}

/// Asks for the credentials, checks them and saves them. If the future is dropped, nothing is
/// written.
async fn set_up(
    runtime: &Runtime,
    name: &str,
    mut login: ChannelLogin,
    probe: bool,
) -> Result<(), CommandFailure> {
    ask_and_check(name, &mut login, probe).await?;
    discover_key(name, &mut login, probe).await?;
    prepare_write(runtime).await?;
    let (file, backup) = login.save(runtime)?;
    output::line(&format!(
        "Written to {}: channel {name} is on.",
        file.display()
    ))?;
    if let Some(backup) = backup {
        output::line(&format!("The file as it was: {}", backup.display()))?;
    }
    report_schema(
        runtime
            .reload()
            .and_then(|changed| changed.config().refresh_schema()),
    )?;
    output::line(
        "A gateway that runs takes it up by itself; otherwise start one with `nanobot gateway`.",
    )?;
    Ok(())
}

/// Asks for the credentials of a channel and, with `probe`, checks them. Writes nothing.
///
/// # Errors
/// Returns an error if a credential is missing, or the platform does not accept them.
pub(super) async fn ask_and_check(
    name: &str,
    login: &mut ChannelLogin,
    probe: bool,
) -> Result<(), CommandFailure> {
    ask_for_credentials(name, login).await?;
    if !probe {
        return Ok(());
    }
    let account = match login.sign_in(&TerminalPrompt).await {
        Ok(None) if !login.credentials().is_empty() => login.probe().await,
        signed_in => signed_in,
    };
    match account {
        Ok(Some(account)) => {
            output::line(&format!("The platform answers: {}", sanitize(&account)))?;
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(why) => Err(CommandFailure::new(
            format!("{name} cannot be used like this: {}", sanitize(&why)),
            "Nothing was written. Try again, or add --no-probe to write it without asking the platform.",
        )),
    }
}

/// Learns a key that only the platform knows, from an action of the user. Without the key, the
/// channel reports that it is missing.
async fn discover_key(
    name: &str,
    login: &mut ChannelLogin,
    probe: bool,
) -> Result<(), CommandFailure> {
    let Some(pending_key) = login.pending_key() else {
        return Ok(());
    };
    let missing = || {
        let key = pending_key.key();
        output::note(&format!(
            "channels.{name}.{key} is not set yet: log in again to learn it, or write it by hand."
        ));
    };
    if !probe || !ask::can_ask() {
        missing();
        return Ok(());
    }
    output::note(pending_key.text());
    tokio::select! {
        discovered = pending_key.discover() => match discovered {
            Ok(value) => {
                output::line(&format!("\nLearned: {} is {}", pending_key.key(), sanitize(&value)))?;
                login.set_discovered(&pending_key, &value);
            }
            Err(why) => {
                output::note(&format!("\n{}", sanitize(&why)));
                missing();
            }
        },
        skipped = ask::line("Waiting for it; Enter goes on without.\n") => {
            skipped?;
            missing();
        }
        () = tokio::time::sleep(DISCOVERY_TIMEOUT) => missing(),
    }
    Ok(())
}

/// Asks for each credential that is not replaced by another one; Enter keeps the configured one.
async fn ask_for_credentials(name: &str, login: &mut ChannelLogin) -> Result<(), CommandFailure> {
    if login.credentials().is_empty() && !login.has_sign_in() {
        output::note("This platform asks for no credentials.");
    }
    for credential in login.credentials() {
        if login.is_replaced(credential) {
            continue;
        }
        let has_one = login.has_credential(credential);
        let question = fitted_to_terminal(&question_for(credential, has_one));
        let answer = if credential.is_secret {
            ask::secret(&question).await?
        } else {
            ask::line(&question).await?
        };
        match answer.filter(|answer| !answer.is_empty()) {
            Some(answer) if answer == REMOVE && has_one && credential.when_empty.is_some() => {
                login.clear_credential(credential);
            }
            Some(answer) => login.set_credential(credential, &answer),
            None if has_one || credential.when_empty.is_some() => {}
            None => return Err(missing_credential(name, credential)),
        }
    }
    Ok(())
}

/// Returns the question for a credential.
fn question_for(credential: &Credential, has_one: bool) -> String {
    let advice = match (has_one, credential.when_empty) {
        (false, None) => String::new(),
        (true, None) => " (Enter keeps what is set)".to_owned(),
        (false, Some(when_empty)) => format!(" (optional; leave empty {when_empty})"),
        (true, Some(_)) => format!(" (Enter keeps what is set, {REMOVE} removes it)"),
    };
    format!("{}: {}{advice}\n> ", credential.key, credential.about)
}

fn missing_credential(name: &str, credential: &Credential) -> CommandFailure {
    let remedy = if ask::can_ask() {
        "Run the command again when you have it."
    } else {
        "Give a line of input for each of them, in the order in which they are asked for; an empty \
         line keeps a value, or leaves out an optional one."
    };
    let key = credential.key;
    CommandFailure::usage(
        format!("channels.{name}.{key} is needed, and nothing was given"),
        remedy,
    )
}
