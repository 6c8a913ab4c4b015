//! Every row of the vendor table: address, key, model name and body of a request to it.

use std::collections::BTreeSet;

use nanobot_provider::{ChatRequest, Generation, ProviderRouter};
use nanobot_providers::{TABLE, WireProtocol};
use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{KEY, candidate, context, hello, quick, settings, words};

/// A row's name, the configured model, the model in its spelling, and the member of the body that
/// asks for reasoning.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// The rows that speak Chat Completions with a bearer token.
const CHAT: &[Row] = &[
    ("custom", "custom/m", "custom/m", EFFORT),
    (
        "openrouter",
        "openrouter/vendor/m",
        "vendor/m",
        r#""reasoning":{"effort":"high"}"#,
    ),
    ("aihubmix", "vendor/m", "m", EFFORT),
    ("siliconflow", "siliconflow/Org/m", "Org/m", FLAG),
    ("volcengine", "volcengine/m", "m", TYPE),
    ("volcengine_coding_plan", "volcengine-plan/m", "m", TYPE),
    ("byteplus", "byteplus/m", "m", TYPE),
    ("byteplus_coding_plan", "byteplus-plan/m", "m", TYPE),
    ("openai", "openai/gpt-5", "gpt-5", EFFORT),
    ("deepseek", "deepseek/m", "m", TYPE),
    ("gemini", "gemini/m", "m", EFFORT),
    ("zhipu", "zai/m", "m", EFFORT),
    ("dashscope", "dashscope/m", "m", FLAG),
    ("moonshot", "moonshot/m", "m", EFFORT),
    ("minimax", "minimax/m", "m", r#""reasoning_split":true"#),
    ("vllm", "Org/m", "Org/m", EFFORT),
    ("ollama", "ollama_chat/m:8b", "m:8b", EFFORT),
    ("groq", "groq/m", "m", EFFORT),
    ("orcarouter", "orcarouter/m", "m", EFFORT),
    ("edenai", "edenai/m", "m", EFFORT),
    ("opencode", "opencode-zen/m", "m", EFFORT),
    ("opencode_go", "opencode-go/m", "m", EFFORT),
    ("huggingface", "Org/m", "Org/m", EFFORT),
    ("skywork", "skywork/m", "m", EFFORT),
    ("novita", "novita/m", "m", EFFORT),
    ("modelscope", "modelscope/m", "m", FLAG),
    ("mistral", "mistral/m", "m", EFFORT),
    ("stepfun", "stepfun/m", "m", EFFORT),
    ("xiaomi_mimo", "xiaomi-mimo/m", "m", TYPE),
    ("longcat", "longcat/m", "m", EFFORT),
    ("ant_ling", "ant-ling/m", "m", EFFORT),
    ("lm_studio", "lmstudio/m", "m", EFFORT),
    ("llama_cpp", "llama-cpp/m", "m", EFFORT),
    ("atomic_chat", "atomic-chat/m", "m", EFFORT),
    ("ovms", "ovms/m", "m", EFFORT),
    ("nvidia", "Org/m", "Org/m", EFFORT),
    ("qianfan", "qianfan/m", "m", EFFORT),
    ("xai", "x-ai/m", "m", EFFORT),
];

/// The rows that speak Anthropic's protocol.
const ANTHROPIC: &[Row] = &[
    ("anthropic", "anthropic/m", "m", BUDGET),
    ("kimi_coding", "kimi-coding/m", "m", BUDGET),
    ("minimax_anthropic", "minimax-anthropic/m", "m", BUDGET),
];

const EFFORT: &str = r#""reasoning_effort":"high""#;
const FLAG: &str = r#""enable_thinking":true"#;
const TYPE: &str = r#""thinking":{"type":"enabled"}"#;
const BUDGET: &str = r#""thinking":{"budget_tokens":4096,"type":"enabled"}"#;

#[tokio::test]
async fn each_row_sends_what_its_vendor_expects() {
    let bearer = format!("Bearer {KEY}");
    let chat = CHAT
        .iter()
        .map(|row| (row, "/v1/chat/completions", "authorization", &*bearer));
    let anthropic = ANTHROPIC
        .iter()
        .map(|row| (row, "/v1/messages", "x-api-key", KEY));
    let azure: Row = ("azure_openai", "my/deployment", "my/deployment", EFFORT);
    let azure_path = "/v1/openai/deployments/my%2Fdeployment/chat/completions";
    let azure = (&azure, azure_path, "api-key", KEY);
    let mut checked = BTreeSet::new();
    for ((name, model, wire_model, reasoning), path, header, key) in
        chat.chain(anthropic).chain([azure])
    {
        let server = ModelServer::with_key(KEY, [Reply::text("ok")])
            .await
            .unwrap();
        let candidate = candidate(name, &settings(&server.base_url()), model);
        let request = ChatRequest {
            generation: Generation {
                reasoning_effort: Some("high".to_owned()),
                ..Generation::default()
            },
            ..hello()
        };
        let router = ProviderRouter::new([candidate], quick());
        let response = router.chat_with_failover(request, &context()).await;
        assert_eq!(words(&response), "ok", "{name}: {response:?}");
        assert_eq!(server.violations(), Vec::<String>::new(), "{name}");
        let sent = &server.requests()[0];
        assert_eq!(sent.http.path(), path, "{name}");
        assert_eq!(sent.http.header(header), Some(key), "{name}");
        let body: &Value = &sent.json;
        assert_eq!(
            (&body["model"], &body["stream"]),
            (&json!(wire_model), &json!(true)),
            "{name}"
        );
        assert!(body.to_string().contains(reasoning), "{name}: {body}");
        checked.insert(*name);
    }
    // Logins, and rows without a chat model, have tests of their own.
    let has_key = |spec: &&nanobot_providers::ProviderSpec| {
        let is_other = matches!(spec.wire, WireProtocol::Demo | WireProtocol::Unsupported(_));
        spec.sign_in.is_none() && !is_other
    };
    let all: BTreeSet<&str> = TABLE.iter().filter(has_key).map(|spec| spec.name).collect();
    assert_eq!(checked, all);
}
