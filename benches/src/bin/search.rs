//! Measures the latency of a search over 100,000 messages: `search [MESSAGES]` writes conversations
//! into a temporary workspace, indexes them, and prints a row for each kind of query.
//!
//! The words have a frequency distribution like that of a language, in two scripts, so that there
//! are frequent, occasional and unique words.

use anyhow::Result;

#[cfg(not(target_os = "linux"))]
fn main() -> Result<()> {
    anyhow::bail!("this measurement needs Linux")
}

#[cfg(target_os = "linux")]
fn main() -> Result<()> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt::Write as _;
    use std::io::Write as _;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use anyhow::{Context as _, Result};
    use nanobot_memory::MemoryFolders;
    use nanobot_session::{SessionPaths, SessionReach, SessionSearch as _};
    use nanobot_state::SearchIndex;

    const SESSIONS: usize = 200;
    const RUNS: usize = 21;
    /// A word that occurs once.
    const RARE: &str = "zanzibar";

    pub(crate) fn main() -> Result<()> {
        let messages = std::env::args()
            .nth(1)
            .map_or(Ok(100_000), |text| text.parse())?;
        let workspace = tempfile::tempdir()?;
        write_sessions(&workspace.path().join("sessions"), messages)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut out = std::io::stdout().lock();
        runtime.block_on(async {
            let index = SearchIndex::new(
                workspace.path().join("index.db"),
                MemoryFolders::new(workspace.path().join("memory"), false),
                SessionPaths::only(workspace.path().join("sessions")),
            );
            let begun = Instant::now();
            index.search(&SessionReach::All, RARE, 8).await?;
            writeln!(
                out,
                "indexing {messages} messages in {SESSIONS} sessions: {:.2} s",
                begun.elapsed().as_secs_f64()
            )?;
            writeln!(
                out,
                "| query | hits | median | slowest of {RUNS} |\n|---|---:|---:|---:|"
            )?;
            let (common, second) = (word(0), word(1));
            for (what, query) in [
                ("a rare word", RARE.to_owned()),
                ("two Chinese characters", pair(40)),
                ("two frequent Chinese characters", pair(0)),
                ("one Chinese character", han(1).to_string()),
                ("a frequent word", common.clone()),
                (
                    "three frequent words",
                    format!("{common} {second} {}", word(2)),
                ),
                ("a frequent and a rare word", format!("{common} {RARE}")),
                (
                    "the beginning of many words",
                    word(3).chars().take(3).collect(),
                ),
                ("no word of these", "xxxxxxxx yyyyyyyy".to_owned()),
            ] {
                let mut times = Vec::new();
                let mut hits = 0;
                for _ in 0..RUNS {
                    let begun = Instant::now();
                    hits = index.search(&SessionReach::All, &query, 8).await?.len();
                    times.push(begun.elapsed());
                }
                times.sort_unstable();
                let shown = |time: Option<&Duration>| {
                    time.map(|time| format!("{:.2} ms", time.as_secs_f64() * 1e3))
                        .context("no run")
                };
                writeln!(
                    out,
                    "| {what} | {hits} | {} | {} |",
                    shown(times.get(RUNS / 2))?,
                    shown(times.last())?
                )?;
            }
            Ok(())
        })
    }

    /// A xorshift generator with a fixed seed, so that the text is the same in every run.
    struct Dice(u64);

    impl Dice {
        /// Returns a number below `count`, with small numbers far more frequent.
        fn roll(&mut self, count: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let share = (self.0 % 1_000_000) as f64 / 1e6;
            ((count as f64).powf(share) as usize)
                .saturating_sub(1)
                .min(count - 1)
        }
    }

    fn word(number: usize) -> String {
        let letters = [
            "ka", "lo", "mi", "ne", "ru", "sta", "tor", "ve", "wan", "zi",
        ];
        let digits = (number + 100).to_string();
        digits
            .chars()
            .filter_map(|digit| letters.get(digit.to_digit(10)? as usize))
            .copied()
            .collect()
    }

    fn han(number: usize) -> char {
        u32::try_from(0x4e00 + number)
            .ok()
            .and_then(char::from_u32)
            .unwrap_or('一')
    }

    fn pair(number: usize) -> String {
        [han(number), han(number + 1)].iter().collect()
    }

    fn write_sessions(folder: &Path, messages: usize) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for session in 0..SESSIONS {
            let mut text = String::new();
            for message in 0..messages.div_ceil(SESSIONS) {
                let mut said = String::new();
                for _ in 0..30 {
                    if message % 3 == 0 {
                        said.push(han(dice.roll(3_000)));
                    } else {
                        write!(said, "{} ", word(dice.roll(30_000)))?;
                    }
                }
                if session == 7 && message == 7 {
                    said.push_str(RARE);
                }
                let role = if message % 2 == 0 {
                    "user"
                } else {
                    "assistant"
                };
                let line = serde_json::json!({"role": role, "content": said, "timestamp": "2026-03-15T14:30:00.000000"});
                writeln!(text, "{line}")?;
            }
            std::fs::write(folder.join(format!("telegram_{session}.jsonl")), text)?;
        }
        Ok(())
    }
}
