//! One call: from the request to an answer, over all candidates.
//!
//! Decision: a call asks the candidates in rounds. In the first round each gets one attempt, with
//! one quick retry for an error that may be gone at once, so that the next candidate is asked
//! within two seconds. If none answered, a further round follows after each pause of the policy,
//! with the candidates whose errors may pass.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use nanobot_types::{FinishReason, LlmResponse, Usage};

use super::attempts::Attempts;
use super::exchange::Exchanged;
use super::{CallContext, Candidate, CandidateSlot, Delta, ProviderRouter, adapt, explain};
use crate::{CallPurpose, ChatRequest, ProviderError, Recovery};

/// Maximum number of answers per call that are asked for again after the user has seen text of them.
const MAX_RESTARTS: usize = 3;

/// Pause before the quick retry of a candidate that others could replace.
const QUICK_PAUSE: Duration = Duration::from_millis(500);

/// State of one call. It outlives the future that works on it, so that the usage is not lost when
/// the turn is stopped.
pub(super) struct RoutedCall<'a> {
    pub(super) router: &'a ProviderRouter,
    pub(super) request: ChatRequest,
    pub(super) context: &'a CallContext,
    pub(super) usage: Option<Usage>,
    /// Text of the last answer that the user has seen the beginning of.
    pub(super) partial: String,
    /// Set once the user has seen text of the answer in progress.
    pub(super) shown: bool,
    restarts: usize,
}

/// A candidate, and how often it failed in this call.
struct Asked<'a> {
    slot: &'a CandidateSlot,
    attempts: Attempts,
}

impl Asked<'_> {
    /// `true` if it may be asked now. `anyway` ignores its cooldown.
    fn is_open(&self, anyway: bool) -> bool {
        let is_due = self.attempts.wait().is_some_and(|wait| wait.is_zero());
        is_due && (anyway || self.slot.health.is_available())
    }

    /// `true` if it was not asked because only a person can end its trouble.
    fn is_paused(&self) -> bool {
        let health = self.slot.health.error();
        let needs_person =
            health.is_some_and(|(_, wait, kind)| !wait.is_zero() && kind.needs_person());
        self.attempts.error.is_none() && needs_person
    }
}

