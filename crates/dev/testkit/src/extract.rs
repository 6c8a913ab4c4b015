//! In-process extraction, without the helper process, for documents that a test wrote itself.

use async_trait::async_trait;
use nanobot_extract::{Answer, Extract, ExtractError, Request};
use nanobot_formats::read;

/// Extracts in this process, without any limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

#[async_trait]
impl Extract for InProcess {
    async fn extract(&self, request: Request) -> Result<Answer, ExtractError> {
        read(request)
    }
}
