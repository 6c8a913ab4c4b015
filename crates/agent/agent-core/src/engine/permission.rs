//! Decides whether a call may run, and asks a person if necessary.
//!
//! Decision: a call is reviewed again after the answer. A permission is for exactly the call that
//! was shown, so a folder or an environment that changed meanwhile makes it void.

use nanobot_approvals::{
    Approvals, CallBinding, Decision, Outcome, PermissionRequest, QuestionState,
};
use nanobot_tool::{CallReview, Registry, ToolContext};
use nanobot_types::{ChatAddress, Origin, ToolCall, TraceId};
use tokio_util::sync::CancellationToken;

use super::TurnFacts;

/// Result of a call whose circumstances changed while a person thought about it.
const CHANGED: &str = "Error: the circumstances of this call changed after the user was asked, so it did not run. \
                       Repeat the call if it is still needed.";

/// The decision about a call.
pub(super) enum Permission {
    /// It runs; `true` if a person agreed to exactly this call.
    Runs(bool),
    /// It does not run. The text is its result.
    Refused(String),
    /// The turn was cancelled while it waited for an answer.
    Interrupted,
}

/// What the decisions of one call depend on.
pub(super) struct Permits<'a> {
    /// `None` if no one is ever asked.
    pub(super) approvals: Option<&'a Approvals>,
    pub(super) registry: &'a Registry,
    pub(super) facts: &'a TurnFacts,
    pub(super) trace: &'a TraceId,
    pub(super) cancel: &'a CancellationToken,
    /// Origin of the text by strangers that the turn read, if it did.
    pub(super) untrusted: Option<&'a str>,
}

impl Permits<'_> {
    /// Decides about a call that is about to run.
    pub(super) async fn before(&self, call: &ToolCall, context: &ToolContext) -> Permission {
        let Some(approvals) = self.approvals else {
            return Permission::Runs(false);
        };
        let call = &self.by_own_name(call);
        if !approvals.concerns(call.name.as_str(), self.untrusted) {
            return Permission::Runs(false);
        }
        let review = match self.registry.review(call, context).await {
            Ok(Some(review)) => review,
            Ok(None) => return Permission::Runs(false),
            Err(failure) => return Permission::Refused(failure.output),
        };
        match approvals.decide(call, &review, self.untrusted).await {
            Decision::Run => Permission::Runs(false),
            Decision::Deny(text) => Permission::Refused(text),
            Decision::Ask(reason) => self.ask(approvals, call, context, &review, &reason).await,
        }
    }

    /// Asks about a call that a tool did not run, because a person has to confirm it first.
    pub(super) async fn confirmed(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        reason: &str,
    ) -> Permission {
        let Some(approvals) = self.approvals else {
            return Permission::Refused(reason.to_owned());
        };
        let call = &self.by_own_name(call);
        if approvals.allows(call.name.as_str()) {
            return Permission::Runs(true);
        }
        match self.registry.review(call, context).await {
            Ok(Some(review)) => self.ask(approvals, call, context, &review, reason).await,
            Ok(None) => Permission::Refused(reason.to_owned()),
            Err(failure) => Permission::Refused(failure.output),
        }
    }

    /// Returns a call with the name of the tool that it runs: rules must not be avoided by an alias.
    fn by_own_name(&self, call: &ToolCall) -> ToolCall {
        let tool = self.registry.get(&call.name);
        ToolCall {
            name: tool.map_or_else(|| call.name.clone(), |tool| tool.spec().name.clone()),
            ..call.clone()
        }
    }

    async fn ask(
        &self,
        approvals: &Approvals,
        call: &ToolCall,
        context: &ToolContext,
        review: &CallReview,
        reason: &str,
    ) -> Permission {
        let facts = self.facts;
        let binding = CallBinding::of(self.trace, context.position, call, review);
        let address = ChatAddress {
            delivery: facts.delivery.clone(),
            chat: facts.chat,
            ..ChatAddress::new(facts.channel.clone(), facts.chat_id.clone())
        };
        // Jobs and subagents have senders that write no messages.
        let sender = facts.sender.as_ref();
        let request = PermissionRequest {
            call,
            review,
            binding: &binding,
            reason,
            session: &facts.session,
            address: &address,
            sender: sender.filter(|_| facts.origin == Origin::User),
            cancel: self.cancel,
        };
        match approvals.permission(request).await {
            Outcome::Refused(text) => return Permission::Refused(text),
            Outcome::Interrupted => return Permission::Interrupted,
            Outcome::Granted => {}
        }
        let now = self.registry.review(call, context).await;
        let is_same = now.is_ok_and(|now| {
            now.is_some_and(|now| {
                CallBinding::of(self.trace, context.position, call, &now) == binding
            })
        });
        if !is_same {
            return Permission::Refused(CHANGED.to_owned());
        }
        match approvals.begin(&binding).await {
            Ok(()) => Permission::Runs(true),
            Err(error) => Permission::Refused(format!(
                "Error: the permission could not be recorded, so the call did not run: {error}"
            )),
        }
    }

    /// Returns `true` if a call of an interrupted turn certainly did not begin, because a person
    /// was still being asked about it.
    pub(super) async fn was_waiting(&self, position: u32) -> bool {
        let Some(approvals) = self.approvals else {
            return false;
        };
        let state = approvals.interrupted(self.trace, position).await;
        state.is_some_and(|state| state != QuestionState::Begun)
    }
}
