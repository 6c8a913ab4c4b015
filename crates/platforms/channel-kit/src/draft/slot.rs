//! One draft: shows its text as it grows.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelError, SendRecovery};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::orphans::{BegunDraft, OrphanedDraft};
use super::place::{DraftPlace, DraftPreview};
use super::record::DraftRecord;
use super::text::{Phase, ShownDraft, Text};

/// Time that a draft waits for more text.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Timeout of one call, and so the longest delay of a reply that waits for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A new draft on the board.
#[derive(Debug)]
pub struct DraftSlot<M> {
    pub(super) text: watch::Receiver<Text>,
    pub(super) shown: watch::Sender<ShownDraft<M>>,
    pub(super) record: Arc<DraftRecord>,
}

impl<M: Clone + Send + Sync> DraftSlot<M> {
    /// Shows the text as it grows, until it is complete or claimed, with a pause of at least
    /// `interval` between two calls, or of the time that the platform requires.
    pub async fn run<P: DraftPlace<Message = M>>(mut self, place: P, interval: Duration) {
        let mut visible = String::new();
        let mut form = match place.preview() {
            Some(_) => Form::Preview,
            None => Form::Message,
        };
        let mut wait = Wait::Changed;
        let mut changed_at = Instant::now();
        loop {
            let (text, phase) = {
                let current = self.text.borrow_and_update();
                (place.visible(&current.text), current.phase)
            };
            let is_over = matches!(phase, Phase::Claimed | Phase::Withdrawn);
            if is_over || form.ends_at_once(phase) {
                break;
            }
            let mut pause = Duration::ZERO;
            let is_due = text != visible || wait == Wait::Stale;
            if is_due && !text.trim().is_empty() {
                let shown = self.show(&place, &mut form, &text);
                let shown = tokio::time::timeout(CALL_TIMEOUT, shown).await;
                pause = interval;
                if let Err(error) = shown.unwrap_or_else(|_| Err(no_answer())) {
                    tracing::debug!(%error, "a draft could not be shown");
                    if let SendRecovery::Retry { after: Some(after) } = error.recovery() {
                        pause = interval.max(after);
                    }
                }
                // Without an id there may still be a message, and a second one would stay.
                let is_lost = form == Form::Message && self.shown.borrow().message.is_none();
                if phase != Phase::Growing || is_lost {
                    break;
                }
                visible = text;
            } else if phase != Phase::Growing {
                break;
            }
            if wait == Wait::Changed {
                changed_at = Instant::now();
            }
            wait = self.wait(&place, form, pause, changed_at).await;
            if wait == Wait::Over {
                break;
            }
        }
        if form == Form::Preview {
            self.keep(&place).await;
        }
        self.shown.send_modify(|shown| shown.is_over = true);
        self.await_outcome(&place).await;
    }

    /// Sends the text of a preview as a message if it stays.
    async fn keep<P: DraftPlace<Message = M>>(&self, place: &P) {
        let text = {
            let current = self.text.borrow();
            if current.phase != Phase::Left {
                return;
            }
            place.visible(&current.text)
        };
        if text.trim().is_empty() {
            return;
        }
        let sent = async {
            match place.begin(&text, &new_key()).await? {
                Some(message) => place.leave(&message).await,
                None => Ok(()),
            }
        };
        let sent = tokio::time::timeout(CALL_TIMEOUT, sent).await;
        if let Err(error) = sent.unwrap_or_else(|_| Err(no_answer())) {
            tracing::debug!(%error, "a text before tool calls could not be sent");
        }
    }

    /// Waits for the fate of a complete message. One that no reply takes over is no draft any more.
    async fn await_outcome<P: DraftPlace<Message = M>>(mut self, place: &P) {
        let ShownDraft {
            message, locator, ..
        } = self.shown.borrow().clone();
        let closed = self.text.borrow().phase == Phase::Closed;
        let limit = if closed { IDLE_TIMEOUT } else { Duration::ZERO };
        let decided = self
            .text
            .wait_for(|text| matches!(text.phase, Phase::Claimed | Phase::Withdrawn));
        // A claim removes the record; a dropped board leaves its drafts to the next one.
        let is_withdrawn = match tokio::time::timeout(limit, decided).await {
            Ok(Ok(text)) if text.phase == Phase::Withdrawn => true,
            Ok(_) => return,
            Err(_) => false,
        };
        if let Some(message) = &message {
            let last = async {
                if is_withdrawn {
                    place.remove(message).await
                } else {
                    place.leave(message).await
                }
            };
            let ended = tokio::time::timeout(CALL_TIMEOUT, last).await;
            if let Err(error) = ended.unwrap_or_else(|_| Err(no_answer())) {
                tracing::debug!(%error, is_withdrawn, "a draft that is no reply could not be ended");
                if is_withdrawn {
                    // Its record stays, so the next start deletes it.
                    return;
                }
            }
        }
        if let Some(locator) = locator {
            self.record.remove(OrphanedDraft::Known(locator)).await;
        }
    }

