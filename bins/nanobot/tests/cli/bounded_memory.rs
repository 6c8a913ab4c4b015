//! Models that do not stop: their output is cut at a limit, in bounded memory.

use nanobot_testkit::http::{Response, ResponseStep};
use nanobot_testkit::{ModelServer, PEAK_LIMIT, Reply, peak_of, peak_of_programs};
use serde_json::json;

use crate::prompt::Screen;
use crate::support::{Home, assert_says};

/// The end of a reply that was cut.
const NOTE: &str = "[The model did not stop, so its answer was cut here.";

/// Number of pieces of one answer: more than the limit of an answer and the buffers of a connection
/// together. Otherwise the server could write all of it before the client stops reading.
const PIECES: usize = 400_000;

/// Kinds of an endless answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endless {
    Words,
    Lines,
    Thoughts,
    Call,
}

impl Endless {
    fn reply(self) -> Reply {
        let delta = match self {
            Self::Words => json!({"content": "and on and on and on and "}),
            Self::Lines => json!({"content": "- and on *and on*\n"}),
            Self::Thoughts => json!({"reasoning_content": "round and round "}),
            Self::Call => json!({"tool_calls": [{
                "index": 0, "id": "1", "function": {"name": "write_file", "arguments": "round and round "},
            }]}),
        };
        let frame = format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": delta}]})
        );
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let mut steps = vec![ResponseStep::text(frame); PIECES];
        steps.push(ResponseStep::text(format!(
            "data: {end}\n\ndata: [DONE]\n\n"
        )));
        Reply::raw(Response::chunked(200, "text/event-stream", steps))
    }
}

/// Runs the program with an idle model and then with endless ones, and compares the memory.
fn within_bounds(test: &str, run: impl Fn(&Home, &str) + Send, replies: &[Endless]) {
    let work = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut idle = None;
        for endless in [None].into_iter().chain(replies.iter().copied().map(Some)) {
            let reply = endless.map_or_else(|| Reply::text("Hello."), Endless::reply);
            let model = runtime.block_on(ModelServer::scripted([reply])).unwrap();
            let home = Home::with_model(&model.base_url());
            run(&home, if endless.is_some() { NOTE } else { "Hello." });
            assert_eq!(model.requests().len(), 1, "{endless:?}");
            let Some(peak) = peak_of_programs() else {
                continue;
            };
            let idle = *idle.get_or_insert(peak);
            assert!(
                peak <= idle + PEAK_LIMIT,
                "{endless:?} took {} MB more",
                (peak - idle) >> 20
            );
            if endless.is_some() {
                runtime
                    .block_on(model.server().wait_for_abandoned(1))
                    .unwrap();
                let session = home.read("workspace/sessions/cli_direct.jsonl");
                assert_says(&session, &[NOTE]);
                assert!(
                    session.len() < 600_000,
                    "{endless:?}: {} bytes",
                    session.len()
                );
                assert!(!home.workspace().join("a.txt").exists());
            }
        }
    };
    peak_of(&format!("bounded_memory::{test}"), work).unwrap();
}

#[test]
fn endless_reply_to_one_shot_uses_bounded_memory() {
    let run = |home: &Home, end: &str| {
        let mut program = home.program();
        let output = program.args(["agent", "-m", "hello"]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            shown.contains(end) && shown.len() < 200_000,
            "{} bytes",
            shown.len()
        );
    };
    let all = [
        Endless::Words,
        Endless::Lines,
        Endless::Thoughts,
        Endless::Call,
    ];
    within_bounds("endless_reply_to_one_shot_uses_bounded_memory", run, &all);
}

#[test]
fn endless_reply_on_a_terminal_uses_bounded_memory() {
    let run = |home: &Home, end: &str| {
        let mut screen = Screen::open(home, &["agent", "-m", "hello"]);
        screen.wait_for(end);
        assert_eq!(screen.end(), Some(0));
        assert!(screen.text.len() < 1_000_000, "{} bytes", screen.text.len());
    };
    within_bounds(
        "endless_reply_on_a_terminal_uses_bounded_memory",
        run,
        &[Endless::Words, Endless::Lines],
    );
}
