//! The services of turns.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_approvals::Approvals;
use nanobot_bus::EventFeed;
use nanobot_context::Calibrator;
use nanobot_provider::{Candidate, ProviderRouter, SpendLedger, UsageMeter};
use nanobot_redact::Secrets;
use nanobot_tool::Registry;
use nanobot_types::ModelId;

use super::received::ReceivedFiles;
use super::result_file::ResultFiles;

/// Runs turns. Keeps no state of any turn, so one engine serves all sessions.
#[derive(Debug)]
pub struct TurnEngine {
    pub(super) router: Arc<ProviderRouter>,
    pub(super) registry: Arc<Registry>,
    pub(super) events: EventFeed,
    pub(super) results: ResultFiles,
    pub(super) received: ReceivedFiles,
    pub(super) calibrator: Arc<Calibrator>,
    pub(super) secrets: Secrets,
    pub(super) approvals: Option<Arc<Approvals>>,
}

impl TurnEngine {
    /// Creates an engine over a router and the tools it may call.
    #[must_use]
    pub fn new(router: Arc<ProviderRouter>, registry: Arc<Registry>, events: EventFeed) -> Self {
        Self {
            router,
            registry,
            events,
            results: ResultFiles::default(),
            received: ReceivedFiles::default(),
            calibrator: Arc::default(),
            secrets: Secrets::default(),
            approvals: None,
        }
    }

    /// Asks people about calls that need their permission. Without approvals every call runs, except
    /// those that a tool itself wants to have confirmed.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Option<Arc<Approvals>>) -> Self {
        self.approvals = approvals;
        self
    }

    /// Keeps results that are too long for a prompt whole in a folder, where tools can read them.
    #[must_use]
    pub fn keeping_results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = ResultFiles {
            folder: Some(folder.into()),
        };
        self
    }

    /// Treats the text of files in this folder as text of strangers: people sent them.
    #[must_use]
    pub fn receiving_files_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.received = ReceivedFiles {
            folder: Some(folder.into()),
        };
        self
    }

    /// Sets the calibrator of token estimates.
    #[must_use]
    pub fn calibrated_by(mut self, calibrator: Arc<Calibrator>) -> Self {
        self.calibrator = calibrator;
        self
    }

    /// Redacts these secrets in tool results and in what models write, before either is recorded,
    /// sent or shown.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Returns the model that is called first; empty if there is none.
    pub(crate) fn model(&self) -> ModelId {
        self.router
            .candidates()
            .next()
            .map_or_else(|| ModelId::from(""), |candidate| candidate.model.clone())
    }

    /// Returns its router.
    pub(crate) fn router(&self) -> &ProviderRouter {
        &self.router
    }

    /// Returns the presets of its router by name, with their models.
    pub(crate) fn presets(&self) -> impl Iterator<Item = (&str, &Candidate)> {
        self.router.presets()
    }

    /// Returns the requests and tokens of all calls of its router.
    #[must_use]
    pub fn meter(&self) -> &UsageMeter {
        self.router.meter()
    }

    /// Returns the ledger to which the calls of its router are charged.
    #[must_use]
    pub fn ledger(&self) -> &dyn SpendLedger {
        self.router.ledger()
    }

    /// Returns its tools.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}
