//! Remote servers: refused addresses, redirects and foreign message addresses, over real sockets.

use nanobot_mcp::McpServerConfig;
use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response, ResponseStep, Server};

use crate::fixture::Fixture;

/// The transports of remote servers.
const KINDS: [&str; 2] = ["streamableHttp", "sse"];

/// Returns a fixture with a remote server named `fake`.
pub(crate) fn remote(kind: &str, url: &str) -> Fixture {
    let mut fixture = Fixture::new();
    let config = McpServerConfig {
        kind: Some(kind.to_owned()),
        url: url.to_owned(),
        ..McpServerConfig::default()
    };
    fixture.servers.insert("fake".to_owned(), config);
    fixture
}

/// A server that notes its requests.
pub(crate) async fn noting(
    respond: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> (Server, Watched<Vec<String>>) {
    let requests = Watched::<Vec<String>>::default();
    let noted = requests.clone();
    let server = Server::start(move |request| {
        noted.change(|all| all.push(format!("{} {}", request.method, request.target)));
        let response = respond(&request);
        async { response }
    });
    (server.await.unwrap(), requests)
}

async fn failure(fixture: &Fixture) -> String {
    let (servers, _registry) = fixture.open();
    servers.connect("fake").await.unwrap_err().to_string()
}

#[tokio::test]
async fn metadata_services_are_refused_before_a_connection() {
    for kind in KINDS {
        for url in [
            "http://169.254.169.254/mcp",
            "http://[::ffff:169.254.169.254]/mcp",
            "http://0xa9fea9fe/mcp",
            "http://[fd00:ec2::254]/mcp",
            "http://metadata.google.internal/mcp",
            "http://user:password@127.0.0.1/mcp",
            "http://127.0.0.1:6379/mcp",
        ] {
            let text = failure(&remote(kind, url)).await;
            assert!(text.contains("the URL is refused"), "{kind} {url}: {text}");
        }
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for kind in KINDS {
        for status in [301, 302, 303, 307, 308] {
            let (forbidden, reached) = noting(|_| Response::bytes(200, "text/plain", "")).await;
            let location = format!("{}/mcp", forbidden.url());
            let (allowed, asked) = noting(move |_| {
                Response::bytes(status, "text/plain", "").with_header("location", location.clone())
            })
            .await;
            let mut fixture = remote(kind, &format!("{}/mcp", allowed.url()));
            let config = fixture.servers.get_mut("fake").unwrap();
            let token = ("Authorization".to_owned(), "Bearer t".to_owned());
            config.headers.extend([token]);
            failure(&fixture).await;
            assert!(asked.read(|all| !all.is_empty()), "{kind} {status}");
            let reached = reached.read(Vec::clone);
            assert_eq!(reached, Vec::<String>::new(), "{kind} {status}");
        }
    }
}

#[tokio::test]
async fn message_address_of_another_origin_is_not_used() {
    let (forbidden, reached) = noting(|_| Response::bytes(202, "text/plain", "")).await;
    for endpoint in [
        format!("{}/messages", forbidden.url()),
        forbidden.url().replace("http:", ""),
        "http://169.254.169.254/latest".to_owned(),
    ] {
        let event = format!("event: endpoint\ndata: {endpoint}\n\n");
        let (server, asked) = noting(move |_| {
            let steps = vec![ResponseStep::text(event.clone()), ResponseStep::Hang];
            Response::chunked(200, "text/event-stream", steps)
        })
        .await;
        let fixture = remote("sse", &format!("{}/sse", server.url()));
        let text = failure(&fixture).await;
        assert!(text.contains("its endpoint is of another origin"), "{text}");
        assert_eq!(asked.read(Vec::clone), ["GET /sse"]);
    }
    assert_eq!(reached.read(Vec::clone), Vec::<String>::new());
}
