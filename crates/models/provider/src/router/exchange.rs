//! One attempt: one request, one stream.

use std::time::Duration;

use futures_util::StreamExt as _;
use nanobot_types::{FinishReason, LlmResponse};
use tokio::time::timeout;

use super::call::RoutedCall;
use super::{Candidate, Delta};
use crate::charge::OpenCharge;
use crate::limit::{AnswerLimit, Fitted};
use crate::{ChatRequest, Fold, Folded, ProviderError, StreamEvent};

/// Result of an attempt without an error.
pub(super) enum Exchanged {
    /// A complete answer.
    Answered(LlmResponse),
    /// The ledger refused the attempt; nothing was sent.
    Refused(LlmResponse),
}

impl RoutedCall<'_> {
    /// Makes one attempt. Waits first if the provider has as many requests as it may have.
    pub(super) async fn exchange(
        &mut self,
        candidate: &Candidate,
        request: ChatRequest,
    ) -> Result<Exchanged, ProviderError> {
        let router = self.router;
        let name = candidate.provider.name();
        let waiting = || {
            let title = candidate.to_string();
            self.notice(format!(
                "{title}: all its places are taken; waiting for the next one"
            ));
        };
        let _place = router.limits.admit(name, waiting).await;
        let admitted = OpenCharge::admit(router.ledger(), candidate, &request, self.context).await;
        let (mut charge, notice) = match admitted {
            Ok(admitted) => admitted,
            Err(explanation) => return Ok(Exchanged::Refused(LlmResponse::error(explanation))),
        };
        notice.into_iter().for_each(|line| self.notice(line));
        if let Some(sink) = &self.context.deltas {
            sink.sending(&request);
        }
        let (meter, account) = (&router.meter, &self.context.account);
        meter.count_request(account);
        let policy = &router.policy;
        let (first, total) = match candidate.provider.is_local() {
            true => (policy.local_first, policy.local_total),
            false => (policy.idle, policy.total),
        };
        let mut fold = Fold::answering(&request.transcript);
        let answer = (&mut fold, &mut charge);
        let ended = timeout(total, self.receive(candidate, request, first, answer)).await;
        let stalled = ProviderError::Stalled(total);
        let failure = ended
            .as_ref()
            .map_or(Some(&stalled), |ended| ended.as_ref().err());
        charge.settle(failure, fold.is_finished()).await;
        if let Some(usage) = fold.usage() {
            *self.usage.get_or_insert_default() += usage;
            meter.count_tokens(account, usage);
        }
        if self.shown {
            fold.text().clone_into(&mut self.partial);
        }
        match ended {
            Err(_elapsed) if !fold.is_finished() => return Err(stalled),
            Ok(Err(error)) if !fold.is_finished() => return Err(error),
            _ => {}
        }
        match fold.finish() {
            Folded::Whole(response) => Ok(Exchanged::Answered(response)),
            Folded::Cut { .. } => Err(ProviderError::Malformed(
                "the answer broke off before its end".to_owned(),
            )),
        }
    }

    async fn receive(
        &mut self,
        candidate: &Candidate,
        request: ChatRequest,
        first: Duration,
        (fold, charge): (&mut Fold, &mut OpenCharge<'_>),
    ) -> Result<(), ProviderError> {
        let mut patience = first;
        let mut limit = AnswerLimit::of_tokens(request.generation.max_tokens);
        let stream = timeout(patience, candidate.provider.stream(request)).await;
        let mut stream = stream.map_err(|_elapsed| ProviderError::Stalled(patience))??;
        while let Some(event) = timeout(patience, stream.next())
            .await
            .map_err(|_elapsed| ProviderError::Stalled(patience))?
        {
            patience = self.router.policy.idle;
            let (event, is_over) = match limit.take(event?) {
                Fitted::Whole(event) => (Some(event), false),
                Fitted::Last(rest) => (rest, true),
            };
            if let Some(event) = event {
                self.show(&event);
                charge.observe(&event);
                fold.push(event);
            }
            if is_over {
                let title = candidate.to_string();
                tracing::warn!(trace = %self.context.trace, candidate = title, "a model did not stop and was cut off");
                fold.push(StreamEvent::Finished(FinishReason::Runaway));
                break;
            }
        }
        // Dropping the stream closes its connection.
        Ok(())
    }

    fn show(&mut self, event: &StreamEvent) {
        let Some(sink) = &self.context.deltas else {
            return;
        };
        match event {
            // Only a keep-alive.
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) if text.is_empty() => {}
            StreamEvent::Text(text) => {
                self.shown |= !text.trim().is_empty();
                sink.delta(Delta::Text(text.clone()));
            }
            StreamEvent::Reasoning(text) => sink.delta(Delta::Reasoning(text.clone())),
            _ => {}
        }
    }
}
