//! Verification that a mail comes from the address in its `From`.
//!
//! Decision: the own mail server has verified that already and reports it in
//! `Authentication-Results` (RFC 8601), so that report is read. Any sender can write such a header
//! into a mail; only the uppermost of the [reporter](Reporter) that the configuration trusts
//! counts, and without one no mail is proven. A signature of any domain proves nothing about
//! another: a result counts for the domain in `From` or one above or below it. A method with two
//! results, or a result with two values of one property, is ambiguous and proves nothing: an
//! address can be written so that a server quotes a second result.

/// The server whose reports count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter<'a> {
    /// The server with this name.
    Named(&'a str),
    /// A server without a name: the uppermost report counts, if it has no name.
    Nameless,
}

/// The report about the domain in `From`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authenticity {
    /// The domain has signed the mail.
    pub(crate) dkim: bool,
    /// The domain lets the server that brought the mail send.
    pub(crate) spf: bool,
}

impl Authenticity {
    /// `true` if there is any proof.
    pub(crate) fn is_proven(self) -> bool {
        self.dkim || self.spf
    }

    /// Reads the headers, the uppermost first, for a mail that says it comes from `domain`. Without
    /// a reporter to trust nothing is proven.
    pub(crate) fn read<'a>(
        mut headers: impl Iterator<Item = &'a str>,
        trusted: Option<Reporter<'_>>,
        domain: &str,
    ) -> Self {
        let report = match trusted {
            Some(Reporter::Named(name)) => headers
                .map(Report::parse)
                .find(|report| report.server.eq_ignore_ascii_case(name.trim())),
            Some(Reporter::Nameless) => headers
                .next()
                .map(Report::parse)
                .filter(|report| report.server.is_empty()),
            None => None,
        };
        let Some(report) = report else {
            return Self::default();
        };
        let has_failed = |found: &MethodResult| found.method == "dmarc" && found.outcome == "fail";
        if report.results.iter().any(has_failed) {
            return Self::default();
        }
        let passes = |method| report.only(method).filter(|found| found.passes);
        let dmarc = passes("dmarc").is_some_and(|found| found.names(&["header.from"], domain));
        let dkim = passes("dkim")
            .is_some_and(|found| dmarc || found.names(&["header.d", "header.i"], domain));
        let spf = passes("spf").is_some_and(|found| {
            dmarc || dkim || found.names(&["smtp.mailfrom", "smtp.helo"], domain)
        });
        Self { dkim, spf }
    }
}

/// Returns the name under which the uppermost of these headers reports; empty when it has none.
/// `None` without any header, or when it does not prove that the mail comes from `domain`.
pub(crate) fn reporter<'a>(
    headers: impl Iterator<Item = &'a str> + Clone,
    domain: &str,
) -> Option<String> {
    let server = headers.clone().next().map(Report::parse)?.server;
    let trusted = if server.is_empty() {
        Reporter::Nameless
    } else {
        Reporter::Named(&server)
    };
    Authenticity::read(headers, Some(trusted), domain)
        .is_proven()
        .then_some(server)
}

/// One header.
#[derive(Debug)]
struct Report {
    /// The server's name; empty for some servers.
    server: String,
    results: Vec<MethodResult>,
}

/// One result in it.
#[derive(Debug)]
struct MethodResult {
    method: String,
    outcome: String,
    passes: bool,
    /// The values that were checked: `header.d` and the like.
    properties: Vec<(String, String)>,
}

impl Report {
    fn parse(header: &str) -> Self {
        let mut sections = sections(header).into_iter().peekable();
        let server = sections.next_if(|words| words.first().is_none_or(|word| !word.contains('=')));
        let server = server
            .and_then(|words| words.into_iter().next())
            .unwrap_or_default();
        Self {
            server,
            results: sections
                .filter_map(|words| MethodResult::parse(&words))
                .collect(),
        }
    }
}

impl Report {
    /// Returns the result of a method, if there is exactly one.
    fn only(&self, method: &str) -> Option<&MethodResult> {
        let mut found = self.results.iter().filter(|found| found.method == method);
        found.next().filter(|_| found.next().is_none())
    }
}

