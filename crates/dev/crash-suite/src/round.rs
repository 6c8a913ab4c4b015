//! One round: a home, a seed, some kills.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::SuiteError;
use crate::disk::remove_folder;
use crate::evidence::HISTORY;
use crate::fork::fork;
use crate::history::{History, HistoryEvent};
use crate::process::{Process, Start};
use crate::random::Random;
use crate::rest::{REST_LIMIT, is_at_rest, is_open, is_settled, wait_until};
use crate::script::{PLAN_COUNT, marker, order};
use crate::stage::Stage;
use crate::system::{StateRow, System};
use crate::world::World;

/// The chats of a round.
const CHATS: std::ops::Range<i64> = 101..107;
/// Number of turns measured before the first kill.
const MEASURED: u32 = 3;
/// Number of processes that race for a home.
const RACERS: usize = 3;
/// One in this many kills comes during the start of the process.
const IN_START: u64 = 5;
/// One in this many lives gets no time to finish the work of earlier ones.
const IN_RECOVERY: u64 = 3;
/// One in this many starts is a race.
const RACE: u64 = 6;
/// One in this many messages is immediately followed by another one.
const PAIR: u64 = 5;
/// One in this many kills is followed by a fork, if there is unfinished work.
const FORK: u64 = 10;

/// Parameters of a round.
#[derive(Clone, Debug)]
pub(crate) struct RoundPlan {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// Its number.
    pub(crate) number: u64,
    /// Number of kills.
    pub(crate) kills: u32,
    /// An empty folder for the home, the history and the checkpoints.
    pub(crate) folder: PathBuf,
}

/// Runs a round and leaves its evidence in its folder.
pub(crate) async fn run_round(
    stage: Arc<Stage>,
    system: Arc<dyn System>,
    plan: &RoundPlan,
) -> Result<(), SuiteError> {
    let mut round = Round::begin(stage, system, plan).await?;
    round.measure().await?;
    for _ in 0..plan.kills {
        round.live_until_killed().await?;
    }
    round.run_until_idle().await?;
    round.history.finish(&plan.folder.join(HISTORY))
}

struct Round {
    stage: Arc<Stage>,
    system: Arc<dyn System>,
    folder: PathBuf,
    home: PathBuf,
    history: Arc<History>,
    world: World,
    random: Random,
    life: u32,
    span: Duration,
    start_span: Duration,
    pushed: u32,
    last_update: i64,
    /// Markers that are not known to be settled, and their chats.
    open: BTreeMap<String, i64>,
}

impl Round {
    async fn begin(
        stage: Arc<Stage>,
        system: Arc<dyn System>,
        plan: &RoundPlan,
    ) -> Result<Self, SuiteError> {
        let home = plan.folder.join("home");
        fs::create_dir_all(&home).map_err(SuiteError::file("create", &home))?;
        let history = Arc::new(History::create(&plan.folder.join(HISTORY))?);
        history.add(|_| HistoryEvent::Round {
            seed: plan.seed,
            round: plan.number,
        });
        let world = World::start(&stage, Arc::clone(&system), Some(Arc::clone(&history))).await?;
        world.open_chats(CHATS).await?;
        system.prepare(&home, &world.endpoints())?;
        Ok(Self {
            stage,
            system,
            folder: plan.folder.clone(),
            home,
            history,
            world,
            random: Random::of_round(plan.seed, plan.number),
            life: 0,
            span: Duration::ZERO,
            start_span: Duration::ZERO,
            pushed: 0,
            last_update: 0,
            open: BTreeMap::new(),
        })
    }

