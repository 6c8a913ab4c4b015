//! Checks that one reply is rendered correctly in all four API shapes.

use nanobot_testkit::model_server::ModelApi;
use nanobot_testkit::{Gate, ModelServer, Reply, ScriptedCall};
use nanobot_types::Usage;
use serde_json::{Value, json};

use crate::client;

fn full_reply() -> Reply {
    Reply::deltas(["Hel", "lo"])
        .and_calls([ScriptedCall::new("read_file", &json!({"path": "a"}))])
        .with_reasoning("hm", "sig")
        .with_usage(Usage {
            prompt_tokens: 100,
            completion_tokens: 7,
            cached_tokens: 60,
            cache_write_tokens: 30,
            reasoning_tokens: 2,
        })
}

async fn ask(server: &ModelServer, path: &str, mut body: Value) -> String {
    body["model"] = json!("m");
    let request = client()
        .post(format!("{}{path}", server.base_url()))
        .header("anthropic-version", "2023-06-01");
    request
        .json(&body)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap()
}

/// Returns the data of every event.
fn events(stream: &str) -> Vec<Value> {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn openai_non_streaming() {
    let server = ModelServer::scripted([full_reply()]).await.unwrap();
    let answer = ask(
        &server,
        "/chat/completions",
        json!({"messages": [{"role": "user", "content": "hi"}]}),
    )
    .await;
    let expected = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m",
        "choices": [{"index": 0, "logprobs": null, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hello", "reasoning_content": "hm",
            "tool_calls": [{"id": "call_1_0", "type": "function",
                "function": {"name": "read_file", "arguments": "{\"path\":\"a\"}"}}],
        }}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 2}},
    });
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap(), expected);
}

#[tokio::test]
async fn openai_stream() {
    let server = ModelServer::scripted([full_reply()]).await.unwrap();
    let body = json!({
        "messages": [{"role": "user", "content": "hi"}], "stream": true, "stream_options": {"include_usage": true},
    });
    let stream = ask(&server, "/chat/completions", body).await;
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    let events = events(&stream);
    let deltas: Vec<&Value> = events
        .iter()
        .filter_map(|event| event.pointer("/choices/0/delta"))
        .collect();
    let expected = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "hm"}),
        json!({"content": "Hel"}),
        json!({"content": "lo"}),
        json!({"tool_calls": [{"index": 0, "id": "call_1_0", "type": "function",
            "function": {"name": "read_file", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "\":\"a\"}"}}]}),
        json!({}),
    ];
    assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
    let last = events.last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["total_tokens"]),
        (&json!([]), &json!(107))
    );
}

#[tokio::test]
async fn anthropic_non_streaming() {
    let server = ModelServer::scripted([full_reply()]).await.unwrap();
    let body = json!({"max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    let expected = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "call_1_0", "name": "read_file", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60,
            "output_tokens": 7},
    });
    assert_eq!(
        serde_json::from_str::<Value>(&ask(&server, "/messages", body).await).unwrap(),
        expected
    );
}

