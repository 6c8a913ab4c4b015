//! One call: from the request to an answer, over all candidates.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use futures_util::StreamExt as _;
use nanobot_types::{FinishReason, LlmResponse, Usage};
use tokio::time::timeout;

use super::health::HealthPermit;
use super::{CallContext, Candidate, Delta, ProviderRouter, adapt, explain};
use crate::charge::OpenCharge;
use crate::limit::{AnswerLimit, Fitted};
use crate::{ChatRequest, Fold, Folded, ProviderError, Recovery, StreamEvent};

/// Maximum number of retries after an empty answer.
const EMPTY_RETRIES: usize = 2;

/// Cooldown of a candidate after transient failures.
const COOLDOWN: Duration = Duration::from_secs(60);

/// State of one call. It outlives the future that works on it, so that the usage is not lost when
/// the turn is stopped.
pub(super) struct RoutedCall<'a> {
    router: &'a ProviderRouter,
    request: ChatRequest,
    context: &'a CallContext,
    usage: Option<Usage>,
    /// Text of the answer in progress.
    partial: String,
    /// Set once the user has seen text of the answer.
    shown: bool,
}

/// Next step after a failed attempt.
enum RetryStep {
    Again { pause: Duration },
    WithoutImages,
    GiveUp(GiveUpReason),
}

/// Reason to give up a candidate.
enum GiveUpReason {
    Next {
        cooldown: Duration,
    },
    /// The user has seen text, so the answer ends here.
    BrokenOff,
}

impl RetryStep {
    fn next(cooldown: Duration) -> Self {
        Self::GiveUp(GiveUpReason::Next { cooldown })
    }
}

/// Counts of failed attempts with one candidate, by kind.
#[derive(Default)]
struct FailedAttempts {
    failed: usize,
    empty: usize,
    stalled: usize,
    images_dropped: bool,
}

impl<'a> RoutedCall<'a> {
    pub(super) fn new(
        router: &'a ProviderRouter,
        request: ChatRequest,
        context: &'a CallContext,
    ) -> Self {
        Self {
            router,
            request,
            context,
            usage: None,
            partial: String::new(),
            shown: false,
        }
    }

    /// Returns the response to a call that was stopped.
    pub(super) fn stopped(self) -> LlmResponse {
        LlmResponse {
            usage: self.usage,
            ..LlmResponse::error("Stopped.")
        }
    }

    pub(super) async fn run(&mut self) -> LlmResponse {
        let slots = &self.router.slots;
        let mut failed: Vec<(&Candidate, ProviderError)> = Vec::new();
        for anyway in [false, true] {
            for (index, slot) in slots.iter().enumerate() {
                let admission = if anyway {
                    Some(slot.health.admit_anyway())
                } else {
                    slot.health.admit()
                };
                let Some(admission) = admission else { continue };
                let mut others = slots
                    .iter()
                    .skip(index + 1)
                    .filter(|other| anyway || other.health.is_available());
                let next = others.next().map(|other| &other.candidate);
                match self.ask(&slot.candidate, admission, next).await {
                    Ok(response) => return response,
                    Err(error) => failed.push((&slot.candidate, error)),
                }
            }
            // They are asked anyway only if all of them were in cooldown.
            if !failed.is_empty() {
                break;
            }
        }
        let too_long = failed
            .iter()
            .any(|(_, error)| error.recovery() == Recovery::Compact);
        let finish_reason = if too_long {
            FinishReason::ContextOverflow
        } else {
            FinishReason::Error
        };
        LlmResponse {
            finish_reason,
            usage: self.usage,
            ..LlmResponse::error(explain::failures(&failed))
        }
    }

