//! Logins at remote servers, against a strict authorization server.

use nanobot_mcp::{McpLogin, McpServers};
use nanobot_testkit::McpServerFake;
use nanobot_testkit::http::{Response, ResponseStep};
use nanobot_testkit::mcp_server::visit;
use serde_json::json;

use crate::fixture::{Fixture, assert_answers, call, names, until};
use crate::http::{noting, remote};

/// A strict server and a home that may reach its authorization server.
async fn protected() -> (McpServerFake, Fixture) {
    let fake = McpServerFake::start().await.unwrap();
    let mut fixture = remote("streamableHttp", &fake.url());
    fixture.opened = vec!["127.0.0.0/8".parse().unwrap()];
    (fake, fixture)
}

/// Logs in as a person with a browser.
async fn log_in(servers: &McpServers) {
    let login = servers.begin_login("fake").await.unwrap();
    let address = login.address().to_string();
    let browse = async {
        let page = visit(&address).await.unwrap();
        let last = visit(&page.location.unwrap()).await.unwrap();
        assert_eq!(last.status, 200);
    };
    let (finished, ()) = tokio::join!(login.finish(std::future::pending()), browse);
    finished.unwrap();
}

/// Returns the address to which the authorization server sends the browser.
async fn last_page(login: &McpLogin) -> String {
    let page = visit(login.address().as_str()).await.unwrap();
    page.location.unwrap()
}

#[tokio::test]
async fn login_ends_after_five_minutes() {
    let (_fake, fixture) = protected().await;
    let (servers, _registry) = fixture.open();
    let login = servers.begin_login("fake").await.unwrap();
    tokio::time::pause();
    let error = login.finish(std::future::pending()).await.unwrap_err();
    assert!(
        error.to_string().contains("not completed in 5 minutes"),
        "{error}"
    );
}

