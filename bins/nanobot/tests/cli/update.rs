//! The check for a newer release, against feeds on a real socket.

use nanobot_testkit::http::{Request, Response, Server};
use serde_json::json;

use crate::support::{Home, assert_says};

/// Returns the responses of a feed, by path.
fn feed(request: &Request) -> Response {
    let json = |value: &serde_json::Value| Response::json(200, value);
    let redirect =
        |to: &str| Response::bytes(302, "text/plain", "").with_header("location", to.to_owned());
    match request.path() {
        "/newer" => json(&json!({
            "tag_name": "v99.1.0", "html_url": "https://example.org/99", "body": "Faster.\n\u{1b}[2JSafer.",
        })),
        "/same" => json(&json!({"version": env!("CARGO_PKG_VERSION"), "notes": "-"})),
        "/moved" => redirect("/newer"),
        "/file" => redirect("file:///etc/passwd"),
        "/metadata" => redirect("http://169.254.169.254/latest"),
        "/loop" => redirect("/loop"),
        "/huge" => Response::bytes(200, "application/json", vec![b' '; (1 << 20) + 1]),
        "/page" => Response::bytes(200, "text/html", "<h1>Releases</h1>"),
        "/types" => json(&json!({"version": 2, "url": []})),
        "/escape" => json(&json!({"version": "2\u{1b}]0;title\u{7}"})),
        _ => Response::bytes(404, "text/plain", "no"),
    }
}

#[tokio::test]
async fn newest_release_is_shown_and_hostile_feeds_are_refused() {
    let server = Server::start(async |request: Request| feed(&request))
        .await
        .unwrap();
    let home = Home::new();
    let configure = |path: &str| {
        home.configure(&json!({
            "update": {"feed": format!("{}{path}", server.url())},
            "tools": {"ssrfWhitelist": ["127.0.0.0/8"]},
        }));
    };
    for path in ["/newer", "/moved"] {
        configure(path);
        let run = home.run(&["update", "--check"]).await;
        let expected = format!(
            "nanobot 99.1.0 is available; this is {}.\nhttps://example.org/99\n  Faster.\n  [2JSafer.\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(
            (run.code, run.stdout),
            (0, expected),
            "{path} {}",
            run.stderr
        );
    }
    let run = home.run(&["update", "--check", "--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&report["latest"], &report["newer"]),
        (&json!("99.1.0"), &json!(true))
    );
    configure("/same");
    let run = home.run(&["update", "--check"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["the newest release is"]);

    for (path, part) in [
        ("/file", "https URL"),
        ("/metadata", ""),
        ("/loop", "redirect"),
        ("/huge", "larger than 1048576 bytes"),
        ("/page", "not JSON"),
        ("/types", "no text `version`"),
        ("/escape", "is not a version"),
        ("/missing", "404"),
    ] {
        configure(path);
        let run = home.run(&["update", "--check"]).await;
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{path}");
        assert_says(&run.stderr, &["nanobot: ", part, "try: Check update.feed"]);
        let is_clean = run.stderr.chars().all(|c| c == '\n' || !c.is_control());
        assert!(is_clean, "{path}: {:?}", run.stderr);
    }
}

#[tokio::test]
async fn nothing_is_requested_without_a_feed() {
    let home = Home::new();
    let run = home.run(&["update", "--check"]).await;
    assert_eq!(run.code, 2);
    assert_says(
        &run.stderr,
        &[
            "update.feed is not set",
            "nanobot config set update.feed URL",
        ],
    );
    let run = home.run(&["update"]).await;
    assert_eq!(run.code, 2);
    assert_says(&run.stderr, &["--check"]);
    // An address of this machine needs the operator's consent, as for any request.
    home.configure(&json!({"update": {"feed": "http://127.0.0.1:8080/feed"}}));
    let run = home.run(&["update", "--check"]).await;
    assert_eq!(run.code, 1);
    assert_says(&run.stderr, &["127.0.0.1"]);
}
