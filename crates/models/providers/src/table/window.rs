//! Context windows of models.
//!
//! Decision: a table of model families, matched by the beginning of the model's own name. If a
//! vendor sells several sizes under one name, the table has the smaller one. If input and output
//! have separate limits, it has the input's: summarising too early costs little, a request that
//! does not fit fails. A model that is not in the table has no known window. `docs/context.md` says
//! where to check a number.

/// Families and their windows, in tokens. The longest matching name wins.
const WINDOWS: &[(&str, u32)] = &[
    // Anthropic
    ("claude", 200_000),
    // OpenAI
    ("gpt-3.5-turbo", 16_385),
    ("gpt-4", 8_192),
    ("gpt-4-32k", 32_768),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-1106", 128_000),
    ("gpt-4-0125", 128_000),
    ("gpt-4o", 128_000),
    ("chatgpt-4o", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4.5", 128_000),
    ("gpt-5", 272_000),
    ("gpt-5-chat", 128_000),
    ("gpt-5.1-chat", 128_000),
    ("gpt-5.2-chat", 128_000),
    ("gpt-5.3-chat", 128_000),
    ("gpt-5.3-codex-spark", 100_000),
    ("gpt-oss", 131_072),
    ("o1", 200_000),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("codex-mini", 200_000),
    // Google
    ("gemini", 1_048_576),
    ("gemini-1.0", 30_720),
    ("gemini-pro", 30_720),
    ("gemma", 8_192),
    ("gemma-3", 131_072),
    ("gemma3", 131_072),
    // DeepSeek
    ("deepseek", 65_536),
    ("deepseek-chat", 128_000),
    ("deepseek-reasoner", 128_000),
    ("deepseek-v3", 128_000),
    ("deepseek-r1", 128_000),
    ("deepseek-v4", 1_000_000),
    // Moonshot
    ("kimi-k2", 131_072),
    ("kimi-k2-0905", 262_144),
    ("kimi-k2-thinking", 262_144),
    ("kimi-k2.5", 262_144),
    ("kimi-k2.6", 262_144),
    ("kimi-latest", 131_072),
    ("moonshot-v1-8k", 8_192),
    ("moonshot-v1-32k", 32_768),
    ("moonshot-v1-128k", 131_072),
    // Alibaba
    ("qwen", 32_768),
    ("qwen-plus", 131_072),
    ("qwen-turbo", 131_072),
    ("qwen-long", 1_000_000),
    ("qwen3-max", 262_144),
    ("qwen3-coder", 262_144),
    ("qwen3-next", 262_144),
    ("qwen3.6-max", 262_144),
    ("qwq", 131_072),
    // Zhipu
    ("glm-4", 128_000),
    ("glm-4.5", 131_072),
    ("glm-4.6", 200_000),
    ("glm-4.7", 200_000),
    ("glm-5", 200_000),
    // MiniMax
    ("minimax-m1", 1_000_000),
    ("minimax-m2", 204_800),
    ("minimax-m3", 512_000),
    ("minimax-text-01", 1_000_000),
    // ByteDance
    ("doubao", 131_072),
    ("doubao-seed", 262_144),
    ("seed-oss", 524_288),
    // Mistral
    ("mistral", 32_768),
    ("mistral-large", 131_072),
    ("mistral-medium", 131_072),
    ("mistral-small", 131_072),
    ("mistral-nemo", 131_072),
    ("ministral", 131_072),
    ("mixtral", 32_768),
    ("magistral", 40_960),
    ("codestral", 131_072),
    ("devstral", 131_072),
    ("pixtral", 131_072),
    // Meta
    ("llama-3", 8_192),
    ("llama3", 8_192),
    ("llama-3.1", 131_072),
    ("llama3.1", 131_072),
    ("llama-3.2", 131_072),
    ("llama3.2", 131_072),
    ("llama-3.3", 131_072),
    ("llama3.3", 131_072),
    ("llama-4", 131_072),
    // xAI
    ("grok", 131_072),
    ("grok-4", 256_000),
    ("grok-4-fast", 2_000_000),
    // More tokens cost more for each of them.
    ("grok-4.20", 200_000),
    ("grok-4.3", 200_000),
    ("grok-4.5", 200_000),
    ("grok-code-fast", 256_000),
    // Others
    ("command-r", 128_000),
    ("command-a", 256_000),
    ("nova-micro", 128_000),
    ("nova-lite", 300_000),
    ("nova-pro", 300_000),
    ("phi-4", 16_384),
    ("nemotron", 131_072),
    ("step-3", 65_536),
    ("hunyuan", 32_768),
    ("ernie-4.5", 131_072),
    ("ernie", 8_192),
];

/// Returns the context window of a model in tokens, by its name in any vendor's spelling; `None`
/// for a model that is not in the table.
#[must_use]
pub fn context_window(model: &str) -> Option<u32> {
    let name = own_name(model);
    let fitting = WINDOWS
        .iter()
        .filter(|(family, _)| name.starts_with(family));
    fitting
        .max_by_key(|(family, _)| family.len())
        .map(|(_, window)| *window)
}

/// Strips the names of vendors and regions from a model's name: `openrouter/anthropic/claude-…`,
/// `us.anthropic.claude-…`, `meta-llama/Llama-3.3-…`.
pub(super) fn own_name(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    let last = lower.rsplit('/').next().unwrap_or(&lower);
    let vendors = [
        "anthropic.",
        "meta.",
        "amazon.",
        "mistral.",
        "cohere.",
        "deepseek.",
        "openai.",
        "moonshot.",
        "qwen.",
    ];
    let regions = ["us.", "eu.", "apac.", "global."];
    let here = regions
        .iter()
        .find_map(|region| last.strip_prefix(region))
        .unwrap_or(last);
    let bare = vendors
        .iter()
        .find_map(|vendor| here.strip_prefix(vendor))
        .unwrap_or(here);
    let bare = bare.strip_prefix("meta-").unwrap_or(bare);
    bare.strip_prefix("models-").unwrap_or(bare).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_model_family_decides_for_any_vendor() {
        for (model, window) in [
            ("anthropic/claude-opus-4-5", Some(200_000)),
            ("openrouter/anthropic/claude-sonnet-4.5", Some(200_000)),
            (
                "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
                Some(200_000),
            ),
            ("gpt-4", Some(8_192)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-4o-mini", Some(128_000)),
            ("openai/gpt-4.1-nano", Some(1_047_576)),
            ("gpt-5.1-codex", Some(272_000)),
            ("models/gemini-2.5-pro", Some(1_048_576)),
            ("deepseek-chat", Some(128_000)),
            ("Qwen/Qwen3-Coder-480B-A35B-Instruct", Some(262_144)),
            ("meta-llama/Llama-3.3-70B-Instruct", Some(131_072)),
            ("llama3.2:3b", Some(131_072)),
            ("kimi-k2.5", Some(262_144)),
            ("my-own-model", None),
            ("", None),
        ] {
            assert_eq!(context_window(model), window, "{model}");
        }
    }

    #[test]
    fn model_families_are_unique() {
        let mut names: Vec<&str> = WINDOWS.iter().map(|(family, _)| *family).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WINDOWS.len());
    }
}