/// Finishes a login with a pasted address and returns its error; empty without one.
async fn paste(login: McpLogin, address: String) -> String {
    let finished = login.finish(std::future::ready(Some(address))).await;
    finished
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

/// Returns the reason why a new program cannot connect.
async fn connect_error(fixture: &Fixture) -> String {
    let (servers, _registry) = fixture.open();
    servers.connect("fake").await.unwrap_err().to_string()
}

#[tokio::test]
async fn server_without_a_login_says_what_to_run() {
    let (fake, fixture) = protected().await;
    let (servers, registry) = fixture.open();
    let error = servers.connect("fake").await.unwrap_err().to_string();
    assert!(error.contains("run `nanobot mcp login 'fake'`"), "{error}");
    assert_eq!(servers.status()[0].state, "unavailable");
    assert_eq!(names(&registry), Vec::<String>::new());

    // The next call connects after a login, without a pause.
    log_in(&servers).await;
    servers.connect("fake").await.unwrap();
    let result = call(&registry, "mcp_fake_echo", json!({"a": 1})).await;
    assert_answers(&result, "got {\"a\":1}");
    let journal = fake.journal();
    let kept: Vec<&str> = journal
        .iter()
        .map(String::as_str)
        .filter(|one| *one != "401")
        .collect();
    assert_eq!(kept, ["register", "authorize", "code", "call echo"]);
}

#[tokio::test]
async fn token_is_renewed_after_it_was_refused_and_when_it_ends() {
    let (fake, fixture) = protected().await;
    let (servers, registry) = fixture.open();
    log_in(&servers).await;
    servers.connect("fake").await.unwrap();
    let renewals = || {
        fake.journal()
            .iter()
            .filter(|one| *one == "refresh")
            .count()
    };
    assert_eq!(renewals(), 0);

    fake.set_life(0);
    fake.end_access();
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
    assert_eq!(renewals(), 1);
    // It ends at once, so each request renews it first.
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
    assert!(renewals() > 1);
    servers.close().await;

    // Another process continues with the rotated token.
    fake.set_life(3600);
    let (servers, registry) = fixture.connected().await;
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
    assert!(
        !fake.journal().iter().any(|one| one.starts_with("refused")),
        "{:?}",
        fake.journal()
    );
    servers.close().await;
}

#[tokio::test]
async fn login_by_a_command_is_noticed_by_a_running_gateway() {
    let (_fake, fixture) = protected().await;
    let (gateway, registry) = fixture.open();
    gateway.start();
    until("the server asks for a login", || {
        gateway.status()[0].state == "unavailable"
    })
    .await;
    log_in(&fixture.open().0).await;
    until("its tools are there", || {
        names(&registry) == ["mcp_fake_echo", "mcp_fake_admin"]
    })
    .await;
}

#[tokio::test]
async fn unreachable_authorization_server_does_not_end_a_login() {
    let (fake, fixture) = protected().await;
    log_in(&fixture.open().0).await;
    fake.end_access();
    fake.authorization_server().go_down().await.unwrap();
    let (servers, _registry) = fixture.open();
    let error = servers.connect("fake").await.unwrap_err().to_string();
    assert!(error.contains("could not be renewed"), "{error}");
    assert!(!error.contains("nanobot mcp login"), "{error}");
    fake.authorization_server().come_back().await.unwrap();
    fixture.connected().await.0.close().await;
}

#[tokio::test]
async fn two_processes_renew_a_token_once() {
    let (fake, fixture) = protected().await;
    log_in(&fixture.open().0).await;
    let (first, first_tools) = fixture.connected().await;
    let (second, second_tools) = fixture.connected().await;
    fake.end_access();
    let calls = tokio::join!(
        call(&first_tools, "mcp_fake_echo", json!({})),
        call(&second_tools, "mcp_fake_echo", json!({})),
    );
    assert_answers(&calls.0, "got {}");
    assert_answers(&calls.1, "got {}");
    let renewals = fake
        .journal()
        .into_iter()
        .filter(|one| one == "refresh")
        .count();
    assert_eq!(renewals, 1);
    drop((first, second));
}

#[tokio::test]
async fn revoked_login_fails_the_call_and_says_what_to_run() {
    let (fake, fixture) = protected().await;
    let (servers, registry) = fixture.open();
    log_in(&servers).await;
    servers.connect("fake").await.unwrap();
    fake.end_login();
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert!(
        !result.success && result.output.contains("nanobot mcp login"),
        "{result:?}"
    );
    assert!(
        !servers.logout("fake").await.unwrap(),
        "the tokens are gone"
    );
    log_in(&servers).await;
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
}

#[tokio::test]
async fn answer_has_to_belong_to_the_login() {
    let (fake, fixture) = protected().await;
    let (servers, _registry) = fixture.open();
    type Change = fn(String) -> String;
    let cases: [(Change, &str); 6] = [
        (
            |page| page.replace("state=", "state=0"),
            "does not belong to this login",
        ),
        (
            |page| page.replace("state=", "other="),
            "does not belong to this login",
        ),
        (
            |page| page.replace("iss=", "iss=x"),
            "of another authorization server",
        ),
        (
            |page| page.replace("iss=", "other="),
            "of another authorization server",
        ),
        (|page| page.replace("code=", "code=x"), "invalid_grant"),
        (
            |page| page.replace("code=", "error=access_denied&x="),
            "it was refused: access_denied",
        ),
    ];
    for (change, expected) in cases {
        let login = servers.begin_login("fake").await.unwrap();
        let page = change(last_page(&login).await);
        let error = paste(login, page).await;
        assert!(error.contains(expected), "{error} for {expected}");
        assert!(!servers.logout("fake").await.unwrap());
    }
    // The answer of one login is none to another one.
    let (one, other) = tokio::join!(servers.begin_login("fake"), servers.begin_login("fake"));
    let (one, other) = (one.unwrap(), other.unwrap());
    let page = last_page(&one).await;
    let error = paste(other, page.clone()).await;
    assert!(error.contains("does not belong to this login"), "{error}");
    assert_eq!(paste(one, format!(" {page}\n")).await, "");
    assert!(!fake.tokens().is_empty());
    assert!(servers.logout("fake").await.unwrap());
    assert!(!servers.logout("fake").await.unwrap());
}

#[tokio::test]
async fn configured_client_proves_its_identity() {
    let (fake, mut fixture) = protected().await;
    fake.set_client("our-client", "client-secret-1");
    let error = fixture
        .open()
        .0
        .begin_login("fake")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("configure oauth.clientId"), "{error}");
    let config = fixture.servers.get_mut("fake").unwrap();
    config.oauth.client_id = "our-client".to_owned();
    config.oauth.client_secret = "client-secret-1".to_owned();
    let (servers, registry) = fixture.open();
    log_in(&servers).await;
    servers.connect("fake").await.unwrap();
    fake.end_access();
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
}

