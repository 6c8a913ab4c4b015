//! A run: rounds side by side, each checked when it is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio_util::task::TaskTracker;

use crate::SuiteError;
use crate::check::check;
use crate::disk::remove_folder;
use crate::evidence::Evidence;
use crate::progress::Progress;
use crate::report::Report;
use crate::round::{RoundPlan, run_round};
use crate::stage::Stage;
use crate::system::System;

/// Kills in one home. More of them make sessions longer, fewer make runs spread better.
const KILLS_PER_ROUND: u32 = 25;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often to kill, over all rounds.
    pub kills: u32,
    /// What decides the rounds.
    pub seed: u64,
    /// Rounds at the same time.
    pub jobs: usize,
    /// A file to note finished rounds in and to go on from.
    pub resume: Option<PathBuf>,
    /// Where the folders of rounds are made.
    pub folder: PathBuf,
    /// Whether the folders of clean rounds stay there too.
    pub keep: bool,
}

/// Runs rounds until there were enough kills. `tell` hears how it stands after every round.
///
/// # Errors
/// What kept a round from being run. Broken promises are in the report.
pub async fn run(
    system: Arc<dyn System>,
    options: &Options,
    mut tell: impl FnMut(&Report),
) -> Result<Report, SuiteError> {
    let mut progress = Progress::open(options.resume.as_deref(), options.seed)?;
    let stage = Arc::new(Stage::open().await?);
    let tasks = TaskTracker::new();
    let rounds: Vec<RoundPlan> = plans(options)
        .filter(|plan| !progress.is_done(plan.number))
        .collect();
    let mut waiting = rounds.into_iter();
    let mut running = FuturesUnordered::new();
    let begin = |plan: RoundPlan| {
        let (stage, system, round) = (Arc::clone(&stage), Arc::clone(&system), plan.number);
        let keep = options.keep;
        let task = tasks.spawn(async move { judge(stage, system, plan, keep).await });
        async move {
            (
                round,
                task.await.unwrap_or(Err(SuiteError::Panicked { round })),
            )
        }
    };
    running.extend(waiting.by_ref().take(options.jobs.max(1)).map(begin));
    while let Some((round, report)) = running.next().await {
        progress.finish(round, report?)?;
        tell(&progress.report());
        running.extend(waiting.next().map(begin));
    }
    Ok(progress.report())
}

/// The rounds of a run; the same for the same seed, and the first ones do not depend on how many
/// there are.
fn plans(options: &Options) -> impl Iterator<Item = RoundPlan> + '_ {
    let rounds = options.kills.div_ceil(KILLS_PER_ROUND);
    (0..rounds).map(move |number| {
        let kills = options
            .kills
            .saturating_sub(number * KILLS_PER_ROUND)
            .min(KILLS_PER_ROUND);
        let folder = options
            .folder
            .join(format!("seed-{}-round-{number}", options.seed));
        RoundPlan {
            seed: options.seed,
            number: number.into(),
            kills,
            folder,
        }
    })
}

async fn judge(
    stage: Arc<Stage>,
    system: Arc<dyn System>,
    plan: RoundPlan,
    keep: bool,
) -> Result<Report, SuiteError> {
    prepare(&plan.folder)?;
    run_round(stage, Arc::clone(&system), &plan).await?;
    let evidence = Evidence::read(&*system, &plan.folder).await?;
    let report = check(&*system, &evidence);
    if report.is_clean() && !keep {
        remove_folder(&plan.folder).map_err(SuiteError::file("remove", &plan.folder))?;
    }
    Ok(report)
}

fn prepare(folder: &Path) -> Result<(), SuiteError> {
    remove_folder(folder).map_err(SuiteError::file("remove", folder))?;
    fs::create_dir_all(folder).map_err(SuiteError::file("create", folder))
}
