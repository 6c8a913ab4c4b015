//! Content of the file of approvals: standing permissions and open questions.

use chrono::{DateTime, TimeDelta, Utc};
use nanobot_types::{ChannelName, ChatAddress, ChatId, SenderId, ToolName};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::question::{CallBinding, OpenQuestion};

/// Maximum number of standing permissions.
const MAX_GRANTS: usize = 500;
/// Maximum number of questions that are kept.
pub(crate) const MAX_QUESTIONS: usize = 64;
/// Time for which a question is kept after it expired, for the turn that waits for it.
const KEPT: TimeDelta = TimeDelta::days(1);

/// Id of a standing permission, as people type it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub String);

/// A standing permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The channel for whose chat it holds.
    pub channel: ChannelName,
    /// The chat for which it holds.
    pub chat: ChatId,
    /// The tool.
    pub tool: ToolName,
    /// The calls of the tool that it covers.
    pub rule: String,
    /// The person who gave it.
    pub by: SenderId,
    /// The time at which it was given.
    pub at: DateTime<Utc>,
}

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Book {
    pub(crate) grants: Vec<Grant>,
    pub(crate) questions: Vec<OpenQuestion>,
}

impl Book {
    /// Returns `true` if a standing permission covers calls of this rule.
    pub(crate) fn covers(&self, address: &ChatAddress, tool: &ToolName, rule: &str) -> bool {
        self.grants.iter().any(|grant| {
            grant.channel == address.channel
                && grant.chat == address.chat_id
                && grant.tool == *tool
                && grant.rule == rule
        })
    }

    /// Adds the permission that a question offered, unless there is one. The oldest one goes when
    /// there are too many.
    pub(crate) fn grant(&mut self, question: &OpenQuestion, by: &SenderId, at: DateTime<Utc>) {
        let Some(rule) = &question.rule else { return };
        if self.covers(&question.address, &question.tool, rule) {
            return;
        }
        if self.grants.len() >= MAX_GRANTS {
            self.grants.remove(0);
        }
        let id: String = Uuid::new_v4()
            .simple()
            .to_string()
            .chars()
            .take(8)
            .collect();
        self.grants.push(Grant {
            id: GrantId(id),
            channel: question.address.channel.clone(),
            chat: question.address.chat_id.clone(),
            tool: question.tool.clone(),
            rule: rule.clone(),
            by: by.clone(),
            at,
        });
    }

    /// Returns the question about a call with exactly this binding.
    pub(crate) fn find(&mut self, binding: &CallBinding) -> Option<&mut OpenQuestion> {
        self.questions
            .iter_mut()
            .find(|question| question.binding() == *binding)
    }

    /// Removes questions about the call at this position of a turn.
    pub(crate) fn close(&mut self, binding: &CallBinding) {
        self.questions.retain(|question| {
            question.trace != binding.trace || question.position != binding.position
        });
    }

    /// Removes what no turn waits for any more.
    pub(crate) fn remove_old(&mut self, now: DateTime<Utc>) {
        self.questions
            .retain(|question| question.expires_at + KEPT > now);
    }
}