#[tokio::test]
async fn addresses_that_a_server_names_pass_the_guard() {
    let (fake, mut fixture) = protected().await;
    let (forbidden, reached) = noting(|_| Response::json(200, &json!({}))).await;
    // Without the whitelist, loopback is closed although the server itself is there.
    fixture.opened.clear();
    for issuer in [
        forbidden.url(),
        "http://169.254.169.254".to_owned(),
        "https://127.0.0.1:8443".to_owned(),
        "https://10.0.0.1".to_owned(),
    ] {
        fake.name_issuer(&issuer);
        let error = fixture.open().0.begin_login("fake").await.unwrap_err();
        let text = error.to_string();
        let is_refused = text.contains("the URL is refused") || text.contains("without encryption");
        assert!(is_refused, "{issuer}: {text}");
    }
    assert_eq!(reached.read(Vec::clone), Vec::<String>::new());

    // With it, only what was named is reached, and no redirect is followed.
    fixture.opened = vec!["127.0.0.0/8".parse().unwrap()];
    let location = format!("{}/stolen", forbidden.url());
    let (redirecting, _) = noting(move |_| {
        Response::bytes(307, "text/plain", "").with_header("location", location.clone())
    })
    .await;
    for (name, endpoint) in [
        ("registration_endpoint", "/register"),
        ("token_endpoint", "/token"),
    ] {
        let (fake, mut fixture) = protected().await;
        fixture.opened = vec!["127.0.0.0/8".parse().unwrap()];
        fake.set_metadata(name, format!("{}{endpoint}", redirecting.url()).into());
        let (servers, _registry) = fixture.open();
        let failed = match servers.begin_login("fake").await {
            Err(error) => error.to_string(),
            Ok(login) => {
                let page = last_page(&login).await;
                paste(login, page).await
            }
        };
        assert!(failed.contains("307"), "{name}: {failed}");
    }
    assert_eq!(reached.read(Vec::clone), Vec::<String>::new());
}

