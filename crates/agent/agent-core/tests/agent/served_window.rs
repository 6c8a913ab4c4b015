//! Models whose server runs them with a smaller window than the configured one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nanobot_agent_core::{Agent, DirectRequest};
use nanobot_context::{estimate_message, estimate_tokens, estimate_tools};
use nanobot_provider::ChatRequest;
use nanobot_testkit::{Reply, ScriptedProvider};

use super::consolidation::{Home, SESSION, entry, is_summary, save, summing_up};

/// Window of an Ollama server in its default configuration.
const SMALL: u32 = 4_096;

/// Returns a home whose configuration has a large window, with this model.
fn home(provider: ScriptedProvider) -> Home {
    let mut home = Home::new(provider);
    home.settings.window = 65_536;
    home
}

fn tokens(request: &ChatRequest) -> usize {
    let messages = request.transcript.messages().iter();
    let messages: usize = messages.map(|message| estimate_message(message)).sum();
    estimate_tokens(&request.system) + estimate_tools(&request.tools) + messages
}

async fn reply(agent: &Agent, text: &str) -> Option<String> {
    let report = agent.process_direct(DirectRequest::new(text)).await;
    report.unwrap().visible
}

#[tokio::test]
async fn conversation_is_summarised_for_the_window_of_the_server_and_the_user_reads_of_it_once() {
    let model = summing_up(|_| save(&entry("talked")));
    let home = home(model.running_with(SMALL));
    let agent = home.agent();
    for number in 0..16 {
        home.send(&agent, &format!("{number} {}", "word ".repeat(300)))
            .await;
        agent.background_idle().await;
    }
    let requests = home.provider.requests();
    let summaries = requests
        .iter()
        .filter(|request| is_summary(request))
        .count();
    assert!(summaries > 0, "{}", requests.len());
    let most = requests.iter().map(tokens).max().unwrap();
    assert!(most <= 3_000, "{most}");
    let notices = home.notices();
    let expected = "scripted/model runs with a window of 4096 tokens; ";
    let about: Vec<_> = notices
        .iter()
        .filter(|notice| notice.starts_with(expected))
        .collect();
    assert_eq!(about.len(), 1, "{notices:?}");
    assert!(about[0].ends_with("Load it with more."), "{about:?}");
    let report = agent.context_report(&SESSION.into()).await.unwrap();
    assert_eq!((report.window, report.budget), (4_096, 2_048));
    let text = report.to_string();
    assert!(
        text.contains("The server runs the model with this window."),
        "{text}"
    );
}

#[tokio::test]
async fn a_request_that_cannot_fit_is_not_sent() {
    let home = home(ScriptedProvider::answering(|_| Reply::text("ok")).running_with(SMALL));
    for file in ["AGENTS.md", "SOUL.md"] {
        let rules = "Always be polite to everyone. ".repeat(500);
        std::fs::write(home.folder.path().join(file), rules).unwrap();
    }
    let agent = home.agent();
    assert_eq!(reply(&agent, "hello").await.as_deref(), Some("ok"));
    let refusal = reply(&agent, "hello again").await.unwrap();
    let expected = "it runs with a window of 4096 tokens, but ";
    assert!(refusal.contains(expected), "{refusal}");
    assert!(refusal.contains("Load it with more."), "{refusal}");
    assert_eq!(home.provider.requests().len(), 1);
}