#[tokio::test]
async fn anthropic_stream() {
    let server = ModelServer::scripted([full_reply()]).await.unwrap();
    let body =
        json!({"max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let stream = ask(&server, "/messages", body).await;
    let kinds: Vec<String> = events(&stream)
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, expected);
    let names: Vec<&str> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn rule_answers_by_request_content() {
    let server = ModelServer::answering(|request| match request.tool_results().first() {
        Some(result) => Reply::text(format!("it says {result}")),
        None => Reply::call("read_file", &json!({"path": request.last_user_text()})),
    })
    .await
    .unwrap();
    let user = json!({"role": "user", "content": "a.txt"});
    let answer = ask(&server, "/chat/completions", json!({"messages": [user]})).await;
    let message = serde_json::from_str::<Value>(&answer).unwrap()["choices"][0]["message"].clone();
    assert_eq!(
        message["tool_calls"][0]["function"]["arguments"],
        "{\"path\":\"a.txt\"}"
    );
    let result = json!({"role": "tool", "tool_call_id": "call_1_0", "content": "42"});
    let answer = ask(
        &server,
        "/chat/completions",
        json!({"messages": [user, message, result]}),
    )
    .await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "it says 42");
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn requests_are_recorded_exactly() {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let body = "{ \"model\":\"m\",\n\"messages\":[{\"role\":\"user\",\"content\":\"é\"}] }";
    let url = format!("{}/chat/completions", server.base_url());
    client()
        .post(url)
        .header("X-Mine", "1")
        .body(body)
        .send()
        .await
        .unwrap();
    let requests = server.wait_for(1).await.unwrap();
    let [request] = requests.as_slice() else {
        unreachable!("one request was sent")
    };
    assert_eq!(
        (request.api, request.http.path(), request.model()),
        (ModelApi::OpenAi, "/v1/chat/completions", "m")
    );
    assert_eq!(request.http.body, body);
    assert_eq!(request.http.header("x-mine"), Some("1"));
    client()
        .get(format!("{}/models", server.base_url()))
        .send()
        .await
        .unwrap();
    assert_eq!(
        server.other_requests().first().unwrap().path(),
        "/v1/models"
    );
}

#[tokio::test]
async fn the_prompt_is_compared_byte_by_byte() {
    let server = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    let first = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}],"system":"s"}"#;
    let second = r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#;
    let third = second
        .replace(r#""role":"user","content":[{"#, r#""content":[{"#)
        .replace(r#""a"}]"#, r#""a"}],"role":"user""#);
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let marked_first = first
        .replace(&format!(",{mark}"), "")
        .replace(r#"[{"type""#, &format!(r#"[{{{mark},"type""#));
    assert!(marked_first.contains(&format!("[{{{mark},")));
    for body in [first, second, &third, &marked_first] {
        let request = client()
            .post(format!("{}/messages", server.base_url()))
            .header("anthropic-version", "2023-06-01");
        assert_eq!(
            request.body(body.to_owned()).send().await.unwrap().status(),
            200,
            "{body}"
        );
    }
    let prompts: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.prompt())
        .collect();
    assert_eq!(
        prompts[0],
        [
            r#""s""#,
            r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#
        ]
    );
    assert!(prompts[1].starts_with(&prompts[0]));
    assert!(
        !prompts[2].starts_with(&prompts[0]),
        "another order of members is other bytes"
    );
    assert_eq!(
        prompts[3], prompts[0],
        "a mark is no part of the prompt wherever it stands"
    );
}

#[tokio::test]
async fn gate_delays_an_answer() {
    let gate = Gate::new();
    let server = ModelServer::scripted([Reply::text("late").after(&gate)])
        .await
        .unwrap();
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let (answer, ()) = tokio::join!(ask(&server, "/chat/completions", body), async {
        server.wait_for(1).await.unwrap();
        gate.open();
    });
    assert!(answer.contains("late"), "{answer}");
}

#[tokio::test]
async fn wrong_key_is_refused_with_the_vendor_error() {
    let server = ModelServer::with_key("right", [Reply::text("ok")])
        .await
        .unwrap();
    let body =
        json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let table = [
        ("/chat/completions", "/error/code", "invalid_api_key"),
        ("/messages", "/error/type", "authentication_error"),
    ];
    for (path, place, word) in table {
        let request = client()
            .post(format!("{}{path}", server.base_url()))
            .bearer_auth("wrong");
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        assert_eq!(
            answer
                .json::<Value>()
                .await
                .unwrap()
                .pointer(place)
                .unwrap(),
            word
        );
    }
    let request = client()
        .post(format!("{}/chat/completions", server.base_url()))
        .bearer_auth("right");
    assert_eq!(request.json(&body).send().await.unwrap().status(), 200);
}
