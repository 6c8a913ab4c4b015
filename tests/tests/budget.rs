//! The size of a first request, which every user pays for with every first message.

use nanobot_testkit::{ModelServer, Reply};

use crate::world::{UserTurn, World, run_turn, vendor};

/// Maximum size of the first request of a fresh workspace with all tools, in bytes.
const FIRST_REQUEST: usize = 6 * 1024;
const TOOLS: [&str; 8] = [
    "edit_file",
    "exec",
    "list_dir",
    "message",
    "read_file",
    "web_fetch",
    "web_search",
    "write_file",
];

#[tokio::test]
async fn the_first_request_of_a_fresh_workspace_is_small() {
    for name in ["anthropic", "openai"] {
        let world = World::new();
        let server = ModelServer::scripted([Reply::text("hi")]).await.unwrap();
        let report = run_turn(
            &world.agent([vendor(name, &server)]),
            "cli:direct",
            UserTurn::text("hello"),
        )
        .await
        .unwrap();
        assert_eq!(report.visible.as_deref(), Some("hi"));
        let requests = server.requests();
        assert_eq!(requests[0].tool_names(), TOOLS, "{name}");
        let size = requests[0].http.body.len();
        assert!(size <= FIRST_REQUEST, "{name}: {size} bytes");
    }
}
