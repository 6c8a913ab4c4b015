//! Forwards the text of a model to the observer as it streams.
//!
//! Thinking is removed and secrets are redacted before anything is shown. The end of the text is
//! held back while a thinking tag or a secret may begin there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_provider::{ChatRequest, Delta, DeltaSink};
use nanobot_redact::{SecretStream, Secrets};
use nanobot_types::StreamId;

use super::visible::VisibleStream;
use crate::{Observer, Signal};

/// Shows visible text to the observer as it streams.
pub(super) struct StreamTap {
    observer: Arc<dyn Observer>,
    stream: StreamId,
    shown: Mutex<Shown>,
    secrets: Secrets,
    emitted: AtomicBool,
    /// `true` if the router retried, so the reported usage covers more than one request.
    tried_again: AtomicBool,
    /// The last request that was sent to a provider.
    sent: Mutex<Option<ChatRequest>>,
    /// The reason why another candidate than the preferred one answered.
    fallback: Mutex<Option<String>>,
}

/// The filters that text passes before it is shown.
struct Shown {
    visible: VisibleStream,
    hidden: SecretStream,
}

impl StreamTap {
    pub(super) fn new(observer: Arc<dyn Observer>, stream: StreamId, secrets: &Secrets) -> Self {
        Self {
            observer,
            stream,
            shown: Mutex::new(Shown {
                visible: VisibleStream::default(),
                hidden: secrets.stream(),
            }),
            secrets: secrets.clone(),
            emitted: AtomicBool::new(false),
            tried_again: AtomicBool::new(false),
            sent: Mutex::default(),
            fallback: Mutex::default(),
        }
    }

    pub(super) fn take_sent(&self) -> Option<ChatRequest> {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(super) fn take_fallback(&self) -> Option<String> {
        self.fallback
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(super) fn tried_again(&self) -> bool {
        self.tried_again.load(Ordering::Relaxed)
    }

    fn show(&self, text: String) {
        if !text.is_empty() {
            self.emitted.store(true, Ordering::Relaxed);
            self.observer.signal(Signal::Delta {
                stream: self.stream.clone(),
                text,
            });
        }
    }

    /// Ends the stream. Returns `true` if anything was shown.
    pub(super) fn finish(&self, resuming: bool) -> bool {
        let rest = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            let Shown { visible, hidden } = &mut *shown;
            hidden.push(&visible.finish()) + &hidden.finish()
        };
        self.show(rest);
        let emitted = self.emitted.load(Ordering::Relaxed);
        if emitted {
            self.observer.signal(Signal::StreamEnd {
                stream: self.stream.clone(),
                resuming,
            });
        }
        emitted
    }
}

impl DeltaSink for StreamTap {
    fn sending(&self, request: &ChatRequest) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
    }

    fn delta(&self, delta: Delta) {
        match delta {
            Delta::Text(piece) => {
                let seen = {
                    let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
                    let Shown { visible, hidden } = &mut *shown;
                    hidden.push(&visible.push(&piece))
                };
                self.show(seen);
            }
            Delta::Reasoning(_) => {}
            Delta::Fallback(line) => {
                let line = self.secrets.redact(&line).into_owned();
                *self.fallback.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            }
            Delta::Notice(notice) => {
                self.tried_again.store(true, Ordering::Relaxed);
                self.observer
                    .signal(Signal::Notice(self.secrets.redact(&notice).into_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the deltas that an observer gets for these pieces.
    fn deltas(pieces: &[&str]) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let observer = move |signal| {
            if let Signal::Delta { text, .. } = signal {
                sink.lock().unwrap().push(text);
            }
        };
        let secrets = Secrets::new(["open sesame".to_owned()]);
        let tap = StreamTap::new(Arc::new(observer), StreamId::from("s"), &secrets);
        pieces
            .iter()
            .for_each(|piece| tap.delta(Delta::Text((*piece).to_owned())));
        tap.finish(false);
        drop(tap);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn drafts_redact_secrets_split_over_pieces() {
        assert_eq!(
            deltas(&["say op", "en ses", "ame now"]),
            ["say ", "*** now"]
        );
        assert_eq!(deltas(&["open", " sesa<think>x</think>me"]).concat(), "***");
        assert_eq!(deltas(&["open", " door"]), ["open door"]);
        assert_eq!(deltas(&["an op"]), ["an ", "op"]);
    }
}
