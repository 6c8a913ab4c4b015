//! A port that a test can name before a server listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use crate::TestkitError;

/// A loopback port that the system assigns to no other program while this value lives.
///
/// Connections are refused until the program under test listens on the port. On Linux it can do so
/// despite the reservation, because both sockets set the option to reuse the address and the
/// reserving socket is only bound. Elsewhere that does not work, so the port is released at once
/// and another program may take it first.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _held: Option<TcpSocket>,
}

impl ReservedPort {
    /// Reserves a free port on 127.0.0.1.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if there is none.
    pub fn new() -> Result<Self, TestkitError> {
        Self::reserve().map_err(TestkitError::Listen)
    }

    fn reserve() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if cfg!(unix) {
            socket.set_reuseaddr(true)?;
        }
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Self {
            address,
            _held: cfg!(target_os = "linux").then_some(socket),
        })
    }

    /// Returns the port number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// Returns `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn reserved_port_refuses_until_bound() {
        let port = ReservedPort::new().unwrap();
        let refused = TcpStream::connect(port.address()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(port.address()).await.unwrap();
        TcpStream::connect(port.address()).await.unwrap();
        drop(listener);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn reserved_ports_are_not_assigned_again() {
        let reserved: Vec<_> = (0..200).map(|_| ReservedPort::new().unwrap()).collect();
        let mut listeners = Vec::new();
        for _ in 0..200 {
            listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        }
        let mut ports: Vec<u16> = reserved.iter().map(ReservedPort::number).collect();
        ports.extend(
            listeners
                .iter()
                .map(|listener| listener.local_addr().unwrap().port()),
        );
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 400);
    }
}
