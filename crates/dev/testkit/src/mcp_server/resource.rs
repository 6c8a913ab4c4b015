//! The MCP server. Its tool `echo` returns its arguments; `admin` needs a scope that no token has.

use serde_json::{Value, json};

use super::{Addresses, State};
use crate::http::{Request, Response};

pub(super) fn answer(
    state: &mut State,
    addresses: Option<&Addresses>,
    request: &Request,
) -> Response {
    let Some(addresses) = addresses else {
        return status(503);
    };
    match (request.method.as_str(), request.path()) {
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            let issuer = state.named_issuer.as_deref().unwrap_or(&addresses.issuer);
            let document = json!({
                "resource": addresses.resource,
                "authorization_servers": [issuer],
                "scopes_supported": ["tools"],
                "bearer_methods_supported": ["header"],
            });
            Response::json(200, &document)
        }
        (_, "/mcp") if !is_authorized(state, request) => {
            state.journal.push("401".to_owned());
            let challenge = format!("Bearer resource_metadata=\"{}\"", addresses.metadata);
            status(401).with_header("www-authenticate", challenge)
        }
        ("POST", "/mcp") => message(state, &request.json()),
        (_, "/mcp") => status(405),
        _ => status(404),
    }
}

fn is_authorized(state: &State, request: &Request) -> bool {
    let header = request.header("authorization").unwrap_or_default();
    let token = header.strip_prefix("Bearer ").unwrap_or_default();
    state.access.contains(token)
}

fn message(state: &mut State, message: &Value) -> Response {
    let text = |pointer: &str| {
        message
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let result = match text("/method") {
        "initialize" => json!({
            "protocolVersion": text("/params/protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }),
        "tools/list" => json!({"tools": [tool("echo"), tool("admin")]}),
        "tools/call" if text("/params/name") == "admin" => {
            let challenge = "Bearer error=\"insufficient_scope\", scope=\"admin\"";
            return status(403).with_header("www-authenticate", challenge);
        }
        "tools/call" => {
            state.journal.push(format!("call {}", text("/params/name")));
            let arguments = message
                .pointer("/params/arguments")
                .cloned()
                .unwrap_or_default();
            json!({"content": [{"type": "text", "text": format!("got {arguments}")}]})
        }
        _ if message.get("id").is_none() => return status(202),
        other => {
            let error = json!({"code": -32601, "message": format!("no method {other}")});
            let id = message.get("id");
            return Response::json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    let id = message.get("id");
    Response::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn tool(name: &str) -> Value {
    json!({
        "name": name, "description": format!("The tool {name}."),
        "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    })
}

fn status(code: u16) -> Response {
    Response::bytes(code, "text/plain", "")
}
