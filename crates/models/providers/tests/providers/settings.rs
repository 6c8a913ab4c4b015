//! Settings of a provider: additional query parameters and body fields, its own proxy, and the
//! parameter that controls reasoning.

use std::collections::BTreeMap;

use nanobot_provider::{ChatRequest, Generation, ProviderRouter};
use nanobot_providers::{
    BuildError, ProviderSettings, ProviderSpec, ReasoningParam, Selection, build, list_models,
};
use nanobot_testkit::http::Request;
use nanobot_testkit::{ModelServer, Proxy, Reply};
use nanobot_types::Map;
use serde_json::{Value, json};

use super::support::{candidate, clients, context, hello, quick, settings, words};

fn fields(body: &Value) -> Map {
    body.as_object().unwrap().clone()
}

fn selection(name: &str) -> Selection {
    Selection {
        name: name.into(),
        spec: ProviderSpec::find(name).unwrap(),
    }
}

async fn sent(name: &str, adapt: impl FnOnce(&mut ProviderSettings)) -> (Request, Value) {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let mut settings = settings(&server.base_url());
    adapt(&mut settings);
    let router = ProviderRouter::new([candidate(name, &settings, "model")], quick());
    let effort = Generation {
        reasoning_effort: Some("high".to_owned()),
        ..Generation::default()
    };
    let request = ChatRequest {
        generation: effort,
        ..hello()
    };
    let response = router.chat_with_failover(request, &context()).await;
    assert_eq!(words(&response), "ok", "{name}: {response:?}");
    let request = &server.requests()[0];
    (request.http.clone(), request.json.clone())
}

#[tokio::test]
async fn query_and_body_are_added_to_each_request() {
    let query = || BTreeMap::from([("team".to_owned(), "a b&c".to_owned())]);
    for (name, target) in [
        ("custom", "/v1/chat/completions?team=a+b%26c"),
        ("anthropic", "/v1/messages?team=a+b%26c"),
        (
            "azure_openai",
            "/v1/openai/deployments/model/chat/completions?team=a+b%26c&api-version=2024-10-21",
        ),
    ] {
        let (http, body) = sent(name, |settings| {
            settings.extra_query = query();
            settings.extra_body = fields(&json!({
                "metadata": { "user": "u" },
                "max_tokens": 7,
            }));
        })
        .await;
        assert_eq!(http.target, target, "{name}");
        assert_eq!(
            (&body["metadata"], &body["max_tokens"]),
            (&json!({ "user": "u" }), &json!(7)),
            "{name}"
        );
    }
    for name in ["openai", "anthropic"] {
        let server = ModelServer::scripted([]).await.unwrap();
        let settings = ProviderSettings {
            extra_query: query(),
            ..settings(&server.base_url())
        };
        list_models(&selection(name), &settings, &clients())
            .await
            .unwrap();
        let target = server.other_requests()[0].target.clone();
        assert!(target.starts_with("/v1/models?team=a+b%26c"), "{target}");
    }
}

#[tokio::test]
async fn fields_of_the_conversation_cannot_be_replaced() {
    for field in [
        "model",
        "messages",
        "input",
        "system",
        "instructions",
        "tools",
        "stream",
    ] {
        let settings = ProviderSettings {
            extra_body: fields(&json!({ field: null })),
            ..settings("http://127.0.0.1:1")
        };
        let error = build(&selection("openai"), &settings, "m", clients()).unwrap_err();
        assert_eq!(
            error,
            BuildError::OwnField {
                section: "openai".to_owned(),
                field: field.to_owned()
            }
        );
        assert!(
            error
                .to_string()
                .contains(&format!("providers.openai.extraBody.{field}"))
        );
    }
}

/// A refused parameter of the user's own is reported: a request without it is not what the user
/// configured.
#[tokio::test]
async fn a_refused_field_of_the_configuration_is_reported() {
    let server = ModelServer::answering(|_| Reply::error(400, "temperature must be 1"))
        .await
        .unwrap();
    let settings = ProviderSettings {
        extra_body: fields(&json!({ "temperature": 0.5 })),
        ..settings(&server.base_url())
    };
    let router = ProviderRouter::new([candidate("custom", &settings, "model")], quick());
    let response = router.chat_with_failover(hello(), &context()).await;
    assert!(
        words(&response).contains("temperature must be 1"),
        "{response:?}"
    );
    let temperatures: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| request.json["temperature"].clone())
        .collect();
    assert_eq!(temperatures, [json!(0.5), json!(0.5)]);
}

#[tokio::test]
async fn thinking_style_replaces_that_of_the_vendor() {
    for (style, field, expected) in [
        (None, "reasoning_effort", json!("high")),
        (
            Some(ReasoningParam::Type),
            "thinking",
            json!({ "type": "enabled" }),
        ),
        (Some(ReasoningParam::Flag), "enable_thinking", json!(true)),
        (Some(ReasoningParam::Split), "reasoning_split", json!(true)),
    ] {
        let (_, body) = sent("custom", |settings| settings.thinking = style).await;
        let all = [
            "reasoning_effort",
            "thinking",
            "enable_thinking",
            "reasoning_split",
        ];
        let found: Vec<(&str, &Value)> = all
            .into_iter()
            .filter_map(|name| Some((name, body.get(name)?)))
            .collect();
        assert_eq!(found, [(field, &expected)]);
    }
}

#[tokio::test]
async fn a_provider_with_a_proxy_uses_only_its_own() {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let proxy = Proxy::start(server.server().address()).await.unwrap();
    // The name does not resolve, so only the proxy reaches the server.
    let settings = ProviderSettings {
        proxy: Some(format!("http://{}", proxy.address())),
        ..settings("http://models.invalid/v1")
    };
    let router = ProviderRouter::new([candidate("custom", &settings, "model")], quick());
    let response = router.chat_with_failover(hello(), &context()).await;
    assert_eq!(words(&response), "ok", "{response:?}");
    let models = list_models(&selection("custom"), &settings, &clients()).await;
    assert_eq!(models.unwrap(), ["scripted-model"]);
    assert!(
        proxy
            .asked()
            .iter()
            .all(|host| host.contains("models.invalid")),
        "{:?}",
        proxy.asked()
    );

    for (proxy, is_valid) in [("", true), ("http://p:1", true), ("::no url::", false)] {
        let settings = ProviderSettings {
            proxy: Some(proxy.to_owned()),
            ..settings.clone()
        };
        let built = build(&selection("custom"), &settings, "m", clients());
        match built {
            Ok(_) => assert!(is_valid, "{proxy}"),
            Err(error) => assert!(
                !is_valid && error.to_string().contains("providers.custom.proxy"),
                "{proxy}: {error}"
            ),
        }
    }
}
