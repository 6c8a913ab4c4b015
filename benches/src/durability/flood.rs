//! Floods the assistant with more messages than a slow model can answer: measures memory, and
//! checks that none is lost.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nanobot_bus::{
    Accepted, Bus as _, EntryState, Ledger as _, LedgerFilter, Queue, SettleOutcome, Subscription,
};
use nanobot_session::Durability;
use nanobot_state::SqliteBus;
use nanobot_types::{ChatId, InboundMessage, OutboundKind, OutboundMessage};
use tokio::time::MissedTickBehavior;

use super::assembly::{Assembly, AssemblyShape};

const CHANNEL: &str = "bench";
/// Latency of the model.
const MODEL: Duration = Duration::from_secs(1);
/// Maximum number of concurrent turns, as configured by default.
const TURNS: usize = 32;
/// Number of message batches per second.
const BUNCHES: u64 = 50;
/// Time allowed for the last notices.
const REST: Duration = Duration::from_secs(3);

/// Observations during the flood.
#[derive(Debug, Default)]
struct FloodCounts {
    accepted: u64,
    replies: u64,
    /// Number of waiting notices that each chat received.
    told: HashMap<ChatId, u32>,
    most_kib: u64,
}

pub(super) async fn report(folder: &Path, seconds: u64, rate: u64, chats: u64) -> Result<String> {
    let shape = AssemblyShape {
        durability: Durability::Disk,
        sessions: 256,
        turns: TURNS,
        model: MODEL,
    };
    let assembly = Assembly::start(folder, shape).await?;
    let before = pss_kib()?;
    let replies = assembly.bus.outbound(&CHANNEL.into()).await?;
    let begun = Instant::now();
    let seen = flood(&assembly.bus, replies, seconds, rate, chats).await?;
    let took = begun.elapsed().as_secs_f64();
    let after = pss_kib()?;
    let kept = assembly
        .bus
        .list(Queue::Inbound, LedgerFilter::All, usize::MAX)
        .await?;
    let of = |state| kept.iter().filter(|entry| entry.state == state).count();
    let (waiting, answered) = (of(EntryState::Pending), of(EntryState::Answered));
    ensure!(
        kept.len() as u64 == seen.accepted,
        "{} accepted, {} in the ledger",
        seen.accepted,
        kept.len()
    );
    ensure!(
        waiting + answered == kept.len(),
        "a message is neither answered nor pending"
    );
    let told = format!(
        "{} of {chats}, most often {} times",
        seen.told.len(),
        seen.told.values().max().unwrap_or(&0)
    );
    let (most, after) = (growth(seen.most_kib, before), growth(after, before));
    assembly.stop().await?;
    Ok(format!(
        "| what | value |\n|---|---:|\n| offered | {rate} messages/s for {seconds} s, from {chats} chats |\n\
         | accepted | {} in {took:.1} s |\n| in the ledger | {} ({answered} answered, {waiting} wait) |\n\
         | dropped | 0 |\n| replies seen | {} |\n| chats told that messages wait | {told} |\n\
         | memory before | {:.1} MB PSS |\n| most it grew | {most:.1} MB |\n| grown at the end | {after:.1} MB |\n",
        seen.accepted,
        kept.len(),
        seen.replies,
        megabytes(before),
    ))
}

async fn flood(
    bus: &SqliteBus,
    mut replies: Subscription<OutboundMessage>,
    seconds: u64,
    rate: u64,
    chats: u64,
) -> Result<FloodCounts> {
    let mut seen = FloodCounts::default();
    let mut publishing = FuturesUnordered::new();
    let mut settling = FuturesUnordered::new();
    let mut bunches = tokio::time::interval(Duration::from_secs(1) / u32::try_from(BUNCHES)?);
    bunches.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut looks = tokio::time::interval(Duration::from_millis(500));
    let all = seconds * rate;
    let mut said = 0;
    let mut rests = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    while seen.accepted < all || !rests.is_elapsed() {
        tokio::select! {
            _ = bunches.tick(), if said < all => {
                for number in said..(said + rate / BUNCHES).min(all) {
                    publishing.push(bus.publish_inbound(message(number, chats)));
                }
                said = (said + rate / BUNCHES).min(all);
            }
            Some(accepted) = publishing.next() => {
                ensure!(accepted? == Accepted::New, "a new message was known");
                seen.accepted += 1;
                if seen.accepted == all {
                    rests.as_mut().reset(tokio::time::Instant::now() + REST);
                }
            }
            reply = replies.next() => {
                let reply = reply.context("the ledger was closed")?;
                if reply.is_durable() {
                    seen.replies += 1;
                    settling.push(async move { reply.settle(SettleOutcome::Ack).await });
                } else if reply.message.kind == OutboundKind::Progress {
                    *seen.told.entry(reply.message.chat_id.clone()).or_default() += 1;
                }
            }
            Some(settled) = settling.next() => settled?,
            _ = looks.tick() => seen.most_kib = seen.most_kib.max(pss_kib()?),
            () = &mut rests => {}
        }
    }
    Ok(seen)
}

fn message(number: u64, chats: u64) -> InboundMessage {
    let text = format!("message {number} of somebody who does not wait for answers");
    let mut message = InboundMessage::text(CHANNEL, "person", (number % chats).to_string(), text);
    message.id = Some(number.to_string().into());
    message
}

/// Returns the proportional set size (PSS) of this process, in KiB.
fn pss_kib() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .context("no Pss in smaps_rollup")?;
    Ok(value.trim().trim_end_matches("kB").trim().parse()?)
}

fn growth(now: u64, before: u64) -> f64 {
    megabytes(now.saturating_sub(before))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "memory in KiB is far below 2^53"
)]
fn megabytes(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}
