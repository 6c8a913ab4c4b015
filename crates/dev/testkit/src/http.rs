//! A small HTTP/1.1 server on loopback that can misbehave on purpose.
//!
//! Written by hand because the faults worth testing are below what a framework lets one do: stop in
//! the middle of a frame, promise more bytes than are sent, reset the connection, stay silent. What a
//! handler returns is therefore a list of [`Step`]s for the socket. It knows one connection after the
//! other per client, keep-alive, `Content-Length` and chunked bodies; it knows no TLS, no HTTP/2 and
//! no pipelining.

mod connection;
mod outage;
mod request;
mod response;
mod server;

pub(crate) use connection::find;
pub use request::Request;
pub use response::{Framing, Response, Step};
pub use server::Server;