#[tokio::test]
async fn contradictory_metadata_is_refused() {
    for (name, value, expected) in [
        (
            "issuer",
            json!("https://login.example"),
            "of another issuer",
        ),
        ("code_challenge_methods_supported", json!(["plain"]), "PKCE"),
        ("code_challenge_methods_supported", json!([]), "PKCE"),
        (
            "authorization_endpoint",
            json!("javascript:alert(1)"),
            "not safe to open",
        ),
        (
            "authorization_endpoint",
            json!("http://login.example/"),
            "not safe to open",
        ),
        (
            "authorization_endpoint",
            json!("ftp://127.0.0.1/"),
            "not safe to open",
        ),
        (
            "authorization_endpoint",
            json!("https://bank.example@login.example/"),
            "not safe to open",
        ),
        ("token_endpoint", json!("no address"), "unusable"),
        ("padding", json!("x".repeat(100_000)), "too large"),
    ] {
        let (fake, fixture) = protected().await;
        fake.set_metadata(name, value);
        let error = fixture
            .open()
            .0
            .begin_login("fake")
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[tokio::test]
async fn header_of_the_configuration_comes_first() {
    let (_fake, mut fixture) = protected().await;
    let config = fixture.servers.get_mut("fake").unwrap();
    let header = (
        "authorization".to_owned(),
        "Bearer of-the-configuration".to_owned(),
    );
    config.headers.extend([header]);
    let (servers, _registry) = fixture.open();
    let error = servers.connect("fake").await.unwrap_err().to_string();
    assert!(
        error.contains("the configured Authorization header"),
        "{error}"
    );
    let error = servers.begin_login("fake").await.unwrap_err().to_string();
    assert!(error.contains("without an Authorization header"), "{error}");
}

#[tokio::test]
async fn tokens_go_to_no_other_address() {
    let (fake, mut fixture) = protected().await;
    log_in(&fixture.open().0).await;
    let (other, _) = noting(|request| {
        let has_token = request.header("authorization").is_some();
        Response::bytes(if has_token { 200 } else { 404 }, "text/plain", "")
    })
    .await;
    fixture.servers.get_mut("fake").unwrap().url = format!("{}/mcp", other.url());
    let error = connect_error(&fixture).await;
    assert!(error.contains("404"), "{error}");
    assert!(!fake.tokens().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn tokens_are_private_and_redacted() {
    use std::os::unix::fs::PermissionsExt as _;

    let (fake, fixture) = protected().await;
    let (servers, registry) = fixture.open();
    log_in(&servers).await;
    let file = fixture.record().with_file_name("mcp-tokens.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let folder = file.parent().unwrap();
    let mut known = nanobot_mcp::known_tokens(folder);
    known.sort();
    assert_eq!(known, fake.tokens());
    servers.connect("fake").await.unwrap();
    for token in fake.tokens() {
        let result = call(&registry, "mcp_fake_echo", json!({"text": token})).await;
        assert!(result.output.contains("contains a secret"), "{result:?}");
    }
    // A file that cannot be read makes the server unavailable, and stops nothing else.
    std::fs::write(&file, "{\"servers\": 3").unwrap();
    let error = connect_error(&fixture).await;
    assert!(error.contains("mcp-tokens.json cannot be used"), "{error}");
}

#[tokio::test]
async fn scope_that_a_login_does_not_have_is_named() {
    let (_fake, fixture) = protected().await;
    log_in(&fixture.open().0).await;
    let (_servers, registry) = fixture.connected().await;
    let result = call(&registry, "mcp_fake_admin", json!({})).await;
    let expected = "the authorization does not include this (admin)";
    assert!(result.output.contains(expected), "{result:?}");
}

#[tokio::test]
async fn older_transport_asks_for_a_login_as_well() {
    let (server, _) = noting(|_| {
        Response::bytes(401, "text/plain", "").with_header("www-authenticate", "Bearer")
    })
    .await;
    let fixture = remote("sse", &format!("{}/sse", server.url()));
    let error = connect_error(&fixture).await;
    assert!(error.contains("run `nanobot mcp login 'fake'`"), "{error}");
}

#[tokio::test]
async fn older_transport_sends_and_renews_the_token() {
    let (server, asked) = noting(|request| {
        let is_new = request.header("authorization") == Some("Bearer second-token");
        match (request.path(), is_new) {
            ("/token", _) => {
                let tokens = json!({"access_token": "second-token", "token_type": "bearer"});
                Response::json(200, &tokens)
            }
            ("/sse", true) => {
                let event = ResponseStep::text("event: endpoint\ndata: /messages\n\n");
                Response::chunked(200, "text/event-stream", vec![event, ResponseStep::Hang])
            }
            ("/messages", true) => Response::bytes(202, "text/plain", ""),
            _ => Response::bytes(401, "text/plain", ""),
        }
    })
    .await;
    let url = format!("{}/sse", server.url());
    let fixture = remote("sse", &url);
    let file = fixture.record().with_file_name("mcp-tokens.json");
    let grant = json!({
        "url": url, "resource": url, "tokenEndpoint": format!("{}/token", server.url()),
        "client": {"id": "ours", "method": "none"},
        "accessToken": "first-token", "refreshToken": "refresh-token",
    });
    std::fs::write(file, json!({"servers": {"fake": grant}}).to_string()).unwrap();
    let (servers, _registry) = fixture.open();
    let expected = ["GET /sse", "POST /token", "GET /sse", "POST /messages"];
    tokio::select! {
        // The server answers no message.
        connected = servers.connect("fake") => panic!("{connected:?}"),
        () = until("a message arrives", || asked.read(|all| all.starts_with(&expected.map(str::to_owned)))) => {}
    }
}
