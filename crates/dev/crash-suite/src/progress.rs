//! The progress of a long run: a file with a line per finished round.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::SuiteError;
use crate::history::read_lines;
use crate::report::SuiteReport;

#[derive(Debug, Serialize, Deserialize)]
struct ProgressLine {
    seed: u64,
    round: u64,
    report: SuiteReport,
}

/// Rounds finished in this or an earlier run.
#[derive(Debug, Default)]
pub(crate) struct SuiteProgress {
    file: Option<PathBuf>,
    seed: u64,
    done: BTreeMap<u64, SuiteReport>,
}

impl SuiteProgress {
    /// Resumes from a file if it exists.
    pub(crate) fn open(file: Option<&Path>, seed: u64) -> Result<Self, SuiteError> {
        let mut progress = Self {
            file: file.map(Path::to_owned),
            seed,
            done: BTreeMap::new(),
        };
        if let Some(path) = file
            && path.exists()
        {
            for line in read_lines::<ProgressLine>(path)? {
                if line.seed != seed {
                    return Err(SuiteError::OtherRun {
                        path: path.to_owned(),
                        found: line.seed,
                        wanted: seed,
                    });
                }
                progress.done.insert(line.round, line.report);
            }
        }
        Ok(progress)
    }

    pub(crate) fn is_done(&self, round: u64) -> bool {
        self.done.contains_key(&round)
    }

    /// Records a finished round, first in the file.
    pub(crate) fn finish(&mut self, round: u64, report: SuiteReport) -> Result<(), SuiteError> {
        let line = ProgressLine {
            seed: self.seed,
            round,
            report,
        };
        if let Some(path) = &self.file {
            let write = || -> std::io::Result<()> {
                let mut text = serde_json::to_vec(&line)?;
                text.push(b'\n');
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(path)?
                    .write_all(&text)
            };
            write().map_err(SuiteError::file("write", path))?;
        }
        self.done.insert(round, line.report);
        Ok(())
    }

    /// Returns the merged reports of all finished rounds.
    pub(crate) fn report(&self) -> SuiteReport {
        let mut sum = SuiteReport::default();
        self.done
            .values()
            .for_each(|report| sum.merge(report.clone()));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Tally;

    #[test]
    fn run_resumes_from_its_progress_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("progress.jsonl");
        let report = SuiteReport {
            tally: Tally {
                kills: 25,
                ..Tally::default()
            },
            ..SuiteReport::default()
        };
        let mut first = SuiteProgress::open(Some(&file), 7).unwrap();
        first.finish(3, report.clone()).unwrap();
        let second = SuiteProgress::open(Some(&file), 7).unwrap();
        assert_eq!((second.is_done(3), second.is_done(4)), (true, false));
        assert_eq!(second.report(), report);
        let other = SuiteProgress::open(Some(&file), 8).unwrap_err();
        assert!(
            matches!(
                other,
                SuiteError::OtherRun {
                    found: 7,
                    wanted: 8,
                    ..
                }
            ),
            "{other}"
        );
    }
}
