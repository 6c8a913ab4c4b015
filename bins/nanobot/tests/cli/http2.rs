//! HTTP/2: a server that offers it gets it, on one connection for all requests of a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use h2::server::SendResponse;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::support::{Home, assert_says, finish};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A model behind TLS that speaks HTTP/2 alone: it calls a tool first, and then answers.
struct Http2Model {
    address: String,
    certificate: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Http2Model {
    async fn start() -> Result<Self, Failure> {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let mut settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())?;
        settings.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(settings));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut model = Self {
            address: format!("https://localhost:{}/v1", listener.local_addr()?.port()),
            certificate: own.cert.pem(),
            connections: Arc::default(),
            requests: Arc::default(),
            tasks: JoinSet::new(),
        };
        let (connections, requests) = (model.connections.clone(), model.requests.clone());
        model.tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (acceptor, requests) = (acceptor.clone(), requests.clone());
                open.spawn(async move { serve(&acceptor, stream, &requests).await });
            }
        });
        Ok(model)
    }
}

async fn serve(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    requests: &AtomicUsize,
) -> Result<(), Failure> {
    let mut connection = h2::server::handshake(acceptor.accept(stream).await?).await?;
    while let Some(request) = connection.accept().await {
        let (_, response) = request?;
        let number = requests.fetch_add(1, Ordering::SeqCst);
        answer(response, number)?;
    }
    Ok(())
}

fn answer(mut response: SendResponse<bytes::Bytes>, number: usize) -> Result<(), Failure> {
    let head = http::Response::builder().header("content-type", "text/event-stream");
    let mut body = response.send_response(head.body(())?, false)?;
    let call = json!({"index": 0, "id": "c1", "type": "function",
        "function": {"name": "list_dir", "arguments": "{\"path\":\".\"}"}});
    let (delta, reason) = if number == 0 {
        (
            json!({"role": "assistant", "tool_calls": [call]}),
            "tool_calls",
        )
    } else {
        (
            json!({"role": "assistant", "content": "over HTTP/2"}),
            "stop",
        )
    };
    let chunks = [
        chunk(&delta, &Value::Null),
        chunk(&json!({}), &json!(reason)),
    ];
    body.send_data(format!("{}data: [DONE]\n\n", chunks.concat()).into(), true)?;
    Ok(())
}

fn chunk(delta: &Value, reason: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice]});
    format!("data: {chunk}\n\n")
}

fn home(model: &Http2Model) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "own/m"}},
        "providers": {"own": {"apiKey": "test-key", "apiBase": model.address}},
    }));
    home
}

/// The certificate is signed by an authority that this computer does not trust.
#[tokio::test]
async fn server_with_an_unknown_certificate_gets_no_request() {
    let model = Http2Model::start().await.unwrap();
    let home = home(&model);
    let run = home.run(&["agent", "-m", "what is here?"]).await;
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_says(&run.stderr, &["certificate"]);
    assert_eq!(model.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn turn_of_two_requests_uses_one_connection() {
    let model = Http2Model::start().await.unwrap();
    let home = home(&model);
    home.write("authority.pem", &model.certificate);
    let mut program = home.program();
    program
        .args(["agent", "-m", "what is here?"])
        .env("SSL_CERT_FILE", home.path().join("authority.pem"));
    let run = finish(program, b"").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["over HTTP/2"]);
    assert_eq!(model.requests.load(Ordering::SeqCst), 2);
    assert_eq!(model.connections.load(Ordering::SeqCst), 1);
}
