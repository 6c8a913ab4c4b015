//! In-process extraction, without the helper process, for documents that a test wrote itself.

use async_trait::async_trait;
use nanobot_extract::{Extract, ExtractError, ExtractRequest, ExtractResponse};
use nanobot_formats::read;

/// Extracts in this process, without any limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

#[async_trait]
impl Extract for InProcess {
    async fn extract(&self, request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
        read(request)
    }
}
