//! Logins at Codex, Copilot and Grok, and requests with their tokens, against strict login servers.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use nanobot_provider::{ChatRequest, Generation, ProviderRouter};
use nanobot_providers::{
    PendingLogin, ProviderSettings, ProviderSpec, Selection, begin_login, known_tokens, logged_in,
    logout,
};
use nanobot_testkit::http::Response;
use nanobot_testkit::mcp_server::visit;
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply, SignInServer};
use serde_json::{Value, json};

use super::support::{candidate, clients, context, hello, looked, quick, request, words};

/// A login server, a model that accepts its tokens only, and the folder of the tokens.
struct Stage {
    name: &'static str,
    login: Arc<SignInServer>,
    model: ModelServer,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn of(name: &'static str) -> Self {
        let login = Arc::new(SignInServer::start().await.unwrap());
        let known = Arc::clone(&login);
        let model = ModelServer::answering(move |request: &ModelRequest| {
            let authorization = request.http.header("authorization").unwrap_or_default();
            match known.accepts(authorization) {
                true => Reply::text("ok"),
                false => Reply::error(401, "token expired"),
            }
        });
        let model = model.await.unwrap();
        login.set_api(model.base_url());
        Self {
            name,
            login,
            model,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            token_folder: Some(self.folder.path().to_owned()),
            login_base: Some(self.login.url()),
            // The exchange of Copilot names the address.
            api_base: (self.name != "github_copilot").then(|| self.model.base_url()),
            ..ProviderSettings::default()
        }
    }

    fn selection(&self) -> Selection {
        Selection {
            name: self.name.into(),
            spec: ProviderSpec::find(self.name).unwrap(),
        }
    }

    async fn begin(&self) -> PendingLogin {
        begin_login(&self.selection(), &self.settings(), clients())
            .await
            .unwrap()
    }

    async fn log_in(&self) {
        let login = self.begin().await;
        if self.name == "github_copilot" {
            return login.finish(pending()).await.unwrap();
        }
        let page = visit(login.address()).await.unwrap();
        let last = page.location.unwrap();
        login.finish(async { Some(last) }).await.unwrap();
    }

    fn is_logged_in(&self) -> bool {
        logged_in(self.folder.path()) == [self.name]
    }

    fn router(&self, model: &str) -> ProviderRouter {
        ProviderRouter::new([candidate(self.name, &self.settings(), model)], quick())
    }

    async fn ask(&self) -> String {
        let response = self
            .router("m")
            .chat_with_failover(hello(), &context())
            .await;
        words(&response).to_owned()
    }

    fn count(&self, step: &str) -> usize {
        self.login
            .journal()
            .iter()
            .filter(|one| *one == step)
            .count()
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join(format!("{}.json", self.name))
    }
}

fn is_private(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600
    }
    #[cfg(not(unix))]
    path.exists()
}

#[tokio::test]
async fn codex_logs_in_and_sends_its_token_and_account() {
    let stage = Stage::of("openai_codex").await;
    let said = stage.ask().await;
    assert!(
        said.contains("no login at OpenAI Codex; run `nanobot provider login openai-codex`"),
        "{said}"
    );
    assert!(!stage.is_logged_in() && stage.model.requests().is_empty());

    // The browser is sent to the port of the program.
    let login = stage.begin().await;
    assert_eq!((login.user_code(), login.must_be_pasted()), (None, false));
    let page = visit(login.address()).await.unwrap();
    let last = page.location.unwrap();
    let browser = async { visit(&last).await.unwrap().status };
    let (finished, status) = tokio::join!(login.finish(pending()), browser);
    finished.unwrap();
    assert_eq!((status, stage.is_logged_in()), (200, true));
    assert!(is_private(&stage.file()));

    assert_eq!(stage.ask().await, "ok");
    assert_eq!(stage.model.violations(), Vec::<String>::new());
    let request = &stage.model.requests()[0];
    let header = |name: &str| request.http.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        ["chatgpt-account-id", "openai-beta", "originator", "accept"].map(header),
        [
            "account-1",
            "responses=experimental",
            "nanobot",
            "text/event-stream"
        ]
    );
    let body = &request.json;
    assert_eq!(request.http.path(), "/v1/responses");
    assert_eq!(
        (
            &body["store"],
            &body["text"],
            body.get("max_output_tokens"),
            body.get("temperature")
        ),
        (&json!(false), &json!({ "verbosity": "medium" }), None, None)
    );

    let known = known_tokens(stage.folder.path());
    assert_eq!(known.len(), 2);
    assert!(
        known
            .iter()
            .all(|token| stage.login.tokens().contains(token))
    );
    let removed = logout(&stage.selection(), &stage.settings(), clients()).await;
    assert!(removed.unwrap() && !stage.is_logged_in());
    let removed = logout(&stage.selection(), &stage.settings(), clients()).await;
    assert!(!removed.unwrap());
    assert!(stage.ask().await.contains("no login"));
}