impl MethodResult {
    fn parse(words: &[String]) -> Option<Self> {
        let mut pairs = words.iter().filter_map(|word| word.split_once('='));
        let (method, outcome) = pairs.next()?;
        let outcome = outcome.to_ascii_lowercase();
        Some(Self {
            // A method may name its version: `dkim/1`.
            method: method
                .split('/')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase(),
            passes: outcome == "pass",
            outcome,
            properties: pairs
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
        })
    }

    /// `true` if the first of these properties that is there belongs to the domain, and is there
    /// once.
    fn names(&self, properties: &[&str], domain: &str) -> bool {
        let values = properties.iter().find_map(|name| {
            let mut values = self
                .properties
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value);
            values.next().map(|first| (first, values.next()))
        });
        matches!(values, Some((value, None)) if is_aligned(value.rsplit('@').next().unwrap_or_default(), domain))
    }
}

/// `true` if two names are one domain, or one is a part of the other.
fn is_aligned(one: &str, other: &str) -> bool {
    let clean = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let (one, other) = (clean(one), clean(other));
    let is_part = |part: &str, whole: &str| {
        whole.contains('.')
            && part
                .strip_suffix(whole)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !one.is_empty() && (one == other || is_part(&one, &other) || is_part(&other, &one))
}

/// Splits at semicolons and blanks, without comments and quotes.
fn sections(header: &str) -> Vec<Vec<String>> {
    let (mut sections, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut depth, mut quoted) = (0_u32, false);
    let mut letters = header.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted || depth > 0 => {
                let escaped = letters.next();
                word.extend(escaped.filter(|_| depth == 0));
            }
            '"' if depth == 0 => quoted = !quoted,
            _ if quoted => word.push(letter),
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ';' => {
                words.push(std::mem::take(&mut word));
                sections.push(joined(std::mem::take(&mut words)));
            }
            _ if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    sections.push(joined(words));
    sections
}

/// Joins words that blanks around `=` separate.
fn joined(words: Vec<String>) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for word in words.into_iter().filter(|word| !word.is_empty()) {
        match whole.last_mut() {
            Some(last) if last.ends_with('=') || word.starts_with('=') => last.push_str(&word),
            _ => whole.push(word),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Authenticity = Authenticity {
        dkim: true,
        spf: true,
    };
    const NONE: Authenticity = Authenticity {
        dkim: false,
        spf: false,
    };

    #[test]
    fn authentication_results_of_known_servers_are_parsed() {
        let table = [
            (
                "mx.google.com;\r\n       dkim=pass header.i=@example.org header.s=s1 header.b=abc;\r\n       spf=pass \
                 (google.com: domain of ann@example.org designates 192.0.2.1 as permitted sender) \
                 smtp.mailfrom=ann@example.org;\r\n       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.org",
                BOTH,
            ),
            (
                "spf=pass (sender IP is 192.0.2.1) smtp.mailfrom=example.org; dkim=pass (signature was verified) \
                 header.d=example.org;dmarc=pass action=none header.from=example.org;compauth=pass reason=100",
                BOTH,
            ),
            (
                "mx.x.test 1; dkim/1 = pass header.d = mail.example.org",
                Authenticity {
                    dkim: true,
                    spf: false,
                },
            ),
            ("mx.x.test; none", NONE),
            ("mx.x.test", NONE),
            ("", NONE),
            // Signed and sent by another domain.
            (
                "mx.x.test; dkim=pass header.d=evil.test; spf=pass smtp.mailfrom=ann@evil.test",
                NONE,
            ),
            (
                "mx.x.test; dkim=pass header.d=org; spf=pass smtp.mailfrom=notexample.org",
                NONE,
            ),
            // A comment, a quoted text, a reason are no results.
            (
                "mx.x.test; dkim=fail (dkim=pass header.d=example.org; spf=pass)",
                NONE,
            ),
            (
                "mx.x.test; dkim=fail reason=\"; dkim=pass header.d=example.org\"",
                NONE,
            ),
            ("mx.x.test; x=y dkim=pass header.d=example.org", NONE),
            // The domain's own policy overrides the others.
            (
                "mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org; dmarc=fail \
                 header.from=example.org",
                NONE,
            ),
            // A service that sends for the domain, which has signed.
            (
                "mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=bounce@service.test",
                BOTH,
            ),
            (
                "mx.x.test; spf=pass smtp.mailfrom=ann@example.org; dkim=none",
                Authenticity {
                    dkim: false,
                    spf: true,
                },
            ),
        ];
        for (header, expected) in table {
            let server = Report::parse(header).server;
            let trusted = if server.is_empty() {
                Reporter::Nameless
            } else {
                Reporter::Named(&server)
            };
            let read = Authenticity::read([header].into_iter(), Some(trusted), "example.org");
            assert_eq!(read, expected, "{header}");
        }
    }

    #[test]
    fn ambiguous_results_of_one_method_prove_nothing() {
        let spf = "spf=pass smtp.mailfrom=example.org";
        let table = [
            (
                "dkim=pass header.d=evil.test; dkim=pass header.d=example.org",
                NONE,
            ),
            (
                "dkim=pass header.d=example.org; dkim=fail header.d=example.org",
                NONE,
            ),
            (
                "spf=fail smtp.mailfrom=a@evil.test; spf=pass smtp.mailfrom=example.org",
                NONE,
            ),
            ("dkim=pass header.d=example.org header.d=evil.test", NONE),
            (
                "spf=pass smtp.mailfrom=a@evil.test smtp.mailfrom=example.org",
                NONE,
            ),
            (
                "dmarc=pass header.from=evil.test; dmarc=pass header.from=example.org; dkim=pass header.d=evil.test",
                NONE,
            ),
            // An ambiguous result does not change that of another method.
            (
                "dkim=pass header.d=example.org; dkim=pass header.d=service.test; SPF",
                Authenticity {
                    dkim: false,
                    spf: true,
                },
            ),
        ];
        for (results, expected) in table {
            let header = format!("mx.x.test; {}", results.replace("SPF", spf));
            let read = Authenticity::read(
                [header.as_str()].into_iter(),
                Some(Reporter::Named("mx.x.test")),
                "example.org",
            );
            assert_eq!(read, expected, "{header}");
        }
    }

    #[test]
    fn reporter_is_learned_only_from_a_passing_report() {
        let good = "mx.x.test 1; dkim=pass header.d=example.org";
        let table: [(&[&str], Option<&str>); 6] = [
            (&[good], Some("mx.x.test")),
            (&["dkim=pass header.d=example.org", good], Some("")),
            (&["mx.x.test; dkim=fail", good], None),
            (&["other.test; none", good], None),
            (&["evil.test; dkim=pass header.d=evil.test", good], None),
            (&[], None),
        ];
        for (headers, expected) in table {
            assert_eq!(
                reporter(headers.iter().copied(), "example.org").as_deref(),
                expected,
                "{headers:?}"
            );
        }
    }

    #[test]
    fn only_reports_of_the_trusted_server_count() {
        let good = "mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org";
        let bad = "mx.x.test; dkim=fail header.d=example.org; spf=fail smtp.mailfrom=example.org";
        let foreign =
            "evil.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org";
        let nameless = "dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org";
        let named = |name| Some(Reporter::Named(name));
        let table: [(&[&str], Option<Reporter<'_>>, Authenticity); 11] = [
            (&[good, bad], named("mx.x.test"), BOTH),
            (&[bad, good], named("mx.x.test"), NONE),
            (&[], named("mx.x.test"), NONE),
            (&[foreign], named("mx.x.test"), NONE),
            (&[foreign, good], named("MX.x.test"), BOTH),
            (&[nameless], named("mx.x.test"), NONE),
            // Without a name to trust there is no proof.
            (&[good], None, NONE),
            (&[nameless], None, NONE),
            (&[nameless, bad], Some(Reporter::Nameless), BOTH),
            (&[good, nameless], Some(Reporter::Nameless), NONE),
            (&["", nameless], Some(Reporter::Nameless), NONE),
        ];
        for (headers, trusted, expected) in table {
            let read = Authenticity::read(headers.iter().copied(), trusted, "example.org");
            assert_eq!(read, expected, "{headers:?} {trusted:?}");
        }
    }
}
