//! The rows of the vendor table.

use super::{
    ModelRule, ProviderKind, ProviderSpec, Quirks, ReasoningParam, SignIn, WindowApi, WireProtocol,
};

const STRIP: ModelRule = ModelRule::StripOwn(&[]);

/// Defaults of a row.
const VENDOR: ProviderSpec = ProviderSpec {
    name: "",
    label: "",
    keywords: &[],
    environment: &[],
    base: None,
    key_prefix: "",
    base_marker: "",
    kind: ProviderKind::Vendor,
    wire: WireProtocol::OpenAi,
    sign_in: None,
    model: STRIP,
    default_model: None,
    public_list: false,
    responses_models: &[],
    quirks: Quirks::NONE,
    window_api: None,
    key_hint: "",
};

const GATEWAY: ProviderSpec = ProviderSpec {
    kind: ProviderKind::Gateway,
    ..VENDOR
};

const LOCAL: ProviderSpec = ProviderSpec {
    kind: ProviderKind::Local,
    ..VENDOR
};

const THINKING_TYPE: Quirks = Quirks {
    thinking: ReasoningParam::Type,
    ..Quirks::NONE
};

const THINKING_FLAG: Quirks = Quirks {
    thinking: ReasoningParam::Flag,
    ..Quirks::NONE
};

/// The row of `custom` and of all custom providers.
pub const CUSTOM: ProviderSpec = ProviderSpec {
    name: "custom",
    label: "Custom",
    base: Some("http://localhost:8000/v1"),
    kind: ProviderKind::Direct,
    model: ModelRule::Verbatim,
    ..VENDOR
};

/// The built-in demo model.
pub const DEMO: ProviderSpec = ProviderSpec {
    name: "demo",
    label: "Demo (built in)",
    kind: ProviderKind::Direct,
    wire: WireProtocol::Demo,
    model: ModelRule::Verbatim,
    default_model: Some("demo"),
    ..VENDOR
};