#[tokio::test]
async fn grok_logs_in_and_sends_its_token_and_headers() {
    let stage = Stage::of("xai_grok").await;
    let said = stage.ask().await;
    assert!(
        said.contains("no login at xAI Grok; run `nanobot provider login xai-grok`"),
        "{said}"
    );

    let login = stage.begin().await;
    assert_eq!((login.user_code(), login.must_be_pasted()), (None, false));
    let page = visit(login.address()).await.unwrap();
    let last = page.location.unwrap();
    let browser = async { visit(&last).await.unwrap().status };
    let (finished, status) = tokio::join!(login.finish(pending()), browser);
    finished.unwrap();
    assert_eq!((status, stage.is_logged_in()), (200, true));
    assert!(is_private(&stage.file()));
    assert_eq!(stage.login.journal(), ["authorize", "code"]);

    let answered = stage
        .router("xai-grok/grok-4.5")
        .chat_with_failover(
            ChatRequest {
                generation: Generation {
                    max_tokens: 1234,
                    temperature: Some(0.2),
                    reasoning_effort: Some("high".to_owned()),
                },
                cache_key: Some("chat".to_owned()),
                ..hello()
            },
            &context(),
        )
        .await;
    assert_eq!(words(&answered), "ok", "{answered:?}");
    assert_eq!(stage.model.violations(), Vec::<String>::new());
    let request = &stage.model.requests()[0];
    assert_eq!(request.http.path(), "/v1/responses");
    let header = |name: &str| request.http.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        [
            "x-xai-token-auth",
            "x-authenticateresponse",
            "x-grok-client-version",
            "x-grok-client-identifier",
            "x-grok-client-mode",
            "x-grok-model-override",
            "accept",
        ]
        .map(header),
        [
            "xai-grok-cli",
            "authenticate-response",
            "1.0.6",
            "nanobot",
            "headless",
            "grok-4.5",
            "text/event-stream",
        ]
    );
    let body = &request.json;
    let members = ["model", "store", "stream", "include", "max_output_tokens"];
    assert_eq!(
        members.map(|name| body[name].clone()),
        [
            json!("grok-4.5"),
            json!(false),
            json!(true),
            json!(["reasoning.encrypted_content"]),
            json!(1234),
        ]
    );
    assert_eq!(
        (&body["reasoning"], body["prompt_cache_key"].is_string()),
        (&json!({ "effort": "high" }), true),
        "{body}"
    );

    assert_eq!(known_tokens(stage.folder.path()).len(), 2);
    let removed = logout(&stage.selection(), &stage.settings(), clients()).await;
    assert!(removed.unwrap() && !stage.is_logged_in());
}

