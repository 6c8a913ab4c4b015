//! Rounds over several candidates, presets, limits, and cooldowns over a restart.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use nanobot_provider::{
    CallAccount, CallContext, CallPurpose, Candidate, ChatRequest, Cooldown, CooldownKind,
    CooldownStore, Delta, Generation, Provider, ProviderError, StreamEvent,
};
use nanobot_types::{FinishReason, LlmResponse};
use tokio::time::Instant;

use super::script::{Play, Scripted, hello, refuse, router, text, unwatched, watched};

fn busy(seconds: u64) -> ProviderError {
    ProviderError::RateLimited {
        retry_after: Some(Duration::from_secs(seconds)),
        message: "slow down".into(),
    }
}

fn down() -> ProviderError {
    ProviderError::Network("reset".into())
}

fn quota() -> ProviderError {
    ProviderError::Quota("empty".into())
}

fn content(response: &LlmResponse) -> &str {
    response.content.as_deref().unwrap_or_default()
}

fn candidate(provider: &Arc<Scripted>, model: &str) -> Candidate {
    Candidate {
        provider: Arc::clone(provider) as Arc<dyn Provider>,
        model: model.into(),
        generation: Generation::default(),
    }
}

fn preferring(preset: &str) -> ChatRequest {
    ChatRequest {
        model: preset.into(),
        ..hello()
    }
}

#[tokio::test(start_paused = true)]
async fn all_candidates_are_asked_again_in_rounds() {
    let a = Scripted::new(
        "a",
        [
            refuse(down()),
            refuse(down()),
            refuse(down()),
            refuse(down()),
        ],
    );
    let b = Scripted::new("b", [refuse(busy(2)), text("at last")]);
    let (context, shown) = watched();
    let begun = Instant::now();
    let response = router(&[&a, &b])
        .chat_with_failover(hello(), &context)
        .await;
    assert_eq!(content(&response), "at last");
    assert_eq!((a.requests().len(), b.requests().len()), (4, 2));
    let elapsed = begun.elapsed();
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(5)).contains(&elapsed),
        "b asked for 2 s: {elapsed:?}"
    );
    let notices = shown.notices();
    let rounds = notices
        .iter()
        .filter(|line| line.starts_with("no model answered; trying again"));
    assert_eq!(rounds.count(), 2, "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn answer_of_another_candidate_is_announced_until_the_cooldown_ends() {
    let a = Scripted::new("a", [refuse(busy(30))]);
    let b = Scripted::new("b", [text("1"), text("2")]);
    let router = router(&[&a, &b]);
    for expected in ["1", "2"] {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = lines.clone();
        let sink = move |delta| {
            if let Delta::Fallback(line) = delta {
                seen.lock().unwrap().push(line);
            }
        };
        let context = CallContext {
            deltas: Some(Arc::new(sink)),
            ..unwatched()
        };
        let response = router.chat_with_failover(hello(), &context).await;
        assert_eq!(content(&response), expected);
        let line = "b/m answered, because a/m could not: rate limited: slow down";
        assert_eq!(*lines.lock().unwrap(), [line]);
    }
    tokio::time::advance(Duration::from_secs(31)).await;
    a.push(text("back"));
    let response = router.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!(content(&response), "back");
}

#[tokio::test(start_paused = true)]
async fn request_names_a_preset() {
    let a = Scripted::new("a", [text("default"), text("default")]);
    let b = Scripted::new(
        "b",
        [text("preset"), refuse(ProviderError::Auth("bad".into()))],
    );
    let router = router(&[&a]).with_presets([("fast".to_owned(), candidate(&b, "small"))]);
    let mut answers = Vec::new();
    for preset in ["", "fast", "fast"] {
        let response = router
            .chat_with_failover(preferring(preset), &unwatched())
            .await;
        answers.push(content(&response).to_owned());
    }
    assert_eq!(answers, ["default", "preset", "default"]);
    assert_eq!(b.requests()[0].model.as_str(), "small");
    let names: Vec<_> = router.presets().map(|(name, _)| name).collect();
    assert_eq!((names, router.candidates().count()), (vec!["fast"], 1));
}

