//! The URL guard against `ssrf.jsonl`, including redirects and scripted resolver results.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use nanobot_guard::{CheckedUrl, MAX_REDIRECTS, Resolver, UrlDenied, UrlGuard, is_public};
use serde::Deserialize;

/// Rows that the guard does not decide.
const UNCHECKED: [(&str, &str); 1] = [(
    "ss-s-135",
    "providers connect to what the operator configured, without asking",
)];

#[derive(Deserialize)]
struct Row {
    id: String,
    url: String,
    expect: String,
    reason: String,
    #[serde(default)]
    dns: HashMap<String, Vec<Vec<IpAddr>>>,
    #[serde(default)]
    http: HashMap<String, Answer>,
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize)]
struct Answer {
    location: Option<String>,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    ssrf_allow: Vec<String>,
}

/// Scripted lookup results: one list per lookup, of which the last repeats; `*` matches any name.
#[derive(Debug)]
struct Script(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

#[async_trait]
impl Resolver for Script {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut script = self.0.lock().unwrap();
        let key = if script.contains_key(host) { host } else { "*" };
        let answers = script.get_mut(key).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0].clone()
        })
    }
}

fn guard(dns: &[(&str, &[&str])], opened: &[&str]) -> UrlGuard {
    let script = dns.iter().map(|(name, answers)| {
        let lookup = answers
            .iter()
            .map(|address| address.parse().unwrap())
            .collect();
        ((*name).to_owned(), vec![lookup])
    });
    scripted(script.collect(), opened)
}

fn scripted(dns: HashMap<String, Vec<Vec<IpAddr>>>, opened: &[impl AsRef<str>]) -> UrlGuard {
    let opened = opened
        .iter()
        .map(|net| net.as_ref().parse().unwrap())
        .collect();
    UrlGuard::new(Arc::new(Script(Mutex::new(dns))), opened)
}

/// Follows the scripted redirects of a row to the end.
async fn follow(guard: &UrlGuard, row: &Row) -> Result<CheckedUrl, UrlDenied> {
    let mut target = guard.check(&row.url).await?;
    while let Some(location) = row
        .http
        .get(target.url().as_str())
        .and_then(|answer| answer.location.as_deref())
    {
        target = guard.redirect(&target, location).await?;
    }
    Ok(target)
}

#[tokio::test]
async fn corpus_verdicts_match() {
    let rows: Vec<Row> = crate::rows(include_str!("../../../../dev/testkit/corpus/ssrf.jsonl"));
    let mut failed = Vec::new();
    for row in rows
        .iter()
        .filter(|row| UNCHECKED.iter().all(|(id, _)| *id != row.id))
    {
        let verdict = follow(&scripted(row.dns.clone(), &row.config.ssrf_allow), row).await;
        if verdict.is_ok() != (row.expect == "allow") {
            failed.push(format!(
                "{} {} ({}): {verdict:?}",
                row.id, row.url, row.reason
            ));
        }
    }
    crate::no_failures(&failed);
}

#[tokio::test]
async fn a_checked_url_carries_the_addresses_that_were_checked() {
    let guard = guard(
        &[("example.com", &["93.184.215.14", "2606:2800:21f::1"])],
        &[],
    );
    let target = guard.check("HTTPS://Example.com/a?b#c").await.unwrap();
    assert_eq!(target.url().as_str(), "https://example.com/a?b#c");
    let addresses: Vec<String> = target.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["93.184.215.14:443", "[2606:2800:21f::1]:443"]);
}

#[tokio::test]
async fn allowed_network_admits_only_its_own_hosts() {
    let dns: &[(&str, &[&str])] = &[
        ("nas.lan", &["192.168.1.9"]),
        ("printer.lan", &["192.168.2.9"]),
        ("metadata", &["192.168.1.1"]),
    ];
    let guard = guard(dns, &["192.168.1.0/24", "169.254.0.0/16"]);
    assert!(guard.check("http://nas.lan/").await.is_ok());
    assert!(guard.check("http://[::ffff:192.168.1.9]/").await.is_ok());
    assert!(matches!(
        guard.check("http://printer.lan/").await,
        Err(UrlDenied::Private { .. })
    ));
    assert!(matches!(
        guard.check("http://metadata/").await,
        Err(UrlDenied::Metadata(_))
    ));
    assert!(matches!(
        guard.check("http://169.254.169.254/").await,
        Err(UrlDenied::Metadata(_))
    ));
}

#[tokio::test]
async fn redirects_are_counted_and_may_be_relative() {
    let guard = guard(&[("example.com", &["93.184.215.14"])], &[]);
    let mut target = guard.check("http://example.com/a/b").await.unwrap();
    for _ in 0..MAX_REDIRECTS {
        target = guard.redirect(&target, "c").await.unwrap();
    }
    assert_eq!(target.url().as_str(), "http://example.com/a/c");
    assert!(matches!(
        guard.redirect(&target, "c").await,
        Err(UrlDenied::TooManyRedirects(MAX_REDIRECTS))
    ));
}

#[tokio::test]
async fn denials_explain_without_repeating_credentials() {
    let guard = guard(
        &[
            ("inside.example", &["::ffff:10.0.0.5"]),
            ("empty.example", &[]),
        ],
        &[],
    );
    let table = [
        (
            "http://u:secret@example.com/",
            "URLs with credentials are refused",
        ),
        (
            "ftp://example.com/",
            "only http and https URLs are allowed, got 'ftp'",
        ),
        (
            "http://inside.example/",
            "host 'inside.example' is the private or internal address 10.0.0.5",
        ),
        (
            "http://empty.example/",
            "cannot resolve host 'empty.example'",
        ),
        ("http://example.com:25/", "port 25 is not a web port"),
        (
            "nonsense",
            "the URL cannot be parsed (relative URL without a base)",
        ),
    ];
    for (url, expected) in table {
        assert_eq!(
            guard.check(url).await.unwrap_err().to_string(),
            expected,
            "{url}"
        );
    }
}

proptest::proptest! {
    /// All notations of an address get the same verdict.
    #[test]
    fn all_notations_of_an_address_get_the_same_verdict(bits: u32, local: bool) {
        // Half of the addresses are drawn from a loopback network; otherwise hardly any would be
        // denied.
        let bits = if local { 0x7f00_0000 | bits >> 8 } else { bits };
        let address = std::net::Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        let (high, low) = (bits >> 16, bits & 0xffff);
        let notations = [
            format!("http://{address}/"),
            format!("http://{address}./"),
            format!("http://{bits}/"),
            format!("http://{bits:#x}/"),
            format!("http://{a:#x}.{b:#o}.{}/", u32::from(c) << 8 | u32::from(d)).replace("0o", "0"),
            format!("http://%3{}{}/", a.to_string().split_at(1).0, format!("{address}").split_at(1).1),
            format!("http://[::ffff:{address}]/"),
            format!("http://[0:0:0:0:0:ffff:{high:x}:{low:x}]/"),
            format!("http://[64:ff9b::{high:x}:{low:x}]/"),
            format!("http://[2002:{high:x}:{low:x}::1]/"),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for url in notations {
            let verdict = runtime.block_on(guard(&[], &[]).check(&url));
            assert_eq!(verdict.is_ok(), is_public(address.into()), "{url}: {verdict:?}");
        }
    }
}
