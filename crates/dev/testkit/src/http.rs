//! A small HTTP/1.1 server on loopback that can misbehave on purpose.
//!
//! Written by hand because the faults worth testing are below the level of a framework: stopping in
//! the middle of a frame, promising more bytes than are sent, resetting the connection, staying
//! silent. A handler therefore returns a list of [`ResponseStep`]s for the socket. The server
//! supports keep-alive, `Content-Length` and chunked bodies, one request at a time on each
//! connection. It does not support TLS, HTTP/2 or pipelining.

pub mod multipart;

mod connection;
mod outage;
mod request;
mod response;
mod server;

pub(crate) use connection::find;
pub use request::Request;
pub use response::{Framing, Response, ResponseStep};
pub use server::Server;
