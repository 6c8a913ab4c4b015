//! Continues copies of a home after a kill.
//!
//! Decision: copies run one after the other at the path of the original, because the path of the
//! workspace is part of the prompt. Each has a world of its own, so that the original's is
//! unaffected. Afterwards the original is restored.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::SuiteError;
use crate::disk::{copy_folder, remove_folder};
use crate::history::Continuation;
use crate::process::{Process, Start};
use crate::rest::{REST_LIMIT, is_at_rest, wait_until};
use crate::stage::Stage;
use crate::system::System;
use crate::world::World;

const COPIES: usize = 2;

/// Runs copies of the home until all their work is finished. No process may run on the home.
/// `chats` are those in which users have written.
pub(crate) async fn fork(
    stage: &Stage,
    system: &Arc<dyn System>,
    home: &Path,
    chats: &[i64],
) -> Result<Vec<Continuation>, SuiteError> {
    let kept = home.with_extension("kept");
    fs::rename(home, &kept).map_err(SuiteError::file("move", home))?;
    let mut copies = Vec::new();
    for _ in 0..COPIES {
        copy_folder(&kept, home).map_err(SuiteError::file("copy", &kept))?;
        copies.push(continue_fork(stage, system, home, chats).await?);
        remove_folder(home).map_err(SuiteError::file("remove", home))?;
    }
    fs::rename(&kept, home).map_err(SuiteError::file("move", &kept))?;
    Ok(copies)
}

async fn continue_fork(
    stage: &Stage,
    system: &Arc<dyn System>,
    home: &Path,
    chats: &[i64],
) -> Result<Continuation, SuiteError> {
    let world = World::start(stage, Arc::clone(system), None).await?;
    world.open_chats(chats.iter().copied()).await?;
    system.prepare(home, &world.endpoints())?;
    let mut process = Process::spawn(&**system, home, home.with_extension("copy.log"))?;
    let mut stuck = match process.wait_ready(&**system).await {
        Start::Ready => None,
        Start::Refused { said, .. } => Some(format!("it does not start: {said}")),
    };
    if stuck.is_none() && !wait_until(REST_LIMIT, || is_at_rest(&system.ledger(home), &[])).await {
        stuck = Some(format!("{:?}", system.ledger(home)));
    }
    process.kill().await;
    let saved = home.with_extension("copy");
    system.save(home, &saved)?;
    let sessions = system.load(&saved).await.sessions;
    remove_folder(&saved).map_err(SuiteError::file("remove", &saved))?;
    Ok(Continuation {
        asked: world.asked(),
        sent: world.sent(),
        sessions: sessions
            .into_iter()
            .map(|(name, log)| (name, log.steps))
            .collect(),
        effects: system.effects(home),
        stuck,
    })
}