/// Result of asking one candidate.
enum Outcome {
    Answered(LlmResponse),
    /// The user has seen text too often, so the answer ends here.
    BrokenOff(ProviderError),
    /// The ledger refused an attempt, so the call ends here.
    Refused(LlmResponse),
    GaveUp,
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
            restarts: 0,
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
        let mut asked: Vec<Asked<'_>> = self
            .router
            .in_order(&self.request.model)
            .map(|slot| Asked {
                slot,
                attempts: Attempts::default(),
            })
            .collect();
        // A candidate in cooldown is asked in the first round only if all of them are.
        let all_cool_down = !asked.iter().any(|asked| asked.is_open(false));
        let account = &self.context.account;
        let is_background = account.purpose != CallPurpose::Turn || account.job.is_some();
        let mut anyway = all_cool_down;
        for asked in asked.iter_mut().filter(|asked| asked.is_paused()) {
            asked.attempts.is_over = is_background || !all_cool_down;
        }
        let mut pauses = self.router.policy.pauses.iter();
        loop {
            if let Some(response) = self.round(&mut asked, anyway).await {
                return response;
            }
            let waits = asked.iter().filter_map(|asked| asked.attempts.wait());
            let (Some(wait), Some(pause)) = (waits.min(), pauses.next()) else {
                break;
            };
            let pause = jittered(wait.max(*pause));
            self.announce_round(&asked, pause);
            tokio::time::sleep(pause).await;
            anyway = true;
        }
        self.failed_response(&asked)
    }

    /// Asks each open candidate until one answers.
    async fn round(&mut self, asked: &mut [Asked<'_>], anyway: bool) -> Option<LlmResponse> {
        for index in 0..asked.len() {
            let (before, rest) = asked.split_at_mut(index);
            let [current, later @ ..] = rest else { break };
            if !current.is_open(anyway) {
                continue;
            }
            let slot = current.slot;
            let permit = match anyway {
                true => slot.health.admit_anyway(),
                false => match slot.health.admit() {
                    Some(permit) => permit,
                    None => continue,
                },
            };
            let candidate = &slot.candidate;
            let next = later.iter().find(|other| other.is_open(anyway));
            let outcome = self
                .candidate(candidate, &mut current.attempts, next.is_some())
                .await;
            match outcome {
                Outcome::Answered(response) => {
                    if permit.succeeded() {
                        self.router.save_cooldowns();
                    }
                    if let Some(preferred) = before.first() {
                        self.announce_fallback(preferred, candidate);
                    }
                    return Some(self.answered(response, candidate));
                }
                Outcome::BrokenOff(error) => {
                    return Some(self.broken_off_response(candidate, &error));
                }
                Outcome::Refused(response) => return Some(self.with_usage(response)),
                Outcome::GaveUp => {}
            }
            let Some(error) = &current.attempts.error else {
                continue;
            };
            let text = explain::without_advice(error);
            if let Some((cooldown, kind)) = current.attempts.cooldown() {
                permit.start_cooldown(cooldown, kind, text.clone());
                self.router.save_cooldowns();
            }
            if let Some(next) = next {
                let (failed, next) = (candidate.to_string(), next.slot.candidate.to_string());
                self.notice(format!("{failed}: {text}; asking {next} instead"));
            }
        }
        None
    }

    /// Asks one candidate until it answers or is given up for this round.
    async fn candidate(
        &mut self,
        candidate: &Candidate,
        attempts: &mut Attempts,
        has_next: bool,
    ) -> Outcome {
        let mut request = adapt::for_candidate(&self.request, candidate);
        if attempts.images_dropped {
            request.transcript = adapt::without_images(request.transcript);
        }
        if let Some(error) = beyond_window(&request, candidate).await {
            attempts.failed(error, false, &self.router.policy);
            return Outcome::GaveUp;
        }
        loop {
            let (error, is_empty) = match self.exchange(candidate, request.clone()).await {
                Ok(Exchanged::Refused(response)) => return Outcome::Refused(response),
                Ok(Exchanged::Answered(response)) if !is_empty(&response) => {
                    return Outcome::Answered(response);
                }
                Ok(Exchanged::Answered(response)) => {
                    match explain::explain_empty(candidate, &response.finish_reason) {
                        Some(text) => return Outcome::Answered(LlmResponse::error(text)),
                        None => (
                            ProviderError::Malformed("the answer was empty".to_owned()),
                            true,
                        ),
                    }
                }
                Err(error) => (error, false),
            };
            let (title, text) = (candidate.to_string(), explain::without_advice(&error));
            tracing::warn!(trace = %self.context.trace, candidate = title, error = text, "model call failed");
            if std::mem::take(&mut self.shown) {
                if self.restarts >= MAX_RESTARTS {
                    return Outcome::BrokenOff(error);
                }
                self.restarts += 1;
                if let Some(sink) = &self.context.deltas {
                    sink.delta(Delta::Restart);
                }
            }
            let may_lack_images =
                !attempts.images_dropped && adapt::has_images(&request.transcript);
            // Vendors word this refusal in many ways, so every refusal of a request with images
            // counts.
            if may_lack_images
                && matches!(error.recovery(), Recovery::DropImages | Recovery::GiveUp)
            {
                self.notice(format!("{title}: {text}; asking again without images"));
                request.transcript = adapt::without_images(request.transcript);
                attempts.images_dropped = true;
                continue;
            }
            attempts.failed(error, is_empty, &self.router.policy);
            if !(has_next && attempts.may_pass_at_once()) {
                return Outcome::GaveUp;
            }
            tokio::time::sleep(jittered(QUICK_PAUSE)).await;
        }
    }

    /// Announces that the candidates are asked again after a pause.
    fn announce_round(&self, asked: &[Asked<'_>], pause: Duration) {
        let seconds = pause.as_secs_f32().ceil();
        let failed: Vec<_> = asked
            .iter()
            .filter_map(|asked| Some((&asked.slot.candidate, asked.attempts.error.as_ref()?)))
            .collect();
        self.notice(match failed.as_slice() {
            [(candidate, error)] => format!(
                "{}: {}; trying again in {seconds} s",
                candidate,
                explain::without_advice(error)
            ),
            _ => format!("no model answered; trying again in {seconds} s"),
        });
    }

    /// Announces that another candidate than the preferred one answered, and the reason.
    fn announce_fallback(&self, preferred: &Asked<'_>, candidate: &Candidate) {
        let error = match &preferred.attempts.error {
            Some(error) => Some(explain::without_advice(error)),
            None => preferred.slot.health.error().map(|(error, ..)| error),
        };
        if let (Some(sink), Some(error)) = (&self.context.deltas, error) {
            let (failed, answered) = (preferred.slot.candidate.to_string(), candidate.to_string());
            sink.delta(Delta::Fallback(format!(
                "{answered} answered, because {failed} could not: {error}"
            )));
        }
    }

    pub(super) fn notice(&self, line: String) {
        if let Some(sink) = &self.context.deltas {
            sink.delta(Delta::Notice(line));
        }
    }

    fn with_usage(&self, response: LlmResponse) -> LlmResponse {
        LlmResponse {
            usage: self.usage,
            ..response
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
        let text = self.after_partial(explain::failure(candidate, error));
        self.answered(LlmResponse::error(text), candidate)
    }

    /// Returns the explanation of a failure, after the text that the user has seen and that was
    /// withdrawn.
    fn after_partial(&self, why: String) -> String {
        match self.partial.trim_end() {
            "" => why,
            partial => format!("{partial}\n\n[The answer broke off. {why}]"),
        }
    }

    fn failed_response(&self, asked: &[Asked<'_>]) -> LlmResponse {
        let is_too_long = |asked: &&Asked<'_>| {
            let error = asked.attempts.error.as_ref();
            error.is_some_and(|error| error.recovery() == Recovery::Compact)
        };
        let overflowed = asked.iter().find(is_too_long);
        let finish_reason = match overflowed {
            Some(_) => FinishReason::ContextOverflow,
            None => FinishReason::Error,
        };
        let lines = asked.iter().filter_map(|asked| {
            let candidate = &asked.slot.candidate;
            match &asked.attempts.error {
                Some(error) => Some(explain::failure(candidate, error)),
                None => asked
                    .slot
                    .health
                    .error()
                    .map(|(error, wait, _)| explain::pause(candidate, &error, wait)),
            }
        });
        LlmResponse {
            finish_reason,
            usage: self.usage,
            model: overflowed.map(|asked| asked.slot.candidate.model.clone()),
            ..LlmResponse::error(self.after_partial(explain::failures(lines.collect())))
        }
    }
}

/// Returns the reason not to send a request that does not fit into the window with which the server
/// runs the model, with an eighth of it left for the answer: local servers drop the beginning of such
/// a request, and answer the rest.
async fn beyond_window(request: &ChatRequest, candidate: &Candidate) -> Option<ProviderError> {
    let needed = request.estimated_tokens?;
    let served = candidate.provider.context_window(&candidate.model).await?;
    let window = usize::try_from(served.tokens).ok()?;
    (needed > window - window / 8).then(|| {
        ProviderError::ContextOverflow(format!(
            "it runs with a window of {window} tokens, but the system prompt, the tools and the conversation need about \
             {needed}. Nothing was sent, because the server would drop the beginning. {}",
            served.advice
        ))
    })
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