    /// Asks one candidate, updates its health, and announces the next candidate if it fails.
    async fn ask(
        &mut self,
        candidate: &Candidate,
        admission: HealthPermit<'_>,
        next: Option<&Candidate>,
    ) -> Result<LlmResponse, ProviderError> {
        let (error, end) = match self.candidate(candidate, next.is_some()).await {
            Ok(response) => {
                admission.succeeded();
                return Ok(self.answered(response, candidate));
            }
            Err(given_up) => given_up,
        };
        match end {
            GiveUpReason::BrokenOff => return Ok(self.broken_off_response(candidate, &error)),
            GiveUpReason::Next { cooldown } if cooldown.is_zero() => {}
            GiveUpReason::Next { cooldown } => admission.start_cooldown(cooldown),
        }
        if let Some(next) = next {
            let (failed, text) = (explain::title(candidate), explain::without_advice(&error));
            self.notice(format!(
                "{failed}: {text}; asking {} instead",
                explain::title(next)
            ));
        }
        Err(error)
    }

    /// Asks one candidate until it answers or is given up.
    async fn candidate(
        &mut self,
        candidate: &Candidate,
        has_next: bool,
    ) -> Result<LlmResponse, (ProviderError, GiveUpReason)> {
        let mut request = adapt::for_candidate(&self.request, candidate);
        let mut tries = FailedAttempts::default();
        loop {
            let (error, is_empty) = match self.exchange(candidate, request.clone()).await {
                Ok(response) if !is_empty(&response) => return Ok(response),
                Ok(response) => match explain::explain_empty(candidate, &response.finish_reason) {
                    Some(text) => return Ok(LlmResponse::error(text)),
                    None => (
                        ProviderError::Malformed("the answer was empty".to_owned()),
                        true,
                    ),
                },
                Err(error) => (error, false),
            };
            let title = explain::title(candidate);
            let text = explain::without_advice(&error);
            tracing::warn!(trace = %self.context.trace, candidate = title, error = text, "model call failed");
            let has_images = !tries.images_dropped && adapt::has_images(&request.transcript);
            let limit = self.limit(&error, is_empty, &mut tries, has_next);
            match self.step(&error, limit, has_next, has_images) {
                RetryStep::Again { pause } => {
                    self.notice(format!(
                        "{title}: {text}; trying again in {} s",
                        pause.as_secs_f32().ceil()
                    ));
                    tokio::time::sleep(pause).await;
                }
                RetryStep::WithoutImages => {
                    self.notice(format!("{title}: {text}; asking again without images"));
                    request.transcript = adapt::without_images(request.transcript);
                    tries.images_dropped = true;
                }
                RetryStep::GiveUp(end) => return Err((error, end)),
            }
        }
    }

    /// Makes one attempt: one request, one stream.
    async fn exchange(
        &mut self,
        candidate: &Candidate,
        request: ChatRequest,
    ) -> Result<LlmResponse, ProviderError> {
        let ledger = self.router.ledger();
        let admitted = OpenCharge::admit(ledger, candidate, &request, self.context).await;
        let (mut charge, notice) = match admitted {
            Ok(admitted) => admitted,
            Err(explanation) => return Ok(LlmResponse::error(explanation)),
        };
        notice.into_iter().for_each(|line| self.notice(line));
        if let Some(sink) = &self.context.deltas {
            sink.sending(&request);
        }
        let (meter, account) = (&self.router.meter, &self.context.account);
        meter.count_request(account);
        let policy = &self.router.policy;
        let (idle, total) = (policy.idle, policy.total);
        let mut fold = Fold::answering(&request.transcript);
        let answer = (&mut fold, &mut charge);
        let ended = timeout(total, self.receive(candidate, request, idle, answer)).await;
        let stalled = ProviderError::Stalled(total);
        let failure = ended
            .as_ref()
            .map_or(Some(&stalled), |ended| ended.as_ref().err());
        charge.settle(failure, fold.is_finished()).await;
        if let Some(usage) = fold.usage() {
            *self.usage.get_or_insert_default() += usage;
            meter.count_tokens(account, usage);
        }
        fold.text().clone_into(&mut self.partial);
        match ended {
            Err(_elapsed) if !fold.is_finished() => return Err(stalled),
            Ok(Err(error)) if !fold.is_finished() => return Err(error),
            _ => {}
        }
        match fold.finish() {
            Folded::Whole(response) => Ok(response),
            Folded::Cut { .. } => Err(ProviderError::Malformed(
                "the answer broke off before its end".to_owned(),
            )),
        }
    }

