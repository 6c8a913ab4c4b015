//! The hosts of proxies. The operator chose them, so they may be private.

use url::Url;

/// Variables that name the proxies of the environment.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Returns the hosts of the configured proxy, in lower case; none for `""`. Without a configured
/// one, returns those of the proxies of the environment.
#[must_use]
pub fn proxy_hosts(configured: Option<&str>) -> Vec<String> {
    match configured {
        Some(proxy) => proxy_host(proxy).into_iter().collect(),
        None => VARIABLES
            .iter()
            .filter_map(|key| proxy_host(&std::env::var(key).ok()?))
            .collect(),
    }
}

/// Returns the host of a proxy, whose address may lack its scheme.
fn proxy_host(proxy: &str) -> Option<String> {
    let proxy = proxy.trim();
    let address = match proxy.contains("://") {
        true => Url::parse(proxy),
        false => Url::parse(&format!("http://{proxy}")),
    };
    Some(address.ok()?.host_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_a_proxy_is_found_in_every_notation() {
        for (proxy, hosts) in [
            ("http://me:word@Proxy.test:3128", &["proxy.test"][..]),
            ("socks5://Proxy.test:1080", &["proxy.test"]),
            (" proxy.test:3128 ", &["proxy.test"]),
            ("", &[]),
        ] {
            assert_eq!(proxy_hosts(Some(proxy)), hosts, "{proxy}");
        }
    }
}
