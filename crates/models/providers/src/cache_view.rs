//! Renders a request as the vendor's prompt cache sees it.

use nanobot_provider::ChatRequest;
use nanobot_types::ProviderName;

use crate::{ProviderSpec, RenderedMessages, WireProtocol, anthropic, openai, responses};

/// Renders a request as the provider `name` with this row would send it.
#[must_use]
pub fn render(spec: &ProviderSpec, name: &ProviderName, request: &ChatRequest) -> RenderedMessages {
    match spec.wire {
        WireProtocol::Responses => responses::render(name, request),
        WireProtocol::OpenAi if spec.needs_responses(request.model.as_str()) => {
            responses::render(name, request)
        }
        WireProtocol::Anthropic => anthropic::render(name, request),
        WireProtocol::OpenAi
        | WireProtocol::Azure
        | WireProtocol::Demo
        | WireProtocol::Unsupported(_) => openai::render(spec, name, request),
    }
}
