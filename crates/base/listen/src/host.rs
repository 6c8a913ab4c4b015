//! Checks that `Host` and `Origin` headers name this machine.
//!
//! Decision: a web page can point its own name at a loopback address (DNS rebinding), and its
//! visitor's browser then sends that name. A server that checks no token therefore accepts only its
//! own names.

use std::net::IpAddr;

use url::{Host, Url};

/// Returns the host of a `Host` header, which may have a port.
#[must_use]
pub fn of_header(header: &str) -> Option<Host<String>> {
    Url::parse(&format!("http://{header}/"))
        .ok()?
        .host()
        .map(|host| host.to_owned())
}

/// Returns `true` for `localhost`, its subdomains, and loopback addresses.
#[must_use]
pub fn is_this_machine<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost" || name.as_ref().ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => IpAddr::from(*address).to_canonical().is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_are_this_machine() {
        let table = [
            ("127.0.0.1:8765", true),
            ("[::1]:8765", true),
            ("[::ffff:127.0.0.1]", true),
            ("LOCALHOST", true),
            ("nanobot.localhost:1", true),
            ("localhost.evil.org", false),
            ("evil.org", false),
            ("127.0.0.1.evil.org", false),
            ("192.0.2.1", false),
            ("", false),
            ("a b", false),
        ];
        for (header, expected) in table {
            assert_eq!(
                of_header(header).is_some_and(|host| is_this_machine(&host)),
                expected,
                "{header}"
            );
        }
    }
}
