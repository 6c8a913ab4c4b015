//! Measures how many small sequential appends per second a disk makes durable.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// A line about as long as a short message on disk.
const LINE: [u8; 256] = [b'x'; 256];

/// Appends and syncs for `time`, and returns the number of appends per second.
pub(super) fn per_second(folder: &Path, time: Duration) -> Result<f64> {
    let path = folder.join("syncs");
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < time {
        file.write_all(&LINE)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
