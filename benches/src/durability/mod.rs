//! Measures the cost of durability: turns per second compared with syncs per second, and memory use
//! during a flood of messages.
//!
//! Decision: this runs in process, with the parts of a gateway (ledger, session files, agent and
//! loop) on a real disk and a model that costs nothing, so that only our own work and the disk's
//! are measured. The disk is measured in the same run, in the same folder.

mod assembly;
mod flood;
mod model;
mod syncs;
mod throughput;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Options of the measurement.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "durability",
    about = "Measures what durability costs, and memory under a flood"
)]
pub struct DurabilityPlan {
    /// A folder on the disk to measure (default: the working directory)
    #[arg(long, global = true)]
    home: Option<PathBuf>,
    #[command(subcommand)]
    task: BenchTask,
}

#[derive(Clone, Debug, Subcommand)]
enum BenchTask {
    /// Turns per second with 1, 10, 100 and 1,000 sessions, with both settings of
    /// sessions.durability
    Throughput {
        /// Seconds to measure each cell of the table
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Numbers of sessions
        #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
        sessions: Vec<usize>,
    },
    /// Memory use while more messages arrive than a slow model can answer
    Flood {
        /// Seconds during which messages arrive
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Messages per second
        #[arg(long, default_value_t = 1_000)]
        rate: u64,
        /// Number of chats that send messages
        #[arg(long, default_value_t = 100)]
        chats: u64,
    },
}

/// Runs the measurement and returns the table.
///
/// # Errors
/// Returns an error if the folder cannot be used, or if a message was lost.
pub async fn measure_durability(plan: &DurabilityPlan) -> Result<String> {
    let folder = match &plan.home {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            folder.canonicalize()?
        }
        None => std::env::current_dir()?,
    };
    match &plan.task {
        BenchTask::Throughput { seconds, sessions } => {
            throughput::table(&folder, *seconds, sessions).await
        }
        BenchTask::Flood {
            seconds,
            rate,
            chats,
        } => flood::report(&folder, *seconds, *rate, *chats).await,
    }
}