#[tokio::test(start_paused = true)]
async fn preset_of_a_listed_candidate_shares_its_cooldown() {
    let a = Scripted::new("a", [refuse(quota())]);
    let b = Scripted::new("b", [text("1"), text("2")]);
    let router = router(&[&a, &b]).with_presets([("big".to_owned(), candidate(&a, "m"))]);
    for preset in ["", "big"] {
        router
            .chat_with_failover(preferring(preset), &unwatched())
            .await;
    }
    assert_eq!((a.requests().len(), b.requests().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn calls_in_the_background_do_not_repeat_what_a_person_has_to_mend() {
    for error in [quota(), ProviderError::Auth("bad".into())] {
        let a = Scripted::new("a", [refuse(error)]);
        let router = router(&[&a]);
        let background = CallContext {
            account: CallAccount {
                purpose: CallPurpose::Judgement,
                ..CallAccount::default()
            },
            ..unwatched()
        };
        for _ in 0..20 {
            let response = router.chat_with_failover(hello(), &background).await;
            assert_eq!(response.finish_reason, FinishReason::Error);
        }
        assert_eq!(a.requests().len(), 1);
        let response = router.chat_with_failover(hello(), &background).await;
        assert!(
            content(&response).starts_with("a/m: not asked for another"),
            "{response:?}"
        );
        a.push(text("topped up"));
        let response = router.chat_with_failover(hello(), &unwatched()).await;
        assert_eq!(content(&response), "topped up");
        a.push(text("again"));
        let response = router.chat_with_failover(hello(), &background).await;
        assert_eq!(content(&response), "again");
    }
}

#[derive(Debug, Default)]
struct Stored(Mutex<Vec<Cooldown>>);

impl CooldownStore for Stored {
    fn load(&self) -> Vec<Cooldown> {
        self.0.lock().unwrap().clone()
    }

    fn save(&self, cooldowns: Vec<Cooldown>) {
        *self.0.lock().unwrap() = cooldowns;
    }
}

#[tokio::test(start_paused = true)]
async fn cooldowns_survive_a_restart() {
    let store = Arc::new(Stored::default());
    let a = Scripted::new("a", [refuse(quota())]);
    let b = Scripted::new("b", [refuse(ProviderError::Auth("bad".into()))]);
    let c = Scripted::new("c", [text("1"), text("2")]);
    let first = router(&[&a, &b, &c]).with_cooldowns(store.clone());
    first.chat_with_failover(hello(), &unwatched()).await;
    let kept: Vec<_> = store
        .load()
        .into_iter()
        .map(|cooldown| (cooldown.candidate, cooldown.kind))
        .collect();
    assert_eq!(kept, [("a/m".to_owned(), CooldownKind::Quota)]);

    b.push(refuse(ProviderError::Auth("bad".into())));
    let second = router(&[&a, &b, &c]).with_cooldowns(store.clone());
    second.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!(
        (a.requests().len(), b.requests().len()),
        (1, 2),
        "only a rejected key is tried anew"
    );

    tokio::time::advance(Duration::from_secs(3601)).await;
    a.push(text("back"));
    second.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!(a.requests().len(), 2);
    assert!(
        store
            .load()
            .iter()
            .all(|cooldown| cooldown.until <= SystemTime::now() + Duration::from_secs(3600))
    );
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_limit_of_a_provider_wait_in_turn() {
    let a = Scripted::new("a", [Play::Stall(vec![]), text("second")]);
    let router = router(&[&a]).with_limits([("a".into(), 1)]);
    let (first, (second, shown)) = (unwatched(), watched());
    let asking = async {
        tokio::join!(
            router.chat_with_failover(hello(), &first),
            router.chat_with_failover(hello(), &second),
            async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                assert_eq!(a.requests().len(), 1);
                first.cancel.cancel();
            }
        )
    };
    let (stopped, answered, ()) = asking.await;
    assert_eq!(content(&stopped), "Stopped.");
    assert_eq!(content(&answered), "second");
    assert_eq!(
        shown.notices(),
        ["a/m: all its places are taken; waiting for the next one"]
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_for_a_place_ends_at_once() {
    let a = Scripted::new(
        "a",
        [Play::Stall(vec![Ok(StreamEvent::Text(String::new()))])],
    );
    let router = router(&[&a]).with_limits([("a".into(), 1)]);
    let (first, second) = (unwatched(), unwatched());
    let (_, stopped, ()) = tokio::join!(
        router.chat_with_failover(hello(), &first),
        router.chat_with_failover(hello(), &second),
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            second.cancel.cancel();
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.cancel.cancel();
        }
    );
    assert_eq!(content(&stopped), "Stopped.");
    assert_eq!(a.requests().len(), 1);
}

#[tokio::test]
async fn request_beyond_the_window_of_a_local_fallback_is_not_sent() {
    let vendor = Scripted::new("vendor", [refuse(quota())]);
    let small = Scripted::running_with(4_096, "small", [text("from here")]);
    let router = router(&[&vendor, &small]);
    let long = ChatRequest {
        estimated_tokens: Some(3_600),
        ..hello()
    };
    let response = router.chat_with_failover(long, &unwatched()).await;
    assert_eq!(response.finish_reason, FinishReason::ContextOverflow);
    assert_eq!(response.model, Some("m".into()));
    let expected = "a window of 4096 tokens, but the system prompt, the tools and the conversation need about 3600";
    let shown = content(&response);
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("Load it with more."), "{shown}");
    assert_eq!(small.requests().len(), 0);

    let short = ChatRequest {
        estimated_tokens: Some(3_500),
        ..hello()
    };
    let response = router.chat_with_failover(short, &unwatched()).await;
    assert_eq!(content(&response), "from here");
}
