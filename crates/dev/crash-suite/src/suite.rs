//! A run: executes rounds in parallel and checks each when it is over.

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
use crate::progress::SuiteProgress;
use crate::report::SuiteReport;
use crate::round::{RoundPlan, run_round};
use crate::stage::Stage;
use crate::system::System;

/// Kills per home. More kills make sessions longer; fewer make rounds more diverse.
const KILLS_PER_ROUND: u32 = 25;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of kills over all rounds.
    pub kills: u32,
    /// Seed of the rounds.
    pub seed: u64,
    /// Number of rounds in parallel.
    pub jobs: usize,
    /// A file in which finished rounds are recorded and from which the run resumes.
    pub resume: Option<PathBuf>,
    /// Parent of the rounds' folders.
    pub folder: PathBuf,
    /// `true` to keep the folders of successful rounds, too.
    pub keep: bool,
}

/// Runs rounds until the number of kills is reached, and calls `on_report` with the report so far
/// after every round.
///
/// # Errors
/// Returns the error that prevented a round from running. Violated properties are in the report.
pub async fn run(
    system: Arc<dyn System>,
    options: &Options,
    mut on_report: impl FnMut(&SuiteReport),
) -> Result<SuiteReport, SuiteError> {
    let mut progress = SuiteProgress::open(options.resume.as_deref(), options.seed)?;
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
        on_report(&progress.report());
        running.extend(waiting.next().map(begin));
    }
    Ok(progress.report())
}

/// Returns the rounds of a run. They depend only on the seed, and the first ones do not depend on
/// the number of rounds.
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
) -> Result<SuiteReport, SuiteError> {
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
