//! Whether a mail comes from whom it says it comes from.
//!
//! Decision: the own mail server has verified that already and reports it in
//! `Authentication-Results` (RFC 8601), so that report is read. Anybody can write such a header into
//! a mail; only one of them counts: the uppermost, or the uppermost under the name that the
//! configuration trusts. And a signature of any domain proves nothing about another: a result counts
//! for the domain in `From` or one above or below it.

/// What the own server says about the domain in `From`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authenticity {
    /// The domain has signed the mail.
    pub(crate) dkim: bool,
    /// The domain lets the server that brought the mail send.
    pub(crate) spf: bool,
}

impl Authenticity {
    /// Whether there is any proof.
    pub(crate) fn is_proven(self) -> bool {
        self.dkim || self.spf
    }

    /// Reads the headers, the uppermost first, for a mail that says it comes from `domain`.
    pub(crate) fn read<'a>(headers: impl Iterator<Item = &'a str>, trusted: Option<&str>, domain: &str) -> Self {
        let mut reports = headers.map(Report::parse);
        let report = match trusted {
            Some(name) => reports.find(|report| report.server.eq_ignore_ascii_case(name.trim())),
            None => reports.next(),
        };
        let Some(report) = report else { return Self::default() };
        let passes = |method: &'static str| {
            report.results.iter().filter(move |found| found.method.as_str() == method && found.passes)
        };
        let has_failed = |found: &Finding| found.method == "dmarc" && found.outcome == "fail";
        if report.results.iter().any(has_failed) {
            return Self::default();
        }
        let dmarc = passes("dmarc").any(|found| found.names(&["header.from"], domain));
        let dkim = passes("dkim").any(|found| dmarc || found.names(&["header.d", "header.i"], domain));
        let spf = passes("spf").any(|found| dmarc || dkim || found.names(&["smtp.mailfrom", "smtp.helo"], domain));
        Self { dkim, spf }
    }
}

/// One header.
#[derive(Debug)]
struct Report {
    /// Who reports; some servers do not say.
    server: String,
    results: Vec<Finding>,
}

/// One result in it.
#[derive(Debug)]
struct Finding {
    method: String,
    outcome: String,
    passes: bool,
    /// What was looked at: `header.d` and the like.
    properties: Vec<(String, String)>,
}

impl Report {
    fn parse(header: &str) -> Self {
        let mut sections = sections(header).into_iter().peekable();
        let server = sections.next_if(|words| words.first().is_none_or(|word| !word.contains('=')));
        let server = server.and_then(|words| words.into_iter().next()).unwrap_or_default();
        Self { server, results: sections.filter_map(|words| Finding::parse(&words)).collect() }
    }
}

impl Finding {
    fn parse(words: &[String]) -> Option<Self> {
        let mut pairs = words.iter().filter_map(|word| word.split_once('='));
        let (method, outcome) = pairs.next()?;
        let outcome = outcome.to_ascii_lowercase();
        Some(Self {
            // A method may name its version: `dkim/1`.
            method: method.split('/').next().unwrap_or_default().to_ascii_lowercase(),
            passes: outcome == "pass",
            outcome,
            properties: pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
        })
    }

    /// Whether the first of these properties that is there belongs to the domain.
    fn names(&self, properties: &[&str], domain: &str) -> bool {
        let value = properties
            .iter()
            .find_map(|name| self.properties.iter().find(|(known, _)| known == name))
            .map(|(_, value)| value.rsplit('@').next().unwrap_or_default());
        value.is_some_and(|value| is_aligned(value, domain))
    }
}

/// Whether two names are one domain, or one is a part of the other.
fn is_aligned(one: &str, other: &str) -> bool {
    let clean = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let (one, other) = (clean(one), clean(other));
    let is_part = |part: &str, whole: &str| {
        whole.contains('.') && part.strip_suffix(whole).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
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

/// Puts together what blanks around `=` have torn apart.
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

    const BOTH: Authenticity = Authenticity { dkim: true, spf: true };
    const NONE: Authenticity = Authenticity { dkim: false, spf: false };

    #[test]
    fn reports_of_well_known_servers_are_understood() {
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
            ("mx.x.test 1; dkim/1 = pass header.d = mail.example.org", Authenticity { dkim: true, spf: false }),
            ("mx.x.test; none", NONE),
            ("mx.x.test", NONE),
            ("", NONE),
            // Signed by somebody else, sent by somebody else.
            ("mx.x.test; dkim=pass header.d=evil.test; spf=pass smtp.mailfrom=ann@evil.test", NONE),
            ("mx.x.test; dkim=pass header.d=org; spf=pass smtp.mailfrom=notexample.org", NONE),
            // A comment, a quoted text, a reason are no results.
            ("mx.x.test; dkim=fail (dkim=pass header.d=example.org; spf=pass)", NONE),
            ("mx.x.test; dkim=fail reason=\"; dkim=pass header.d=example.org\"", NONE),
            ("mx.x.test; x=y dkim=pass header.d=example.org", NONE),
            // The domain's own word stands above the others.
            (
                "mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org; dmarc=fail \
                 header.from=example.org",
                NONE,
            ),
            // A service that sends for the domain, which has signed.
            ("mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=bounce@service.test", BOTH),
            ("mx.x.test; spf=pass smtp.mailfrom=ann@example.org; dkim=none", Authenticity { dkim: false, spf: true }),
        ];
        for (header, expected) in table {
            assert_eq!(Authenticity::read([header].into_iter(), None, "example.org"), expected, "{header}");
        }
    }

    #[test]
    fn only_the_own_servers_report_counts() {
        let good = "mx.x.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org";
        let bad = "mx.x.test; dkim=fail header.d=example.org; spf=fail smtp.mailfrom=example.org";
        let foreign = "evil.test; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=example.org";
        let table: [(&[&str], Option<&str>, Authenticity); 7] = [
            (&[good, bad], None, BOTH),
            (&[bad, good], None, NONE),
            (&[], None, NONE),
            (&[foreign], Some("mx.x.test"), NONE),
            (&[foreign, good], Some("MX.x.test"), BOTH),
            (&[bad, good], Some("mx.x.test"), NONE),
            (&["dkim=pass header.d=example.org"], Some("mx.x.test"), NONE),
        ];
        for (headers, trusted, expected) in table {
            let read = Authenticity::read(headers.iter().copied(), trusted, "example.org");
            assert_eq!(read, expected, "{headers:?} {trusted:?}");
        }
    }
}
