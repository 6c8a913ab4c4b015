//! Tests of drafts.

mod drafts;
mod previews;
mod record;
pub(crate) mod support;
