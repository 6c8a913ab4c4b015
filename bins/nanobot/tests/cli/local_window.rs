//! A local server that runs its model with a small window, as Ollama does unless it is configured.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

/// Tools of a lean prompt; the others are found by `tool_search`.
const CORE: [&str; 9] = [
    "edit_file",
    "exec",
    "list_dir",
    "read_file",
    "tool_call",
    "tool_search",
    "web_fetch",
    "web_search",
    "write_file",
];
/// Members of a request to a local server without settings. The answer has half of the window.
const MEMBERS: [&str; 7] = [
    "max_tokens",
    "messages",
    "model",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
];
/// Maximum size of the first lean request in a fresh home, in bytes.
const FIRST_REQUEST: usize = 5 * 1024;
const ADVICE: &str = "OLLAMA_CONTEXT_LENGTH";

/// Starts an Ollama whose model is loaded with this window.
async fn ollama(window: u32) -> ModelServer {
    let model = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    load(&model, window);
    model
}

fn load(model: &ModelServer, window: u32) {
    let entry = json!({"model": "qwen3:latest", "context_length": window});
    model.serve("/api/ps", json!({"models": [entry]}));
}

/// Returns a home with this model and these settings of `agents.defaults`.
fn home(model: &ModelServer, settings: &Value) -> Home {
    let home = Home::new();
    let mut defaults = json!({"model": "qwen3", "provider": "ollama"});
    let more = settings.as_object().unwrap().clone();
    defaults.as_object_mut().unwrap().extend(more);
    home.configure(&json!({
        "agents": {"defaults": defaults},
        "providers": {"ollama": {"apiBase": model.base_url()}},
    }));
    home
}

async fn say(home: &Home, session: &str, text: &str) -> (i32, String, String) {
    let run = home.run(&["agent", "-s", session, "-m", text]).await;
    (run.code, run.stdout, run.stderr)
}

#[tokio::test]
async fn a_small_window_is_named_with_advice_and_gets_a_lean_prompt() {
    let model = ollama(4_096).await;
    let home = home(&model, &json!({}));
    let (code, _, stderr) = say(&home, "cli:one", "hello").await;
    assert_eq!(code, 0, "{stderr}");
    let notice = "ollama/qwen3 runs with a window of 4096 tokens";
    assert_says(&stderr, &[notice, ADVICE]);
    // A larger window does not change the prompt of a conversation, which the server has cached.
    load(&model, 131_072);
    let (code, _, stderr) = say(&home, "cli:one", "hello again").await;
    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("window"), "{stderr}");

    let requests = model.requests();
    let [first, second] = &*requests else {
        panic!("{} requests", requests.len());
    };
    for request in [first, second] {
        let mut members: Vec<_> = request.json.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, MEMBERS);
        assert_eq!(request.tool_names(), CORE);
    }
    assert_eq!(first.system(), second.system());
    let limits = [first, second].map(|request| request.json["max_tokens"].clone());
    assert_eq!(limits, [json!(2_048), json!(8_192)]);
    let body = std::str::from_utf8(&first.http.body).unwrap();
    let body = body.replace(home.path().to_str().unwrap(), "/home/ann/.nanobot");
    assert!(body.len() <= FIRST_REQUEST, "{} bytes:\n{body}", body.len());
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_request_that_cannot_fit_is_refused_with_advice_and_not_sent() {
    let model = ollama(4_096).await;
    let home = home(&model, &json!({}));
    let rules = "Always be polite to everyone. ".repeat(500);
    home.write("workspace/AGENTS.md", &rules);
    home.write("workspace/SOUL.md", &rules);
    let (code, stdout, _) = say(&home, "cli:one", "hello").await;
    assert_eq!(code, 1, "{stdout}");
    assert_says(&stdout, &["4096 tokens", "Nothing was sent", ADVICE]);
    assert_eq!(model.requests().len(), 0);

    load(&model, 16_384);
    let (code, stdout, stderr) = say(&home, "cli:one", "and now?").await;
    assert_eq!((code, stdout.as_str()), (0, "ok\n"), "{stderr}");
}

#[tokio::test]
async fn reports_have_the_window_of_the_server() {
    let model = ollama(4_096).await;
    let home = home(&model, &json!({}));
    say(&home, "cli:direct", "hello").await;
    let report = home.run(&["agent", "-m", "/context"]).await;
    assert_says(
        &report.stdout,
        &["in a window of 4096", "tools (9)", ADVICE],
    );
    let findings = home.run(&["doctor"]).await;
    let finding = "the server runs it with a window of 4096 tokens [model.window]";
    assert_says(&findings.stdout, &[finding, ADVICE]);
}