    /// Runs the first life, which measures how long a start and a turn take.
    async fn measure(&mut self) -> Result<(), SuiteError> {
        let begun = Instant::now();
        let mut process = self.start(1).await?.ok_or_else(|| SuiteError::Unfit {
            what: self.stderr_tail(),
        })?;
        self.start_span = begun.elapsed();
        for (plan, chat) in (0..u64::from(MEASURED)).zip(CHATS) {
            let begun = Instant::now();
            self.push(chat, plan);
            if !self.wait_for_rest().await {
                return Err(SuiteError::Unfit {
                    what: format!("turn not finished; {}", self.stderr_tail()),
                });
            }
            self.span = self.span.max(begun.elapsed());
        }
        // A kill just after the end of a turn is as valuable as one within it.
        self.span += self.span / 5;
        let micros = u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX);
        self.history.add(|_| HistoryEvent::Span { micros });
        self.kill(&mut process, Instant::now()).await
    }

    /// Starts the program, sends it messages, and kills it.
    async fn live_until_killed(&mut self) -> Result<(), SuiteError> {
        let begun = Instant::now();
        if self.random.one_in(IN_START) {
            self.push_to_a_chat();
            let mut process = self.spawn(0)?;
            self.history.add(|life| HistoryEvent::Started {
                life,
                racers: 1,
                owners: Vec::new(),
            });
            tokio::time::sleep(self.random.within(self.start_span + self.span)).await;
            return self.kill(&mut process, begun).await;
        }
        let racers = if self.random.one_in(RACE) { RACERS } else { 1 };
        let Some(mut process) = self.start(racers).await? else {
            return self.finish_process().await;
        };
        if !self.random.one_in(IN_RECOVERY) && !self.wait_for_rest().await {
            self.report_stuck();
        }
        let begun = Instant::now();
        self.push_to_a_chat();
        tokio::time::sleep(self.random.within(self.span)).await;
        self.kill(&mut process, begun).await
    }

    /// Runs the last life, in which all remaining work is finished.
    async fn run_until_idle(&mut self) -> Result<(), SuiteError> {
        let begun = Instant::now();
        if let Some(mut process) = self.start(1).await? {
            if !self.wait_for_rest().await {
                self.report_stuck();
            }
            return self.kill(&mut process, begun).await;
        }
        self.finish_process().await
    }

    fn report_stuck(&self) {
        let left: Vec<StateRow> = self
            .system
            .ledger(&self.home)
            .into_iter()
            .filter(is_open)
            .collect();
        let what = format!("unsettled: {left:?}; {}", self.stderr_tail());
        self.history.add(|life| HistoryEvent::Stuck { life, what });
    }

    fn spawn(&self, number: usize) -> Result<Process, SuiteError> {
        Process::spawn(&*self.system, &self.home, self.stderr(number))
    }

    fn stderr(&self, number: usize) -> PathBuf {
        self.folder
            .join(format!("stderr-{:04}-{number}.log", self.life))
    }

    fn stderr_tail(&self) -> String {
        fs::read_to_string(self.stderr(0)).unwrap_or_default()
    }

    /// Starts `racers` processes at the same time and returns the one that owns the home.
    async fn start(&mut self, racers: usize) -> Result<Option<Process>, SuiteError> {
        let mut processes = (0..racers)
            .map(|number| self.spawn(number))
            .collect::<Result<Vec<_>, _>>()?;
        let starts = join_all(
            processes
                .iter_mut()
                .map(|process| process.wait_ready(&*self.system)),
        )
        .await;
        let ready = |start: &Start| matches!(start, Start::Ready);
        let owners: Vec<u32> = processes
            .iter()
            .zip(&starts)
            .filter(|(_, start)| ready(start))
            .map(|(process, _)| process.pid())
            .collect();
        let owner = owners.first().copied();
        self.history.add(|life| HistoryEvent::Started {
            life,
            racers,
            owners,
        });
        for start in &starts {
            if let Start::Refused { code, said } = start {
                let names_owner = owner.is_some_and(|owner| self.system.names_owner(said, owner));
                let (code, said) = (*code, said.clone());
                self.history.add(|life| HistoryEvent::Refused {
                    life,
                    code,
                    names_owner,
                    said,
                });
            }
        }
        // If there should be two owners, the second one is killed here when it is dropped.
        Ok(processes
            .into_iter()
            .find(|process| Some(process.pid()) == owner))
    }

    fn push_to_a_chat(&mut self) {
        let busy: Vec<i64> = self.open.values().copied().collect();
        let free: Vec<i64> = CHATS.filter(|chat| !busy.contains(chat)).collect();
        let choice = self
            .random
            .below(u64::try_from(free.len()).unwrap_or_default());
        let Some(chat) = usize::try_from(choice)
            .ok()
            .and_then(|index| free.get(index).copied())
        else {
            return;
        };
        let messages = if self.random.one_in(PAIR) { 2 } else { 1 };
        for _ in 0..messages {
            let plan = self.random.below(PLAN_COUNT);
            self.push(chat, plan);
        }
    }

    fn push(&mut self, chat: i64, plan: u64) {
        self.pushed += 1;
        let marker = marker(self.pushed);
        let text = order(&marker, chat, plan);
        // Recorded before the program can react to it.
        let update = self.world.push(chat, &text).update_id.unwrap_or_default();
        self.last_update = update;
        self.open.insert(marker.clone(), chat);
        self.history.add(|life| HistoryEvent::Pushed {
            life,
            marker,
            chat,
            update,
            text,
        });
    }

    /// Waits until all messages are settled.
    async fn wait_for_rest(&mut self) -> bool {
        let open: Vec<&String> = self.open.keys().collect();
        let rests = || {
            self.world.acknowledged() > self.last_update
                && is_at_rest(&self.system.ledger(&self.home), &open)
        };
        let at_rest = wait_until(REST_LIMIT, rests).await;
        if at_rest {
            self.open.clear();
        }
        at_rest
    }

    async fn kill(&mut self, process: &mut Process, begun: Instant) -> Result<(), SuiteError> {
        process.kill().await;
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.history
            .add(|life| HistoryEvent::Killed { life, micros });
        // Data that it had sent before it was killed belongs to its life.
        self.world.settled().await?;
        self.finish_process().await
    }

    /// Saves the state at the end of a life, and sometimes continues copies of it.
    async fn finish_process(&mut self) -> Result<(), SuiteError> {
        let name = format!("checkpoint-{:04}", self.life);
        let saved = self.folder.join(&name);
        self.system.save(&self.home, &saved)?;
        self.world.observe(&self.system.effects(&self.home));
        self.history
            .add(|life| HistoryEvent::Checkpoint { life, folder: name });
        let ledger = self.ledger_of(&saved);
        self.open.retain(|marker, _| !is_settled(&ledger, marker));
        if !self.open.is_empty() && self.random.one_in(FORK) {
            let chats: Vec<i64> = CHATS.collect();
            let copies = fork(&self.stage, &self.system, &self.home, &chats).await?;
            self.history
                .add(|life| HistoryEvent::Forked { life, copies });
        }
        self.life += 1;
        self.history.enter(self.life);
        Ok(())
    }

    /// Returns the ledger of a checkpoint, read from a copy because reading modifies the files.
    fn ledger_of(&self, saved: &Path) -> Vec<StateRow> {
        let copy = self.folder.join("looked-at");
        let ledger = crate::disk::copy_folder(saved, &copy)
            .map(|()| self.system.ledger(&copy))
            .unwrap_or_default();
        drop(remove_folder(&copy));
        ledger
    }
}
