//! Corrects token estimates with the counts that providers report.
//!
//! Decision: one factor per model, smoothed and kept across restarts, and one factor per session,
//! taken from its last request, because conversations in Chinese and in English need different
//! ones. A count far from the estimate is ignored: some servers report only the tokens that were
//! not cached, or none at all.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use nanobot_types::{ModelId, SessionKey};
use serde_json::{Map, Value};

/// Minimum estimate that is learned from, in tokens. In smaller requests the overhead outweighs the
/// text.
const SMALLEST: usize = 200;
/// Plausible factors. A count outside of this range is a reporting error.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.4..=2.5;
/// Weight of a new count in a model's smoothed factor.
const WEIGHT: f64 = 0.3;
/// Maximum number of sessions whose own factor is remembered.
const SESSIONS: usize = 1024;
/// Minimum context window that is assumed, in tokens. If fewer tokens are reported not to fit, the
/// request failed for another reason.
const SMALLEST_WINDOW: usize = 2048;
/// Minimum change of a factor that is worth writing to disk.
const MIN_CHANGE: f64 = 0.01;
/// Maximum number of bytes read from the file.
const FILE_LIMIT: u64 = 64 * 1024;

/// Learned correction factors for token estimates. Shared by all turns.
#[derive(Debug, Default)]
pub struct Calibrator {
    learned: Mutex<CalibrationState>,
    file: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct CalibrationState {
    /// Set once the file was looked for.
    loaded: bool,
    models: BTreeMap<String, f64>,
    /// Factors as they are in the file.
    stored: BTreeMap<String, f64>,
    sessions: HashMap<SessionKey, f64>,
    /// Number of tokens known not to fit, per model. Not kept across restarts: the error may have
    /// had another cause.
    limits: HashMap<String, usize>,
}

impl Calibrator {
    /// Creates a calibrator that keeps nothing across restarts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a calibrator that keeps the factors of models in a file. Reads nothing yet; a file
    /// that cannot be read is replaced at the next save.
    #[must_use]
    pub fn with_file(file: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(file.into()),
            ..Self::default()
        }
    }

    /// Loads the saved factors, on the first call only.
    pub async fn load(&self) {
        let Some(file) = self
            .file
            .clone()
            .filter(|_| !std::mem::replace(&mut self.lock().loaded, true))
        else {
            return;
        };
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let stored = read.unwrap_or_default();
        let mut learned = self.lock();
        for (model, factor) in &stored {
            learned.models.entry(model.clone()).or_insert(*factor);
        }
        learned.stored = stored;
    }

    /// Learns from a request: its estimate, and the count that the provider reported.
    pub fn observe(&self, model: &ModelId, session: &SessionKey, estimated: usize, counted: u64) {
        let factor = counted as f64 / estimated.max(1) as f64;
        if estimated < SMALLEST || !PLAUSIBLE.contains(&factor) {
            return;
        }
        let mut learned = self.lock();
        let previous = learned.models.get(model.as_str()).copied();
        let smoothed = previous.map_or(factor, |previous| previous + (factor - previous) * WEIGHT);
        learned.models.insert(model.to_string(), smoothed);
        if learned.sessions.len() >= SESSIONS && !learned.sessions.contains_key(session) {
            learned.sessions.clear();
        }
        learned.sessions.insert(session.clone(), factor);
    }

    /// Returns the factor for an estimate: the session's own, else the model's, else 1.
    #[must_use]
    pub fn factor(&self, model: &ModelId, session: &SessionKey) -> f64 {
        let learned = self.lock();
        let of_model = || learned.models.get(model.as_str()).copied();
        learned
            .sessions
            .get(session)
            .copied()
            .or_else(of_model)
            .unwrap_or(1.0)
    }

    /// Returns the estimate corrected for this model and session.
    #[must_use]
    pub fn calibrated(&self, model: &ModelId, session: &SessionKey, estimated: usize) -> usize {
        (estimated as f64 * self.factor(model, session)).ceil() as usize
    }

    /// Records that a request with this estimate did not fit, and sets the model's limit to 10 %
    /// less than its corrected estimate. A limit is never below 2,048 tokens.
    pub fn overflowed(&self, model: &ModelId, session: &SessionKey, estimated: usize) {
        let tokens = self.calibrated(model, session, estimated);
        let limit = (tokens - tokens / 10).max(SMALLEST_WINDOW);
        let mut learned = self.lock();
        let previous = learned.limits.entry(model.to_string()).or_insert(limit);
        *previous = limit.min(*previous);
    }