#[tokio::test]
async fn settings_fix_the_profile_and_the_temperature() {
    for (settings, window, is_lean) in [
        (
            json!({"promptProfile": "full", "temperature": 0.3}),
            4_096,
            false,
        ),
        (json!({"promptProfile": "lean"}), 131_072, true),
        (json!({"contextWindowTokens": 8_192}), 131_072, true),
        (json!({}), 131_072, false),
    ] {
        let model = ollama(window).await;
        let home = home(&model, &settings);
        let (code, _, stderr) = say(&home, "cli:one", "hello").await;
        assert_eq!(code, 0, "{settings}: {stderr}");
        let requests = model.requests();
        let is_core = requests[0].tool_names() == CORE;
        assert_eq!(is_core, is_lean, "{settings}");
        let temperature = settings.get("temperature");
        assert_eq!(requests[0].json.get("temperature"), temperature);
    }
}

#[tokio::test]
async fn calls_in_the_text_of_a_local_model_run_only_if_that_is_on() {
    let call = "<function=read_file>\n<parameter=path>\nnotes.txt\n</parameter>\n</function>";
    for is_on in [false, true] {
        let replies = [Reply::text(call), Reply::text("There is milk on it.")];
        let model = ModelServer::scripted(replies).await.unwrap();
        load(&model, 32_768);
        let home = home(&model, &json!({"parseCallsFromText": is_on}));
        home.write("workspace/notes.txt", "Buy milk.");
        let (code, stdout, stderr) = say(&home, "cli:one", "What is on my list?").await;
        assert_eq!(code, 0, "{stderr}");
        let requests = model.requests();
        if !is_on {
            assert_eq!((requests.len(), stdout.trim()), (1, call));
            continue;
        }
        assert_eq!(stdout, "There is milk on it.\n");
        let messages = requests[1].json["messages"].as_array().unwrap();
        let [.., said, result] = &messages[..] else {
            panic!("{messages:?}");
        };
        assert_eq!(said["tool_calls"][0]["function"]["name"], "read_file");
        assert_says(result["content"].as_str().unwrap(), &["Buy milk."]);
        assert_eq!(model.violations(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn explained_model_has_its_window_and_the_source() {
    let model = ollama(4_096).await;
    for (settings, wanted, expected) in [
        (
            json!({}),
            "qwen3",
            "4096 tokens (answer of the local server)",
        ),
        (
            json!({"contextWindowTokens": 2_048}),
            "qwen3",
            "2048 tokens (configuration)",
        ),
        (
            json!({"contextWindowTokens": 0}),
            "qwen3",
            "4096 tokens (answer of the local server)",
        ),
        (
            json!({"contextWindowTokens": 0}),
            "openai/gpt-4.1",
            "no limit (configuration)",
        ),
        (
            json!({}),
            "openai/gpt-4.1",
            "1047576 tokens (bundled table)",
        ),
        (json!({}), "small", "1024 tokens (configuration)"),
        (
            json!({}),
            "openai/unheard-of",
            "65536 tokens (default for unknown models; ",
        ),
    ] {
        let home = Home::new();
        let mut defaults = json!({"model": "qwen3", "provider": "ollama"});
        let more = settings.as_object().unwrap().clone();
        defaults.as_object_mut().unwrap().extend(more);
        home.configure(&json!({
            "agents": {"defaults": defaults},
            "modelPresets": {"small": {"model": "ollama/qwen3", "contextWindowTokens": 1_024}},
            "providers": {"ollama": {"apiBase": model.base_url()}, "openai": {"apiKey": "k"}},
        }));
        let why = home.run(&["models", "why", wanted]).await;
        assert_says(&why.stdout, &[&format!("  window    {expected}")]);
        assert_eq!((why.code, why.stderr.as_str()), (0, ""), "{wanted}");
    }
    let home = home(&model, &json!({}));
    let why = home.run(&["models", "why", "qwen3", "--json"]).await;
    let route: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(
        (&route["contextWindow"], &route["windowSource"]),
        (&json!(4_096), &json!("server"))
    );
    assert_eq!(model.requests().len(), 0);
}
