//! Checks that every row of every corpus can be read and is served exactly as it describes.

use nanobot_testkit::http::{Response, ResponseStep, Server};
use nanobot_testkit::{ModelServer, Reply, corpus};
use serde_json::json;

use crate::client;

#[test]
fn stored_data_rows_decode_to_bytes() {
    let rows = corpus::rows("stored_data").unwrap();
    assert_eq!(rows.len(), 45);
    for row in &rows {
        assert!(row.bytes().is_ok(), "{}: {:?}", row.id, row.bytes());
        assert!(!row.must().is_empty(), "{}", row.id);
    }
    let cut = rows.iter().find(|row| row.id == "sd-s-004").unwrap();
    assert!(cut.bytes().unwrap().ends_with(b"\"content\":\"\xe4\xbd"));
}

#[test]
fn an_unknown_corpus_is_an_error() {
    assert_eq!(
        corpus::rows("weather").unwrap_err().to_string(),
        "no corpus is called \"weather\""
    );
}

#[tokio::test]
async fn model_rows_are_served_byte_for_byte() {
    let rows = corpus::rows("llm_responses").unwrap();
    assert_eq!(rows.len(), 40);
    for row in rows {
        let scripted = row.response().unwrap();
        let whole = scripted
            .steps
            .iter()
            .all(|step| matches!(step, ResponseStep::Bytes(_) | ResponseStep::Fin));
        let server = ModelServer::scripted([Reply::corpus(&row).unwrap()])
            .await
            .unwrap();
        let url = format!("{}/chat/completions", server.base_url());
        let body =
            json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let answer = client().post(url).json(&body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), scripted.status, "{}", row.id);
        if whole {
            let expected: Vec<u8> = scripted.steps.iter().flat_map(bytes_of).collect();
            assert_eq!(answer.bytes().await.unwrap(), expected, "{}", row.id);
        }
        assert_eq!(server.violations(), Vec::<String>::new(), "{}", row.id);
    }
}

#[tokio::test]
async fn gzip_segment_is_decoded_by_reqwest() {
    let segment = json!({"gzip_of": {"rep": ["你好 ", 20_000]}, "split_every": 1000});
    let row = corpus::CorpusRow {
        id: "own".to_owned(),
        json: json!({"http": {"status": 200, "headers": {"content-encoding": "gzip"}, "segments": [segment]}}),
    };
    let response: Response = row.response().unwrap();
    let server = Server::start(move |_| {
        let response = response.clone();
        async move { response }
    })
    .await
    .unwrap();
    let text = client()
        .get(server.url())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(text, "你好 ".repeat(20_000));
}

fn bytes_of(step: &ResponseStep) -> Vec<u8> {
    if let ResponseStep::Bytes(bytes) = step {
        bytes.to_vec()
    } else {
        Vec::new()
    }
}