/// The server refuses old versions of its own client; the configuration can name another one.
#[tokio::test]
async fn configured_headers_replace_those_of_a_login() {
    let stage = Stage::of("xai_grok").await;
    stage.log_in().await;
    let header = ("x-grok-client-version".to_owned(), "9.9.9".to_owned());
    let settings = ProviderSettings {
        extra_headers: [header].into(),
        ..stage.settings()
    };
    let router = ProviderRouter::new([candidate(stage.name, &settings, "m")], quick());
    let answered = router.chat_with_failover(hello(), &context()).await;
    assert_eq!(words(&answered), "ok", "{answered:?}");
    let sent = &stage.model.requests()[0].http;
    let versions = sent
        .headers
        .iter()
        .filter(|(name, _)| name.ends_with("-version"));
    let versions: Vec<&str> = versions.map(|(_, value)| value.as_str()).collect();
    assert_eq!(versions, ["9.9.9"]);
}

#[tokio::test]
async fn a_forged_or_refused_answer_stores_nothing() {
    for name in ["openai_codex", "xai_grok"] {
        let stage = Stage::of(name).await;
        for (line, expected) in [
            ("http://localhost:1/x?code=c&state=x", "does not belong"),
            ("http://localhost:1/x?code=c", "does not belong"),
            ("made-up-code", "invalid_grant"),
        ] {
            let login = stage.begin().await;
            let error = login.finish(async { Some(line.to_owned()) }).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected), "{name} {line}: {error}");
        }
        let login = stage.begin().await;
        let page = visit(login.address()).await.unwrap();
        let last = page.location.unwrap().replace("state=", "state=f");
        let browser = async { visit(&last).await.unwrap().status };
        let (finished, _) = tokio::join!(login.finish(pending()), browser);
        let error = finished.unwrap_err().to_string();
        assert!(error.contains("does not belong"), "{name}: {error}");
        assert!(!stage.is_logged_in(), "{name}");
    }
}

