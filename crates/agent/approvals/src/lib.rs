//! Approvals: whether a tool call may run, the question to a person, and the answer.
//!
//! Decision: a question is on disk before it is shown, and an answer before it has an effect, so
//! that a turn which a restart interrupts finds both again. A permission is bound to a digest of
//! the tool, the exact bytes of the arguments and the circumstances that the tool names. No answer
//! in time is a refusal.

mod answer;
mod book;
mod desk;
mod policy;
mod question;
mod store;

pub use answer::{Answer, Reply};
pub use book::{Grant, GrantId};
pub use desk::{ApprovalWatch, Approvals, Asker, Outcome, PermissionRequest, PrivateTexts};
pub use policy::{ApprovalSettings, Decision, ToolRule};
pub use question::{CallBinding, OpenQuestion, QuestionState};
pub use store::{ApprovalError, ApprovalStore};
