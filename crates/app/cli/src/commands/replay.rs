//! `nanobot replay`: replays recorded turns offline with this program's code, and shows where they
//! diverge from the record. Reads only; works next to a running gateway.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use nanobot_runtime::types::SessionKey;
use nanobot_runtime::{
    Bundle, Redactor, RuntimeBuilder, TurnChoice, TurnReplay, replay_options, replay_session,
    session_store,
};

use super::block_on;
use super::sessions::{find, session_key_of, write_new};
use crate::failure::{CommandFailure, FAILED, USAGE, chain};
use crate::output;

/// Long help text of the command.
pub(crate) const REPLAY_ABOUT: &str = "\
Replay recorded turns offline with this program's code and report differences.

The model returns the recorded answers and the tools return the recorded results; nothing is sent,
run or changed. A turn is `identical` if all its steps would be recorded again unchanged. Otherwise
the first different step is shown, and the exit code is 1.

With --bundle, the records, the tools and the version of this program are also written to a file for
another machine. Secrets are redacted and home directories become ~, but the file still contains the
conversation: read it before you pass it on.";

/// Options of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// Conversation, as listed by `sessions list`; a bundle contains its own
    #[arg(required_unless_present = "from")]
    session: Option<String>,
    /// One turn, by its number from 1 or its id [default: all turns]
    turn: Option<String>,
    /// Also write the redacted records of the turns to this new file
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    bundle: Option<PathBuf>,
    /// Replay a file written by --bundle, instead of a conversation of this workspace
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Replays turns and prints the result; the exit code is 1 if one diverges.
///
/// # Errors
/// Returns an error if there is no such conversation or turn, or a bundle cannot be read or
/// written.
pub(crate) fn replay(
    program: &RuntimeBuilder,
    arguments: &ReplayArguments,
) -> Result<ExitCode, CommandFailure> {
    let replays = match &arguments.from {
        Some(file) => replay_bundle(file, arguments)?,
        None => replay_stored(program, arguments)?,
    };
    if replays.is_empty() {
        return Err(CommandFailure::new(
            "there is no such turn in the record",
            "Leave TURN out to replay every turn; they are numbered from 1.",
        ));
    }
    for replay in &replays {
        output::line(&output::sanitize(&replay.to_string()))?;
    }
    let diverges = replays.iter().any(|replay| replay.divergence.is_some());
    Ok(if diverges {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn replay_stored(
    program: &RuntimeBuilder,
    arguments: &ReplayArguments,
) -> Result<Vec<TurnReplay>, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let store = session_store(config)?;
    let name = arguments.session.as_deref().unwrap_or_default();
    let (info, view) = block_on(find(&store, name))?;
    let turns = arguments
        .turn
        .as_deref()
        .map_or(TurnChoice::All, parse_turn);
    let (options, specs) = replay_options(&runtime, info.key, turns)?;
    let Some(file) = &arguments.bundle else {
        return block_on(async { Ok(replay_session(&view, &options, &specs).await) });
    };
    // Replay the content of the file, so that the output is the same here and on another machine.
    let redactor = Redactor::new(config.environment().user_home())
        .with_secrets(nanobot_runtime::secrets(config));
    let Some(bundle) = Bundle::new(&view, &options, &specs, &redactor) else {
        return Ok(Vec::new());
    };
    let text = bundle.to_json().map_err(std::io::Error::from)?;
    write_new(file, &(text + "\n"))?;
    output::note(&format!(
        "Wrote {}. Configured secrets and what looks like a secret are hidden in it; read it before you pass it on.",
        file.display()
    ));
    block_on(async { Ok(bundle.replay().await) })
}

fn replay_bundle(
    file: &Path,
    arguments: &ReplayArguments,
) -> Result<Vec<TurnReplay>, CommandFailure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandFailure::new(
            format!("cannot read {}: {error}", file.display()),
            "Name a file that `nanobot replay --bundle` wrote.",
        )
    })?;
    let mut bundle = Bundle::from_json(&text).map_err(|error| {
        CommandFailure::new(
            format!("{}: {}", file.display(), chain(&error)),
            "Name a file that `nanobot replay --bundle` of this version wrote.",
        )
    })?;
    if let Some(turn) = turn_in_bundle(&bundle.options.session, arguments)? {
        bundle.options.turns = parse_turn(turn);
    }
    block_on(async { Ok(bundle.replay().await) })
}

/// Returns the turn to replay from a bundle. The bundle knows its session, so a single argument may
/// name either.
fn turn_in_bundle<'a>(
    session: &SessionKey,
    arguments: &'a ReplayArguments,
) -> Result<Option<&'a str>, CommandFailure> {
    let Some(first) = arguments.session.as_deref() else {
        return Ok(None);
    };
    if *session == SessionKey::from(first) || *session == session_key_of(first) {
        return Ok(arguments.turn.as_deref());
    }
    match &arguments.turn {
        None => Ok(Some(first)),
        Some(_) => Err(CommandFailure::Said {
            what: format!("the bundle is of `{session}`, not of `{first}`"),
            remedy: Some(
                "Leave the conversation out: nanobot replay --from FILE [TURN]".to_owned(),
            ),
            code: USAGE,
        }),
    }
}

fn parse_turn(text: &str) -> TurnChoice {
    text.parse()
        .map_or_else(|_| TurnChoice::Id(text.into()), TurnChoice::Number)
}
