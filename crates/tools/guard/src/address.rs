//! Classifies addresses as public, internal or metadata services.
//!
//! The decision is made on the *canonical* address: IPv6 forms that carry an IPv4 address (mapped,
//! compatible, translated, NAT64, 6to4) are judged by what they carry. The table is the IANA
//! special-purpose registries (RFC 6890 and its updates) with multicast added; metadata services of
//! clouds are kept apart, because no configuration may open them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(high: [u16; 4], prefix: u8) -> IpNet {
    let [a, b, c, d] = high;
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0),
        prefix,
    ))
}

/// Networks that are not part of the public internet.
const SPECIAL: [IpNet; 26] = [
    v4(0, 0, 0, 0, 8),             // this host
    v4(10, 0, 0, 0, 8),            // private
    v4(100, 64, 0, 0, 10),         // carrier-grade NAT
    v4(127, 0, 0, 0, 8),           // loopback
    v4(169, 254, 0, 0, 16),        // link-local
    v4(172, 16, 0, 0, 12),         // private
    v4(192, 0, 0, 0, 24),          // IETF protocols
    v4(192, 0, 2, 0, 24),          // documentation
    v4(192, 88, 99, 0, 24),        // 6to4 relays
    v4(192, 168, 0, 0, 16),        // private
    v4(198, 18, 0, 0, 15),         // benchmarks; the fake answers of local proxies
    v4(198, 51, 100, 0, 24),       // documentation
    v4(203, 0, 113, 0, 24),        // documentation
    v4(224, 0, 0, 0, 4),           // multicast
    v4(240, 0, 0, 0, 4),           // reserved, broadcast
    v6([0, 0, 0, 0], 127),         // unspecified and loopback
    v6([0x64, 0xff9b, 1, 0], 48),  // local NAT64
    v6([0x100, 0, 0, 0], 64),      // discard
    v6([0x2001, 0, 0, 0], 23),     // IETF protocols, Teredo
    v6([0x2001, 0xdb8, 0, 0], 32), // documentation
    v6([0x3fff, 0, 0, 0], 20),     // documentation
    v6([0x5f00, 0, 0, 0], 16),     // segment routing
    v6([0xfc00, 0, 0, 0], 7),      // unique local
    v6([0xfe80, 0, 0, 0], 10),     // link-local
    v6([0xfec0, 0, 0, 0], 10),     // site-local, deprecated
    v6([0xff00, 0, 0, 0], 8),      // multicast
];

/// Metadata and credential services of cloud providers; two of them have public addresses.
const METADATA: [IpNet; 7] = [
    v4(169, 254, 169, 0, 24),
    v4(169, 254, 170, 0, 24),
    v4(100, 100, 100, 200, 32),
    v4(192, 0, 0, 192, 32),
    v4(168, 63, 129, 16, 32),
    v6([0xfd00, 0xec2, 0, 0], 64),
    v6([0xfd20, 0xce, 0, 0], 64),
];

/// Returns the effective destination of `address`: an IPv4 address embedded in an IPv6 form
/// (mapped, compatible, translated, NAT64, 6to4) is extracted; any other address is returned
/// unchanged.
#[must_use]
pub fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else {
        return address;
    };
    let [a, b, c, d, e, f, g, h] = six.segments();
    let carried = match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0) if g != 0 || h > 1 => Some((g, h)),
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => {
            Some((g, h))
        }
        (0x2002, high, low, ..) => Some((high, low)),
        _ => None,
    };
    carried.map_or(address, |(high, low)| {
        IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    })
}

/// Returns `true` if `address` is a metadata service, in any of its notations.
#[must_use]
pub fn is_metadata(address: IpAddr) -> bool {
    contained(&METADATA, canonical(address))
}

/// Returns `true` if `address` belongs to the public internet, in any of its notations.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    let address = canonical(address);
    !contained(&SPECIAL, address) && !contained(&METADATA, address)
}

/// Returns `true` if one of `nets` contains `address`.
pub(crate) fn contained(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_ipv4_addresses_are_unwrapped() {
        let table = [
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("::127.0.0.1", "127.0.0.1"),
            ("::ffff:0:10.0.0.1", "10.0.0.1"),
            ("64:ff9b::a9fe:a9fe", "169.254.169.254"),
            ("2002:7f00:1::", "127.0.0.1"),
            ("::1", "::1"),
            ("::", "::"),
            ("2606:4700:4700::1111", "2606:4700:4700::1111"),
            ("8.8.8.8", "8.8.8.8"),
        ];
        for (given, expected) in table {
            assert_eq!(
                canonical(given.parse().unwrap()),
                expected.parse::<IpAddr>().unwrap(),
                "{given}"
            );
        }
    }

    #[test]
    fn classifies_addresses_in_every_form() {
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "192.0.1.1",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "2002:a00:1::1",
            "2001::1",
            "fec0::1",
            "3fff::1",
            "::ffff:0:127.0.0.1",
            "198.19.255.255",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
        for metadata in ["169.254.170.23", "::ffff:168.63.129.16", "fd20:ce::254"] {
            assert!(
                is_metadata(metadata.parse().unwrap()) && !is_public(metadata.parse().unwrap()),
                "{metadata}"
            );
        }
    }
}
