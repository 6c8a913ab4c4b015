//! The model name that a vendor's API receives.

use super::{ModelRule, ProviderSpec, is_same_name};

/// Returns the model's name in the vendor's spelling. Idempotent, except for names that begin with
/// the vendor's name twice.
pub(super) fn wire_model<'a>(spec: &ProviderSpec, model: &'a str) -> &'a str {
    let Some((prefix, rest)) = model.split_once('/') else {
        return model;
    };
    let is_own = is_same_name(prefix, spec.name);
    match spec.model {
        ModelRule::Verbatim => model,
        ModelRule::LastSegment => model.rsplit('/').next().unwrap_or(model),
        ModelRule::StripOwn(also)
            if is_own || also.iter().any(|other| is_same_name(other, prefix)) =>
        {
            rest
        }
        ModelRule::StripBeforeVendor if is_own && rest.contains('/') => rest,
        ModelRule::StripOwn(_) | ModelRule::StripBeforeVendor => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_get_their_own_parameter_names() {
        let table = [
            (
                "openrouter",
                "anthropic/claude-opus-4-5",
                "anthropic/claude-opus-4-5",
            ),
            (
                "openrouter",
                "openrouter/anthropic/claude",
                "anthropic/claude",
            ),
            ("openrouter", "openrouter/free", "openrouter/free"),
            ("aihubmix", "anthropic/claude", "claude"),
            ("byteplus", "byteplus/doubao", "doubao"),
            ("volcengine_coding_plan", "volcengine-plan/x", "x"),
            ("siliconflow", "Qwen/Qwen3", "Qwen/Qwen3"),
            ("siliconflow", "siliconflow/Qwen/Qwen3", "Qwen/Qwen3"),
            ("volcengine", "doubao-1.5", "doubao-1.5"),
            ("vllm", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
            ("anthropic", "anthropic/claude-opus-4-5", "claude-opus-4-5"),
            ("openai", "gpt-4o", "gpt-4o"),
            ("zhipu", "zai/glm-4.6", "glm-4.6"),
            (
                "github_copilot",
                "github-copilot/gpt-5.3-codex",
                "gpt-5.3-codex",
            ),
            ("xai_grok", "xai-grok/grok-4.5", "grok-4.5"),
            ("xai", "x-ai/grok-4.5", "grok-4.5"),
            ("ollama", "ollama/llama3:8b", "llama3:8b"),
            ("ollama", "ollama_chat/llama3", "llama3"),
            ("custom", "custom/whatever", "custom/whatever"),
            ("azure_openai", "my/deployment", "my/deployment"),
        ];
        for (name, model, expected) in table {
            assert_eq!(
                wire_model(ProviderSpec::find(name).unwrap(), model),
                expected,
                "{name} {model}"
            );
        }
    }
}
