//! Corrects estimates by what vendors count.
//!
//! Decision: one factor per model, smoothed and kept over restarts, and one per session, taken
//! from its last request, because a conversation in Chinese is not one in English. A count that
//! is far from the estimate is not believed: some servers report only what they have not read
//! before, or nothing at all.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_types::{ModelId, SessionKey};
use serde_json::{Map, Value};

/// Requests smaller than this say more about what surrounds them than about their text.
const SMALLEST: usize = 200;
/// Factors outside of this are somebody's mistake.
const BELIEVED: std::ops::RangeInclusive<f64> = 0.4..=2.5;
/// How much of a model's factor a new count replaces.
const WEIGHT: f64 = 0.3;
/// Sessions whose own factor is remembered.
const SESSIONS: usize = 1024;
/// A vendor that says that less did not fit has another reason.
const SMALLEST_WINDOW: usize = 2048;
/// A change smaller than this is not worth a write.
const WORTH_KEEPING: f64 = 0.01;
/// The most that is read of the file.
const FILE_LIMIT: u64 = 64 * 1024;

/// What was learned about counting tokens. Shared by all turns.
#[derive(Debug, Default)]
pub struct Calibrator {
    learned: Mutex<Learned>,
    file: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Learned {
    /// The file was looked for.
    loaded: bool,
    models: BTreeMap<String, f64>,
    /// What the file says.
    kept: BTreeMap<String, f64>,
    sessions: HashMap<SessionKey, f64>,
    /// Tokens that are known to fit less than was thought. Not kept over restarts: a vendor may
    /// have meant something else.
    limits: HashMap<String, usize>,
}

impl Calibrator {
    /// One that remembers nothing over restarts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that keeps the factors of models in a file. Reads nothing yet; a file that cannot be
    /// read is begun anew.
    #[must_use]
    pub fn kept_in(file: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(file.into()),
            ..Self::default()
        }
    }

    /// Reads what was kept, the first time it is called.
    pub async fn load(&self) {
        let Some(file) = self
            .file
            .clone()
            .filter(|_| !std::mem::replace(&mut self.lock().loaded, true))
        else {
            return;
        };
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let kept = read.unwrap_or_default();
        let mut learned = self.lock();
        for (model, factor) in &kept {
            learned.models.entry(model.clone()).or_insert(*factor);
        }
        learned.kept = kept;
    }

    /// Learns from a request that was estimated at so many tokens and counted by its vendor.
    pub fn observe(&self, model: &ModelId, session: &SessionKey, estimated: usize, counted: u64) {
        let factor = counted as f64 / estimated.max(1) as f64;
        if estimated < SMALLEST || !BELIEVED.contains(&factor) {
            return;
        }
        let mut learned = self.lock();
        let known = learned.models.get(model.as_str()).copied();
        let smoothed = known.map_or(factor, |known| known + (factor - known) * WEIGHT);
        learned.models.insert(model.to_string(), smoothed);
        if learned.sessions.len() >= SESSIONS && !learned.sessions.contains_key(session) {
            learned.sessions.clear();
        }
        learned.sessions.insert(session.clone(), factor);
    }

    /// What an estimate is to be multiplied with: the session's own factor, else the model's,
    /// else 1.
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

    /// An estimate as this model is thought to count it.
    #[must_use]
    pub fn calibrated(&self, model: &ModelId, session: &SessionKey, estimated: usize) -> usize {
        (estimated as f64 * self.factor(model, session)).ceil() as usize
    }

    /// Learns that a request that was estimated at so many tokens did not fit. No model's window
    /// is believed to be smaller than 2,048 tokens.
    pub fn overflowed(&self, model: &ModelId, session: &SessionKey, estimated: usize) {
        let tokens = self.calibrated(model, session, estimated);
        let limit = (tokens - tokens / 10).max(SMALLEST_WINDOW);
        let mut learned = self.lock();
        let known = learned.limits.entry(model.to_string()).or_insert(limit);
        *known = limit.min(*known);
    }

    /// Tokens beyond which requests to a model did not fit since the program started.
    #[must_use]
    pub fn limit(&self, model: &ModelId) -> Option<usize> {
        self.lock().limits.get(model.as_str()).copied()
    }

    /// Writes the factors of models down if they have changed. A failure is reported and costs
    /// what was learned since the last time.
    pub async fn save(&self) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let models = {
            let mut learned = self.lock();
            let changed = learned.models.iter().any(|(model, factor)| {
                learned
                    .kept
                    .get(model)
                    .is_none_or(|kept| (kept - factor).abs() > WORTH_KEEPING)
            });
            if !changed {
                return;
            }
            learned.kept = learned.models.clone();
            learned.models.clone()
        };
        let path = file.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &models)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(path = %file.display(), %error, "what was learned about tokens could not be kept");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        .filter(|(_, factor)| BELIEVED.contains(factor))
        .collect()
}

/// By rename: old or new, never a mixture. It need not survive a power cut.
fn write(file: &Path, models: &BTreeMap<String, f64>) -> io::Result<()> {
    let draft = file.with_extension("draft");
    std::fs::write(&draft, serde_json::to_vec_pretty(models)?)?;
    std::fs::rename(draft, file)
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
    fn a_session_follows_its_last_request_and_others_the_model() {
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
    fn what_did_not_fit_is_a_limit() {
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
    fn what_cannot_be_is_not_believed() {
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
    async fn models_are_kept_over_restarts_and_a_broken_file_is_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        let first = Calibrator::kept_in(&file);
        first.load().await;
        observed(&first, "a", 1000, 1500);
        first.save().await;

        let second = Calibrator::kept_in(&file);
        second.load().await;
        assert_eq!(factor(&second, "new"), 1.5);

        std::fs::write(&file, "{\"m\": 99, \"other\"").unwrap();
        let third = Calibrator::kept_in(&file);
        third.load().await;
        assert_eq!(factor(&third, "new"), 1.0);
    }
}