/// Returns answers that are not those of a login server, with a part of the resulting error.
fn foreign_answers() -> [(Response, &'static str); 5] {
    let elsewhere = Response::bytes(302, "text/html", "<html>moved</html>");
    [
        (
            elsewhere.with_header("location", "https://portal.example.org/"),
            "status 302 and no JSON",
        ),
        (
            Response::bytes(403, "text/html", "<html>blocked</html>"),
            "status 403 and no JSON",
        ),
        (
            Response::bytes(200, "text/html", "<html>welcome</html>"),
            "no usable tokens",
        ),
        (
            Response::json(
                200,
                &json!({ "access_token": "a\nb", "refresh_token": "r" }),
            ),
            "no usable tokens",
        ),
        (
            Response::bytes(200, "application/json", vec![b' '; 300 << 10]),
            "more than 262144 bytes",
        ),
    ]
}

#[tokio::test]
async fn a_foreign_answer_neither_logs_in_nor_ends_a_login() {
    for name in ["openai_codex", "xai_grok"] {
        let stage = Stage::of(name).await;
        for (answer, expected) in foreign_answers() {
            stage.login.set_fault(Some(answer));
            let login = stage.begin().await;
            let last = visit(login.address()).await.unwrap().location.unwrap();
            let error = login.finish(async { Some(last) }).await.unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        assert!(!stage.is_logged_in(), "{name}");

        stage.login.set_fault(None);
        stage.log_in().await;
        stage.login.revoke_access();
        for (answer, expected) in foreign_answers() {
            stage.login.set_fault(Some(answer));
            let said = stage.ask().await;
            assert!(said.contains(expected), "{name}: {said}");
            assert!(stage.is_logged_in(), "{name}: {expected}");
        }
        stage.login.set_fault(None);
        assert_eq!(stage.ask().await, "ok", "{name}");
    }
}

#[tokio::test]
async fn tokens_are_renewed_before_their_end_and_after_a_refusal() {
    for (name, renewal) in [
        ("openai_codex", "refresh"),
        ("github_copilot", "exchange"),
        ("xai_grok", "refresh"),
    ] {
        let stage = Stage::of(name).await;
        // They end so soon that each request renews them.
        stage.login.set_life(0);
        stage.log_in().await;
        let before = stage.count(renewal);
        assert_eq!(stage.ask().await, "ok", "{name}");
        stage.login.set_life(3600);
        assert_eq!(stage.ask().await, "ok", "{name}");
        assert_eq!(stage.ask().await, "ok", "{name}");
        assert_eq!(stage.count(renewal) - before, 2, "{name}");

        stage.login.revoke_access();
        assert_eq!(stage.ask().await, "ok", "{name}");
        assert_eq!(stage.count(renewal) - before, 3, "{name}");
        assert!(is_private(&stage.file()));

        stage.login.end_logins();
        let said = stage.ask().await;
        let advice = format!("run `nanobot provider login {}`", name.replace('_', "-"));
        assert!(
            said.contains("the login has ended") && said.contains(&advice),
            "{said}"
        );
        assert!(!stage.is_logged_in());
    }
}

/// Two processes share the file: only one of them may use the refresh token.
#[tokio::test]
async fn concurrent_requests_renew_once() {
    for name in ["openai_codex", "xai_grok"] {
        let stage = Stage::of(name).await;
        stage.log_in().await;
        stage.login.revoke_access();
        let routers = [stage.router("m"), stage.router("m"), stage.router("m")];
        let context = context();
        let asks = routers
            .iter()
            .map(|router| router.chat_with_failover(hello(), &context));
        for response in futures_util::future::join_all(asks).await {
            assert_eq!(words(&response), "ok", "{response:?}");
        }
        assert_eq!(stage.count("refresh"), 1, "{:?}", stage.login.journal());
    }
}

#[tokio::test]
async fn copilot_shows_a_code_and_calls_the_named_address() {
    let stage = Stage::of("github_copilot").await;
    stage
        .login
        .set_progress([json!({ "error": "authorization_pending" })]);
    let login = stage.begin().await;
    assert_eq!(
        (login.address(), login.user_code()),
        ("https://github.com/login/device", Some("WDJB-MJHT"))
    );
    login.finish(pending()).await.unwrap();
    assert_eq!(
        stage.login.journal(),
        ["device", "poll", "poll", "exchange"]
    );
    assert_eq!(stage.ask().await, "ok");
    let [call, result] = looked();
    let pictures = request([nanobot_types::ChatMessage::user("look"), call, result]);
    let answered = stage
        .router("gpt-5-codex")
        .chat_with_failover(pictures, &context())
        .await;
    assert_eq!(words(&answered), "ok", "{answered:?}");
    let requests = stage.model.requests();
    let seen: Vec<(&str, Option<&str>, Option<&str>)> = requests
        .iter()
        .map(|request| {
            let http = &request.http;
            let vision = http.header("copilot-vision-request");
            (http.path(), http.header("editor-version"), vision)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("/v1/chat/completions", Some("vscode/1.99.0"), None),
            ("/v1/responses", Some("vscode/1.99.0"), Some("true")),
        ]
    );
    assert_eq!(stage.model.violations(), Vec::<String>::new());

    let denied = Stage::of("github_copilot").await;
    let refused: [(Value, &str); 2] = [
        (json!({ "error": "access_denied" }), "it was denied"),
        (json!({ "error": "expired_token" }), "the code has expired"),
    ];
    for (answer, expected) in refused {
        denied.login.set_progress([answer]);
        let error = denied.begin().await.finish(pending()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(!denied.is_logged_in());
}

#[tokio::test]
async fn tokens_are_not_sent_to_another_login_server() {
    let stage = Stage::of("xai_grok").await;
    stage.log_in().await;
    let other = SignInServer::start().await.unwrap();
    let settings = ProviderSettings {
        login_base: Some(other.url()),
        ..stage.settings()
    };
    let router = ProviderRouter::new([candidate(stage.name, &settings, "m")], quick());
    let response = router.chat_with_failover(hello(), &context()).await;
    assert!(words(&response).contains("no login"), "{response:?}");
    assert_eq!(other.journal(), Vec::<String>::new());
}
