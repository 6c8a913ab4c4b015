//! What durability costs: turns a second beside syncs a second, and memory while messages flood in.
//!
//! Decision: in process, with the parts that a gateway is made of (the ledger, session files, agent
//! and loop) on a real disk, and a model that costs nothing, so that only our own work and the
//! disk's are seen. The disk is measured in the same run, in the same folder.

mod assembly;
mod flood;
mod model;
mod syncs;
mod throughput;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// What is measured.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "durability",
    about = "Measures what durability costs, and memory under a flood"
)]
pub struct DurabilityPlan {
    /// A folder on the disk that is measured; the working directory when absent
    #[arg(long, global = true)]
    home: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Clone, Debug, Subcommand)]
enum Task {
    /// Turns a second with 1, 10, 100 and 1,000 sessions, with both settings of sessions.durability
    Throughput {
        /// How long each cell of the table is measured
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Numbers of sessions
        #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
        sessions: Vec<usize>,
    },
    /// Memory while more messages come than a slow model can answer
    Flood {
        /// How long messages come
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Messages a second
        #[arg(long, default_value_t = 1_000)]
        rate: u64,
        /// Chats that they come from
        #[arg(long, default_value_t = 100)]
        chats: u64,
    },
}

/// Measures, and returns the table.
///
/// # Errors
/// When the folder cannot be used, or something was lost.
pub async fn measure_durability(plan: &DurabilityPlan) -> Result<String> {
    let folder = match &plan.home {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            folder.canonicalize()?
        }
        None => std::env::current_dir()?,
    };
    match &plan.task {
        Task::Throughput { seconds, sessions } => {
            throughput::table(&folder, *seconds, sessions).await
        }
        Task::Flood {
            seconds,
            rate,
            chats,
        } => flood::report(&folder, *seconds, *rate, *chats).await,
    }
}
