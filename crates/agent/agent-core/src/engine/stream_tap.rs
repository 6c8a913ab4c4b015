//! Forwards the text of a model to the observer as it streams.
//!
//! Thinking is removed and secrets are redacted before anything is shown. The end of the text is
//! held back while a thinking tag or a secret may begin there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_provider::{ChatRequest, Delta, DeltaSink};
use nanobot_redact::{SecretStream, Secrets};
use nanobot_types::StreamId;

use super::text_calls::CallHold;
use super::visible::VisibleStream;
use crate::{Observer, Signal};

/// Shows visible text to the observer as it streams.
pub(super) struct StreamTap {
    observer: Arc<dyn Observer>,
    /// Id of the first stream; later ones have a number after it.
    stream: StreamId,
    shown: Mutex<Shown>,
    /// `true` if text may be a call, which is not shown.
    hides_calls: bool,
    secrets: Secrets,
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
    calls: Option<CallHold>,
    hidden: SecretStream,
    /// Number of streams that were withdrawn.
    withdrawn: usize,
    /// `true` if the current stream has text.
    emitted: bool,
}

impl Shown {
    fn new(secrets: &Secrets, hides_calls: bool, withdrawn: usize) -> Self {
        Self {
            visible: VisibleStream::default(),
            calls: hides_calls.then(CallHold::default),
            hidden: secrets.stream(),
            withdrawn,
            emitted: false,
        }
    }

    fn push(&mut self, piece: &str) -> String {
        let seen = self.visible.push(piece);
        self.pass(seen)
    }

    /// Lets visible text pass the filters after the first one.
    fn pass(&mut self, seen: String) -> String {
        let text = match &mut self.calls {
            Some(calls) => calls.push(&seen),
            None => seen,
        };
        self.hidden.push(&text)
    }

    fn finish(&mut self, calls_in_text: bool) -> String {
        let seen = self.visible.finish();
        let mut text = self.pass(seen);
        if let Some(calls) = &mut self.calls {
            text += &self.hidden.push(&calls.finish(calls_in_text));
        }
        text + &self.hidden.finish()
    }
}

impl StreamTap {
    /// `hides_calls` tells whether calls are taken from the text.
    pub(super) fn new(
        observer: Arc<dyn Observer>,
        stream: StreamId,
        secrets: &Secrets,
        hides_calls: bool,
    ) -> Self {
        Self {
            observer,
            stream,
            shown: Mutex::new(Shown::new(secrets, hides_calls, 0)),
            hides_calls,
            secrets: secrets.clone(),
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

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the current stream.
    fn current(&self, shown: &Shown) -> StreamId {
        match shown.withdrawn {
            0 => self.stream.clone(),
            count => StreamId::from(format!("{}.{count}", self.stream)),
        }
    }

    /// Shows what `take` takes out of the filters.
    fn show(&self, take: impl FnOnce(&mut Shown) -> String) {
        let (stream, text) = {
            let mut shown = self.lock();
            let text = take(&mut shown);
            shown.emitted |= !text.is_empty();
            (self.current(&shown), text)
        };
        if !text.is_empty() {
            self.observer.signal(Signal::Delta { stream, text });
        }
    }

    /// Voids the current stream and begins another one.
    fn restart(&self) {
        let withdrawn = {
            let mut shown = self.lock();
            let stream = shown.emitted.then(|| self.current(&shown));
            let count = shown.withdrawn + usize::from(shown.emitted);
            *shown = Shown::new(&self.secrets, self.hides_calls, count);
            stream
        };
        if let Some(stream) = withdrawn {
            self.observer.signal(Signal::Withdrawn { stream });
        }
    }

    /// Ends the stream. Returns its id if anything was shown. `calls_in_text` tells whether the
    /// text had calls.
    pub(super) fn finish(&self, resuming: bool, calls_in_text: bool) -> Option<StreamId> {
        self.show(|shown| shown.finish(calls_in_text));
        let stream = {
            let shown = self.lock();
            shown.emitted.then(|| self.current(&shown))
        };
        if let Some(stream) = stream.clone() {
            self.observer.signal(Signal::StreamEnd { stream, resuming });
        }
        stream
    }
}

impl DeltaSink for StreamTap {
    fn sending(&self, request: &ChatRequest) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
    }

    fn delta(&self, delta: Delta) {
        match delta {
            Delta::Text(piece) => self.show(|shown| shown.push(&piece)),
            Delta::Restart => self.restart(),
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
        let tap = StreamTap::new(Arc::new(observer), StreamId::from("s"), &secrets, false);
        pieces
            .iter()
            .for_each(|piece| tap.delta(Delta::Text((*piece).to_owned())));
        tap.finish(false, false);
        drop(tap);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn restart_withdraws_a_stream_that_was_shown() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let observer = move |signal| sink.lock().unwrap().push(signal);
        let tap = StreamTap::new(Arc::new(observer), "s".into(), &Secrets::default(), false);
        let text = |text: &str| tap.delta(Delta::Text(text.to_owned()));
        text("<think>nothing to see");
        tap.delta(Delta::Restart);
        text("half");
        tap.delta(Delta::Restart);
        text("whole");
        assert_eq!(tap.finish(false, false), Some("s.1".into()));
        let signals = std::mem::take(&mut *seen.lock().unwrap());
        let (first, second) = (StreamId::from("s"), StreamId::from("s.1"));
        let delta = |stream: &StreamId, text: &str| Signal::Delta {
            stream: stream.clone(),
            text: text.to_owned(),
        };
        assert_eq!(
            signals,
            [
                delta(&first, "half"),
                Signal::Withdrawn { stream: first },
                delta(&second, "whole"),
                Signal::StreamEnd {
                    stream: second,
                    resuming: false
                },
            ]
        );
    }

    #[test]
    fn calls_in_the_text_are_not_shown() {
        let seen = Arc::new(Mutex::new(String::new()));
        let sink = seen.clone();
        let observer = move |signal| {
            if let Signal::Delta { text, .. } = signal {
                sink.lock().unwrap().push_str(&text);
            }
        };
        let secrets = Secrets::new(["open sesame".to_owned()]);
        let tap = StreamTap::new(Arc::new(observer), "s".into(), &secrets, true);
        for piece in [
            "Let me look. <tool",
            "_call>{}",
            "</tool_call> open ses",
            "ame",
        ] {
            tap.delta(Delta::Text(piece.to_owned()));
        }
        assert_eq!(*seen.lock().unwrap(), "Let me look. ");
        tap.finish(false, false);
        let whole = "Let me look. <tool_call>{}</tool_call> ***";
        assert_eq!(*seen.lock().unwrap(), whole);
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
