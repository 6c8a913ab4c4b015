//! Size of the first request, which every conversation begins with.

use nanobot_testkit::{ModelServer, Reply};

use crate::support::Home;

/// Maximum size of the first request in a fresh home with all built-in tools, in bytes.
const FIRST_REQUEST: usize = 8 * 1024;
const TOOLS: [&str; 14] = [
    "cron",
    "edit_file",
    "exec",
    "list_dir",
    "memory_search",
    "message",
    "read_file",
    "session_search",
    "spawn",
    "tool_call",
    "tool_search",
    "web_fetch",
    "web_search",
    "write_file",
];

#[tokio::test]
async fn the_first_request_in_a_fresh_home_is_small() {
    let model = ModelServer::scripted([Reply::text("hi")]).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let run = home.run(&["agent", "-m", "hello"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let requests = model.requests();
    assert_eq!(requests[0].tool_names(), TOOLS);
    let body = std::str::from_utf8(&requests[0].http.body).unwrap();
    assert!(body.contains("<skills>"), "{body}");
    // The length of the home's path must not matter.
    let body = body.replace(home.path().to_str().unwrap(), "/home/ann/.nanobot");
    assert!(body.len() <= FIRST_REQUEST, "{} bytes:\n{body}", body.len());
}