    async fn receive(
        &mut self,
        candidate: &Candidate,
        request: ChatRequest,
        idle: Duration,
        (fold, charge): (&mut Fold, &mut OpenCharge<'_>),
    ) -> Result<(), ProviderError> {
        let stalled = |_elapsed| ProviderError::Stalled(idle);
        let mut limit = AnswerLimit::of_tokens(request.generation.max_tokens);
        let mut stream = timeout(idle, candidate.provider.stream(request))
            .await
            .map_err(stalled)??;
        while let Some(event) = timeout(idle, stream.next()).await.map_err(stalled)? {
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
                let title = explain::title(candidate);
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

    fn notice(&self, line: String) {
        if let Some(sink) = &self.context.deltas {
            sink.delta(Delta::Notice(line));
        }
    }

    fn step(
        &self,
        error: &ProviderError,
        limit: (&mut usize, usize),
        has_next: bool,
        has_images: bool,
    ) -> RetryStep {
        if self.shown {
            return RetryStep::GiveUp(GiveUpReason::BrokenOff);
        }
        match error.recovery() {
            Recovery::RetrySame { after } => self.retry_step(after, limit, has_next),
            Recovery::NextCandidate { cooldown } => RetryStep::next(cooldown),
            // Vendors word this refusal in many ways, so every refusal of a request with images
            // counts.
            Recovery::DropImages | Recovery::GiveUp if has_images => RetryStep::WithoutImages,
            // Another vendor may accept what one refuses. The refusal says nothing about the
            // vendor's health.
            Recovery::Compact | Recovery::DropImages | Recovery::GiveUp => {
                RetryStep::next(Duration::ZERO)
            }
        }
    }

    /// Returns the counter of failed attempts of this kind, and the maximum number of retries.
    fn limit<'t>(
        &self,
        error: &ProviderError,
        is_empty: bool,
        tries: &'t mut FailedAttempts,
        has_next: bool,
    ) -> (&'t mut usize, usize) {
        match error {
            ProviderError::Stalled(_) => (&mut tries.stalled, usize::from(!has_next)),
            _ if is_empty => (&mut tries.empty, EMPTY_RETRIES),
            _ => (&mut tries.failed, self.router.policy.pauses.len()),
        }
    }

    fn retry_step(
        &self,
        after: Option<Duration>,
        (count, most): (&mut usize, usize),
        has_next: bool,
    ) -> RetryStep {
        let policy = &self.router.policy;
        // If there is another candidate, do not wait for a vendor that asks for more than our own
        // pauses.
        let own_longest = policy.pauses.iter().max().copied().unwrap_or_default();
        let longest = if has_next {
            own_longest.min(policy.longest_pause)
        } else {
            policy.longest_pause
        };
        let requested = after.unwrap_or_default();
        if *count >= most || requested > longest {
            return RetryStep::next(after.unwrap_or(COOLDOWN));
        }
        let own = policy.pauses.get(*count).copied().unwrap_or(own_longest);
        *count += 1;
        RetryStep::Again {
            pause: jittered(own.max(requested)),
        }
    }

    fn answered(&self, response: LlmResponse, candidate: &Candidate) -> LlmResponse {
        LlmResponse {
            usage: self.usage,
            provider: Some(candidate.provider.name().clone()),
            model: Some(candidate.model.clone()),
            ..response
        }
    }

    fn broken_off_response(&self, candidate: &Candidate, error: &ProviderError) -> LlmResponse {
        let why = explain::failure(candidate, error);
        let text = format!(
            "{}\n\n[The answer broke off. {why}]",
            self.partial.trim_end()
        );
        self.answered(LlmResponse::error(text), candidate)
    }
}

/// `true` if a complete answer has neither text nor calls.
fn is_empty(response: &LlmResponse) -> bool {
    response.finish_reason != FinishReason::Runaway
        && response.tool_calls.is_empty()
        && response
            .content
            .as_ref()
            .is_none_or(|text| text.trim().is_empty())
}

/// Adds random jitter of up to a quarter, so that many callers do not retry at the same time.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1024;
    pause + pause.mul_f64(random as f64 / 4096.0)
}