/// All vendors in order of preference.
pub const TABLE: &[ProviderSpec] = &[
    CUSTOM,
    ProviderSpec {
        name: "azure_openai",
        label: "Azure OpenAI",
        keywords: &["azure", "azure-openai"],
        kind: ProviderKind::Direct,
        wire: WireProtocol::Azure,
        model: ModelRule::Verbatim,
        quirks: Quirks {
            reasoning_back: None,
            cache_key: true,
            completion_limit: true,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "openrouter",
        label: "OpenRouter",
        keywords: &["openrouter"],
        default_model: Some("anthropic/claude-opus-4.5"),
        public_list: true,
        environment: &["OPENROUTER_API_KEY"],
        base: Some("https://openrouter.ai/api/v1"),
        key_prefix: "sk-or-",
        base_marker: "openrouter",
        model: ModelRule::StripBeforeVendor,
        quirks: Quirks {
            reasoning_back: Some("reasoning"),
            cache_marks: true,
            thinking: ReasoningParam::ReasoningObject,
            ..Quirks::NONE
        },
        ..GATEWAY
    },
    ProviderSpec {
        name: "aihubmix",
        label: "AiHubMix",
        keywords: &["aihubmix"],
        public_list: true,
        default_model: Some("claude-opus-4-5"),
        base: Some("https://aihubmix.com/v1"),
        base_marker: "aihubmix",
        model: ModelRule::LastSegment,
        ..GATEWAY
    },
    ProviderSpec {
        name: "siliconflow",
        label: "SiliconFlow",
        keywords: &["siliconflow"],
        default_model: Some("deepseek-ai/DeepSeek-V3"),
        base: Some("https://api.siliconflow.cn/v1"),
        base_marker: "siliconflow",
        quirks: THINKING_FLAG,
        ..GATEWAY
    },
    ProviderSpec {
        name: "volcengine",
        label: "VolcEngine",
        keywords: &["volcengine", "volces", "ark"],
        base: Some("https://ark.cn-beijing.volces.com/api/v3"),
        base_marker: "volces",
        quirks: THINKING_TYPE,
        ..GATEWAY
    },
    ProviderSpec {
        name: "volcengine_coding_plan",
        label: "VolcEngine Coding Plan",
        keywords: &["volcengine-plan"],
        base: Some("https://ark.cn-beijing.volces.com/api/coding/v3"),
        model: ModelRule::LastSegment,
        quirks: THINKING_TYPE,
        ..GATEWAY
    },
    ProviderSpec {
        name: "byteplus",
        label: "BytePlus",
        keywords: &["byteplus"],
        base: Some("https://ark.ap-southeast.bytepluses.com/api/v3"),
        base_marker: "bytepluses",
        model: ModelRule::LastSegment,
        quirks: THINKING_TYPE,
        ..GATEWAY
    },
    ProviderSpec {
        name: "byteplus_coding_plan",
        label: "BytePlus Coding Plan",
        keywords: &["byteplus-plan"],
        base: Some("https://ark.ap-southeast.bytepluses.com/api/coding/v3"),
        model: ModelRule::LastSegment,
        quirks: THINKING_TYPE,
        ..GATEWAY
    },
    ProviderSpec {
        name: "anthropic",
        label: "Anthropic",
        keywords: &["anthropic", "claude"],
        default_model: Some("claude-opus-4-5"),
        environment: &["ANTHROPIC_API_KEY"],
        base: Some("https://api.anthropic.com"),
        wire: WireProtocol::Anthropic,
        ..VENDOR
    },
    ProviderSpec {
        name: "openai",
        label: "OpenAI",
        keywords: &["openai", "gpt", "chatgpt"],
        default_model: Some("gpt-4.1"),
        environment: &["OPENAI_API_KEY"],
        base: Some("https://api.openai.com/v1"),
        responses_models: &["codex", "pro", "deep-research", "computer-use"],
        quirks: Quirks {
            reasoning_back: None,
            cache_key: true,
            completion_limit: true,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "openai_codex",
        label: "OpenAI Codex",
        keywords: &["openai-codex"],
        base: Some("https://chatgpt.com/backend-api/codex"),
        base_marker: "codex",
        kind: ProviderKind::SignIn,
        wire: WireProtocol::Responses,
        sign_in: Some(SignIn::Codex),
        quirks: Quirks {
            cache_key: true,
            fixed_generation: true,
            verbosity: Some("medium"),
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "github_copilot",
        label: "Github Copilot",
        keywords: &["github_copilot", "copilot"],
        base: Some("https://api.githubcopilot.com"),
        kind: ProviderKind::SignIn,
        sign_in: Some(SignIn::Copilot),
        responses_models: &["codex"],
        quirks: Quirks {
            reasoning_back: None,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "deepseek",
        label: "DeepSeek",
        keywords: &["deepseek"],
        default_model: Some("deepseek-chat"),
        environment: &["DEEPSEEK_API_KEY"],
        base: Some("https://api.deepseek.com"),
        quirks: THINKING_TYPE,
        ..VENDOR
    },
    ProviderSpec {
        name: "gemini",
        label: "Gemini",
        keywords: &["gemini"],
        default_model: Some("gemini-2.5-flash"),
        environment: &["GEMINI_API_KEY"],
        base: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        ..VENDOR
    },
    ProviderSpec {
        name: "zhipu",
        label: "Zhipu AI",
        keywords: &["zhipu", "glm", "zai"],
        default_model: Some("glm-4.6"),
        environment: &["ZAI_API_KEY", "ZHIPUAI_API_KEY"],
        base: Some("https://open.bigmodel.cn/api/paas/v4"),
        model: ModelRule::StripOwn(&["zai"]),
        key_hint: "A key of z.ai needs providers.zhipu.apiBase = https://api.z.ai/api/paas/v4.",
        ..VENDOR
    },
    ProviderSpec {
        name: "dashscope",
        label: "DashScope",
        keywords: &["qwen", "dashscope"],
        default_model: Some("qwen-plus"),
        environment: &["DASHSCOPE_API_KEY"],
        base: Some("https://dashscope.aliyuncs.com/compatible-mode/v1"),
        quirks: THINKING_FLAG,
        ..VENDOR
    },
    ProviderSpec {
        name: "moonshot",
        label: "Moonshot",
        keywords: &["moonshot", "kimi"],
        default_model: Some("kimi-k2.5"),
        environment: &["MOONSHOT_API_KEY"],
        base: Some("https://api.moonshot.ai/v1"),
        quirks: Quirks {
            temperatures: &[("kimi-k2.5", 1.0), ("kimi-k2.7", 1.0)],
            ..Quirks::NONE
        },
        key_hint: "A key of the Chinese site needs providers.moonshot.apiBase = https://api.moonshot.cn/v1.",
        ..VENDOR
    },
    ProviderSpec {
        name: "minimax",
        label: "MiniMax",
        keywords: &["minimax"],
        default_model: Some("MiniMax-M2"),
        environment: &["MINIMAX_API_KEY"],
        base: Some("https://api.minimax.io/v1"),
        quirks: Quirks {
            thinking: ReasoningParam::Split,
            ..Quirks::NONE
        },
        key_hint: "A key of the Chinese site needs providers.minimax.apiBase = https://api.minimaxi.com/v1.",
        ..VENDOR
    },
    ProviderSpec {
        name: "vllm",
        label: "vLLM/Local",
        keywords: &["vllm"],
        window_api: Some(WindowApi::ModelList),
        ..LOCAL
    },
    ProviderSpec {
        name: "ollama",
        label: "Ollama",
        keywords: &["ollama", "nemotron"],
        base: Some("http://localhost:11434/v1"),
        base_marker: "11434",
        model: ModelRule::StripOwn(&["ollama_chat"]),
        window_api: Some(WindowApi::Ollama),
        ..LOCAL
    },
    ProviderSpec {
        name: "groq",
        label: "Groq",
        keywords: &["groq"],
        default_model: Some("llama-3.3-70b-versatile"),
        environment: &["GROQ_API_KEY"],
        base: Some("https://api.groq.com/openai/v1"),
        quirks: Quirks {
            reasoning_back: None,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "orcarouter",
        label: "OrcaRouter",
        keywords: &["orcarouter"],
        base: Some("https://api.orcarouter.ai/v1"),
        key_prefix: "sk-orca-",
        base_marker: "orcarouter",
        ..GATEWAY
    },
    ProviderSpec {
        name: "edenai",
        label: "Eden AI",
        keywords: &["edenai"],
        base: Some("https://api.edenai.run/v3"),
        base_marker: "edenai",
        ..GATEWAY
    },
    ProviderSpec {
        name: "opencode",
        label: "OpenCode Zen",
        keywords: &["opencode", "opencode-zen"],
        public_list: true,
        base: Some("https://opencode.ai/zen/v1"),
        base_marker: "opencode.ai/zen/v1",
        model: ModelRule::StripOwn(&["opencode_zen"]),
        ..GATEWAY
    },
    ProviderSpec {
        name: "opencode_go",
        label: "OpenCode Go",
        keywords: &["opencode-go"],
        public_list: true,
        base: Some("https://opencode.ai/zen/go/v1"),
        base_marker: "opencode.ai/zen/go",
        ..GATEWAY
    },
    ProviderSpec {
        name: "huggingface",
        label: "Hugging Face",
        keywords: &["huggingface"],
        public_list: true,
        environment: &["HF_TOKEN"],
        base: Some("https://router.huggingface.co/v1"),
        key_prefix: "hf_",
        base_marker: "huggingface",
        ..GATEWAY
    },
    ProviderSpec {
        name: "skywork",
        label: "Skywork",
        keywords: &["skywork"],
        base: Some("https://api.apifree.ai/agent/v1"),
        ..GATEWAY
    },
    ProviderSpec {
        name: "novita",
        label: "Novita",
        keywords: &["novita"],
        public_list: true,
        base: Some("https://api.novita.ai/openai"),
        base_marker: "novita",
        ..GATEWAY
    },
    ProviderSpec {
        name: "modelscope",
        label: "ModelScope",
        keywords: &["modelscope"],
        base: Some("https://api-inference.modelscope.cn/v1"),
        base_marker: "modelscope",
        quirks: THINKING_FLAG,
        ..GATEWAY
    },
    ProviderSpec {
        name: "kimi_coding",
        label: "Kimi Coding",
        keywords: &["kimi-coding"],
        default_model: Some("kimi-for-coding"),
        base: Some("https://api.kimi.com/coding/v1"),
        wire: WireProtocol::Anthropic,
        ..VENDOR
    },
    ProviderSpec {
        name: "minimax_anthropic",
        label: "MiniMax (Anthropic)",
        keywords: &["minimax-anthropic"],
        default_model: Some("MiniMax-M2"),
        base: Some("https://api.minimax.io/anthropic"),
        wire: WireProtocol::Anthropic,
        ..VENDOR
    },
    ProviderSpec {
        name: "mistral",
        label: "Mistral",
        keywords: &["mistral", "magistral", "codestral", "devstral"],
        default_model: Some("mistral-large-latest"),
        environment: &["MISTRAL_API_KEY"],
        base: Some("https://api.mistral.ai/v1"),
        quirks: Quirks {
            short_ids: true,
            reasoning_back: None,
            thinking: ReasoningParam::NoneOrHigh,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "stepfun",
        label: "StepFun",
        keywords: &["stepfun"],
        base: Some("https://api.stepfun.com/v1"),
        ..VENDOR
    },
    ProviderSpec {
        name: "xiaomi_mimo",
        label: "Xiaomi MiMo",
        keywords: &["xiaomi-mimo", "mimo"],
        base: Some("https://api.xiaomimimo.com/v1"),
        quirks: THINKING_TYPE,
        ..VENDOR
    },
    ProviderSpec {
        name: "longcat",
        label: "LongCat",
        keywords: &["longcat"],
        base: Some("https://api.longcat.chat/openai/v1"),
        ..VENDOR
    },
    ProviderSpec {
        name: "ant_ling",
        label: "Ant Ling",
        keywords: &["ant-ling"],
        base: Some("https://api.ant-ling.com/v1"),
        ..VENDOR
    },
    ProviderSpec {
        name: "lm_studio",
        label: "LM Studio",
        keywords: &["lm-studio", "lmstudio"],
        base: Some("http://localhost:1234/v1"),
        base_marker: "1234",
        model: ModelRule::StripOwn(&["lmstudio"]),
        window_api: Some(WindowApi::LmStudio),
        ..LOCAL
    },
    ProviderSpec {
        name: "llama_cpp",
        label: "llama.cpp",
        keywords: &["llama-cpp"],
        base: Some("http://localhost:8080/v1"),
        base_marker: "8080",
        window_api: Some(WindowApi::Props),
        ..LOCAL
    },
    ProviderSpec {
        name: "atomic_chat",
        label: "Atomic Chat",
        keywords: &["atomic-chat"],
        base: Some("http://localhost:1337/v1"),
        base_marker: "1337",
        ..LOCAL
    },
    ProviderSpec {
        name: "ovms",
        label: "OpenVINO Model Server",
        keywords: &["ovms"],
        base: Some("http://localhost:8000/v3"),
        base_marker: "/v3",
        ..LOCAL
    },
    ProviderSpec {
        name: "nvidia",
        label: "NVIDIA",
        keywords: &["nvidia"],
        public_list: true,
        environment: &["NVIDIA_API_KEY"],
        base: Some("https://integrate.api.nvidia.com/v1"),
        key_prefix: "nvapi-",
        base_marker: "nvidia",
        ..GATEWAY
    },
    ProviderSpec {
        name: "qianfan",
        label: "Qianfan",
        keywords: &["qianfan", "ernie"],
        base: Some("https://qianfan.baidubce.com/v2"),
        ..VENDOR
    },
    ProviderSpec {
        name: "xai",
        label: "xAI",
        keywords: &["xai", "grok"],
        default_model: Some("grok-4.5"),
        environment: &["XAI_API_KEY"],
        base: Some("https://api.x.ai/v1"),
        quirks: Quirks {
            reasoning_back: None,
            ..Quirks::NONE
        },
        ..VENDOR
    },
    ProviderSpec {
        name: "bedrock",
        label: "AWS Bedrock",
        keywords: &["bedrock"],
        wire: WireProtocol::Unsupported(
            "AWS Bedrock is not supported yet; use a gateway such as OpenRouter",
        ),
        ..VENDOR
    },
    ProviderSpec {
        name: "xai_grok",
        label: "xAI Grok",
        keywords: &["xai-grok"],
        default_model: Some("grok-4.5"),
        base: Some("https://cli-chat-proxy.grok.com/v1"),
        kind: ProviderKind::SignIn,
        wire: WireProtocol::Responses,
        sign_in: Some(SignIn::Grok),
        quirks: Quirks {
            cache_key: true,
            ..Quirks::NONE
        },
        key_hint: "The login needs an account with SuperGrok or X Premium+.",
        ..VENDOR
    },
    ProviderSpec {
        name: "assemblyai",
        label: "AssemblyAI",
        environment: &["ASSEMBLYAI_API_KEY"],
        base: Some("https://api.assemblyai.com/v2"),
        kind: ProviderKind::Speech,
        wire: WireProtocol::Unsupported(
            "it turns speech into text and has no model that answers; name it in transcription.provider",
        ),
        ..VENDOR
    },
    DEMO,
];