    async fn show<P: DraftPlace<Message = M>>(
        &self,
        place: &P,
        form: &mut Form,
        text: &str,
    ) -> Result<(), ChannelError> {
        if *form == Form::Preview {
            if let Some(preview) = place.preview() {
                match preview.show(text).await {
                    Err(error) if error.recovery() == SendRecovery::GiveUp => {
                        tracing::debug!(%error, "a preview was refused; a message is shown");
                    }
                    shown => return shown,
                }
            }
            *form = Form::Message;
        }
        let known = self.shown.borrow().message.clone();
        if let Some(message) = known {
            return place.edit(&message, text).await;
        }
        self.begin(place, text).await
    }

    /// Sends the message, and records it.
    async fn begin<P: DraftPlace<Message = M>>(
        &self,
        place: &P,
        text: &str,
    ) -> Result<(), ChannelError> {
        let key = new_key();
        let begun = place.intent(&key).map(BegunDraft::new);
        if let Some(begun) = begun.clone() {
            self.record.add(OrphanedDraft::Begun(begun)).await;
        }
        let message = match place.begin(text, &key).await {
            Ok(message) => message,
            Err(error) => {
                let may_be_sent = error.recovery() == SendRecovery::Uncertain;
                if let Some(begun) = begun.filter(|_| !may_be_sent) {
                    self.record.resolve(begun, None).await;
                }
                return Err(error);
            }
        };
        let locator = message.as_ref().and_then(|message| place.locator(message));
        self.shown.send_modify(|shown| {
            shown.message = message;
            shown.locator.clone_from(&locator);
        });
        match (begun, locator) {
            (Some(begun), locator) => self.record.resolve(begun, locator).await,
            (None, Some(locator)) => self.record.add(OrphanedDraft::Known(locator)).await,
            (None, None) => {}
        }
        Ok(())
    }

    /// Waits for the pause, and then for a change, or for the time of the next refresh.
    async fn wait<P: DraftPlace<Message = M>>(
        &mut self,
        place: &P,
        form: Form,
        pause: Duration,
        changed_at: Instant,
    ) -> Wait {
        let mut watched = self.text.clone();
        tokio::select! {
            ended = watched.wait_for(|text| form.ends_at_once(text.phase)) => {
                return if ended.is_ok() { Wait::Changed } else { Wait::Over };
            }
            () = tokio::time::sleep(pause) => {}
        }
        let idle = IDLE_TIMEOUT.saturating_sub(changed_at.elapsed());
        let refresh = match form {
            Form::Preview => place.preview().map(DraftPreview::refresh_interval),
            Form::Message => None,
        };
        let limit = refresh.map_or(idle, |refresh| refresh.min(idle));
        match tokio::time::timeout(limit, self.text.changed()).await {
            Ok(Ok(())) => Wait::Changed,
            Err(_) if limit < idle => Wait::Stale,
            Ok(Err(_)) | Err(_) => Wait::Over,
        }
    }
}

/// The form in which a text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Preview,
    Message,
}

impl Form {
    /// `true` if a phase ends the draft without waiting for a pause.
    fn ends_at_once(self, phase: Phase) -> bool {
        match phase {
            Phase::Claimed => true,
            // A message is edited or deleted, which the platform may require to wait for.
            Phase::Left | Phase::Withdrawn => self == Self::Preview,
            Phase::Growing | Phase::Closed => false,
        }
    }
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The text has changed.
    Changed,
    /// The text has to be shown again.
    Stale,
    /// Nothing more will be shown.
    Over,
}

/// Returns a key for a new message.
fn new_key() -> String {
    Uuid::new_v4().simple().to_string()
}

fn no_answer() -> ChannelError {
    ChannelError::Ambiguous("no answer".to_owned())
}