#[tokio::test]
async fn conversation_is_shortened_for_the_window_of_a_local_fallback() {
    let down = Arc::new(AtomicBool::new(false));
    let vendor = ScriptedProvider::answering({
        let down = down.clone();
        move |_| match down.load(Ordering::SeqCst) {
            true => Reply::error(402, "no credit"),
            false => Reply::text("ok"),
        }
    });
    let local = ScriptedProvider::answering(|_| Reply::text("from here"));
    let local = Arc::new(local.named("local").running_with(16_384));
    let home = home(vendor);
    // A server knows the window once it has loaded the model.
    let loading = DirectRequest::new("hello").in_session("cli:other");
    let alone = home.agent_of(vec![local.clone()], |_| ());
    alone.process_direct(loading).await.unwrap();
    let agent = home.agent_of(vec![home.provider.clone(), local.clone()], |_| ());
    for number in 0..16 {
        let long = format!("{number} {}", "word ".repeat(2_000));
        assert_eq!(reply(&agent, &long).await.as_deref(), Some("ok"));
    }
    down.store(true, Ordering::SeqCst);
    let answer = reply(&agent, "hello").await.unwrap();
    assert!(answer.starts_with("from here"), "{answer}");
    let sent: Vec<_> = local.requests().iter().map(tokens).collect();
    assert!(
        matches!(sent[..], [_, tokens] if tokens < 16_384 - 2_048),
        "{sent:?}"
    );
    let before = home.provider.requests().iter().map(tokens).max().unwrap();
    assert!(before > 16_384, "{before}");
}

#[tokio::test]
async fn windows_of_vendors_and_large_ones_change_nothing() {
    for window in [None, Some(131_072)] {
        let model = ScriptedProvider::answering(|_| Reply::text("ok"));
        let model = match window {
            Some(tokens) => model.running_with(tokens),
            None => model,
        };
        let home = home(model);
        let agent = home.agent();
        home.send(&agent, "hello").await;
        home.send(&agent, "hello again").await;
        let report = agent.context_report(&SESSION.into()).await.unwrap();
        assert_eq!((report.window, report.served), (65_536, None), "{window:?}");
        assert_eq!(home.notices(), Vec::<String>::new(), "{window:?}");
    }
}

#[tokio::test]
async fn a_configured_window_counts_if_it_is_smaller() {
    let model = ScriptedProvider::answering(|_| Reply::text("ok"));
    let mut home = home(model.running_with(32_768));
    home.settings.window = 20_000;
    let agent = home.agent();
    home.send(&agent, "hello").await;
    let report = agent.context_report(&SESSION.into()).await.unwrap();
    assert_eq!((report.window, report.served), (20_000, None));
    assert_eq!(home.notices(), Vec::<String>::new());
}

/// A prompt that changes within a conversation would be read again from its beginning.
#[tokio::test]
async fn new_conversations_get_a_lean_prompt_and_running_ones_keep_theirs() {
    let home = home(ScriptedProvider::answering(|_| Reply::text("ok")).running_with(8_192));
    let agent = home.agent();
    let ask = |session: &'static str| {
        let request = DirectRequest::new("hello").in_session(session);
        agent.process_direct(request)
    };
    for session in ["cli:old", "cli:old", "cli:new", "cli:new"] {
        ask(session).await.unwrap();
    }
    let requests = home.provider.requests();
    let [old, old_again, new, new_again] = &*requests else {
        panic!("{}", requests.len());
    };
    assert_eq!(old.system, old_again.system);
    assert_eq!(new.system, new_again.system);
    assert!(
        new.system.len() < old.system.len() * 2 / 3,
        "{}",
        new.system
    );
}

#[tokio::test]
async fn a_long_message_is_kept_in_a_file_for_a_small_window() {
    let home = home(ScriptedProvider::answering(|_| Reply::text("ok")).running_with(SMALL));
    let folder = tempfile::tempdir().unwrap();
    let results = Some(folder.path().to_owned());
    let agent = home.agent_with(|settings| settings.results_folder = results.clone());
    reply(&agent, "hello").await;
    let text = "word ".repeat(2_000);
    let request = DirectRequest::new(text).with_observer(home.notices.clone());
    agent.process_direct(request).await.unwrap();
    let notices = home.notices();
    assert!(
        notices
            .iter()
            .any(|notice| notice.contains("10000 characters")),
        "{notices:?}"
    );
}