    /// Returns the number of tokens beyond which requests to a model are known not to fit, learned
    /// since the program started.
    #[must_use]
    pub fn limit(&self, model: &ModelId) -> Option<usize> {
        self.lock().limits.get(model.as_str()).copied()
    }

    /// Saves the factors of models if they have changed. A failure is logged, and costs what was
    /// learned since the last save.
    pub async fn save(&self) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let models = {
            let mut learned = self.lock();
            let changed = learned.models.iter().any(|(model, factor)| {
                learned
                    .stored
                    .get(model)
                    .is_none_or(|stored| (stored - factor).abs() > MIN_CHANGE)
            });
            if !changed {
                return;
            }
            learned.stored = learned.models.clone();
            learned.models.clone()
        };
        let path = file.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &models)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(path = %file.display(), %error, "cannot save the token calibration");
        }
    }

    fn lock(&self) -> MutexGuard<'_, CalibrationState> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the saved factors, and drops implausible ones; empty if the file cannot be read.
fn read(file: &Path) -> BTreeMap<String, f64> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(file).and_then(|open| open.take(FILE_LIMIT).read_to_end(&mut bytes));
    if read.is_err() {
        return BTreeMap::new();
    }
    let factors: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    let factors = factors
        .into_iter()
        .filter_map(|(model, factor)| Some((model, factor.as_f64()?)));
    factors
        .filter(|(_, factor)| PLAUSIBLE.contains(factor))
        .collect()
}

/// Replaces the file by rename, so that readers see old or new content and never a mixture. It need
/// not survive a power cut.
fn write(file: &Path, models: &BTreeMap<String, f64>) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(models)?;
    replace_file(
        &LocalDisk,
        file,
        &bytes,
        FileDraft::Like(file),
        Durability::Os,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(calibrator: &Calibrator, session: &str, estimated: usize, counted: u64) {
        calibrator.observe(&"m".into(), &session.into(), estimated, counted);
    }

    fn factor(calibrator: &Calibrator, session: &str) -> f64 {
        (calibrator.factor(&"m".into(), &session.into()) * 1000.0).round() / 1000.0
    }

    #[test]
    fn session_uses_its_last_factor_and_others_the_models() {
        let calibrator = Calibrator::new();
        assert_eq!(factor(&calibrator, "a"), 1.0);
        observed(&calibrator, "a", 1000, 1200);
        observed(&calibrator, "a", 1000, 1300);
        assert_eq!(
            (factor(&calibrator, "a"), factor(&calibrator, "b")),
            (1.3, 1.23)
        );
        assert_eq!(calibrator.calibrated(&"m".into(), &"a".into(), 100), 130);
    }

    #[test]
    fn overflow_lowers_the_limit() {
        let calibrator = Calibrator::new();
        observed(&calibrator, "a", 1000, 2000);
        for (estimated, limit) in [(5000, 9000), (8000, 9000), (4000, 7200)] {
            calibrator.overflowed(&"m".into(), &"a".into(), estimated);
            assert_eq!(calibrator.limit(&"m".into()), Some(limit));
        }
        assert_eq!(calibrator.limit(&"other".into()), None);
        calibrator.overflowed(&"m".into(), &"a".into(), 10);
        assert_eq!(calibrator.limit(&"m".into()), Some(SMALLEST_WINDOW));
    }

    #[test]
    fn implausible_counts_are_ignored() {
        let calibrator = Calibrator::new();
        for (estimated, counted) in [(1000, 10), (1000, 0), (1000, 9000), (199, 250)] {
            observed(&calibrator, "a", estimated, counted);
            assert_eq!(
                factor(&calibrator, "a"),
                1.0,
                "{estimated} counted as {counted}"
            );
        }
    }

    #[tokio::test]
    async fn factors_survive_restarts_and_broken_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        let first = Calibrator::with_file(&file);
        first.load().await;
        observed(&first, "a", 1000, 1500);
        first.save().await;

        let second = Calibrator::with_file(&file);
        second.load().await;
        assert_eq!(factor(&second, "new"), 1.5);

        std::fs::write(&file, "{\"m\": 99, \"other\"").unwrap();
        let third = Calibrator::with_file(&file);
        third.load().await;
        assert_eq!(factor(&third, "new"), 1.0);
    }
}
