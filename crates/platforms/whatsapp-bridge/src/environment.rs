//! The variables that npm and the bridge get.
//!
//! Decision: a list of what may pass, not of what may not: keys of nanobot, of vendors and of the
//! user's other programs never reach code that npm fetched.

use std::ffi::{OsStr, OsString};
use std::fmt;

use nanobot_redact::Secrets;

/// Variables that both get: where programs, temporary files and certificates are, language, time
/// zone, proxies. Compared without regard to case.
const SHARED: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];
/// Variables without which programs do not run on Windows.
const WINDOWS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERPROFILE",
];
/// Prefix of npm's own settings.
const NPM_PREFIX: &str = "npm_config_";
/// Words in the names of npm's settings that are secret.
const NPM_SECRETS: &[&str] = &["auth", "password", "token"];

/// Variables of an environment, of which children get a few.
#[derive(Clone)]
pub(crate) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// Returns the folders in which programs are searched.
    pub(crate) fn search_path(&self) -> &OsStr {
        let path = |(name, _): &&(OsString, OsString)| is_one_of(&lossy(name), &["PATH"]);
        self.0
            .iter()
            .find(path)
            .map_or(OsStr::new(""), |(_, value)| value)
    }

    /// Returns the variables for the bridge.
    pub(crate) fn for_bridge(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.filtered(is_shared)
    }

    /// Returns the variables for npm.
    pub(crate) fn for_npm(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.filtered(|name| is_shared(name) || is_npm_setting(name))
    }

    /// Returns the secrets in these variables: the passwords of proxies and registries.
    pub(crate) fn secrets(&self) -> Secrets {
        let values = self.for_npm().filter_map(|(name, value)| {
            let (name, value) = (lossy(name).to_ascii_lowercase(), lossy(value));
            let is_secret =
                is_npm_setting(&name) && NPM_SECRETS.iter().any(|word| name.contains(word));
            if is_secret {
                Some(value)
            } else {
                password(&value).map(str::to_owned)
            }
        });
        Secrets::new(values)
    }

    fn filtered(&self, is_passed: fn(&str) -> bool) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .filter(move |(name, _)| is_passed(&lossy(name)))
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl fmt::Debug for Environment {
    /// Shows the number of variables only: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// Returns the password of an address (`http://user:password@proxy`).
fn password(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

fn is_shared(name: &str) -> bool {
    is_one_of(name, SHARED) || (cfg!(windows) && is_one_of(name, WINDOWS))
}

fn is_npm_setting(name: &str) -> bool {
    name.get(..NPM_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(NPM_PREFIX))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let variables = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "sk-1234567890"),
            ("NANOBOT_CONFIG", "x"),
            ("NODE_OPTIONS", "--require evil.js"),
            ("https_proxy", "http://ann:gReen-7-apple@proxy:8080/"),
            ("npm_config_registry", "http://localhost"),
            ("NPM_CONFIG__AUTHTOKEN", "npm-Token-123"),
            ("LD_PRELOAD", "evil.so"),
        ];
        Environment::new(variables.map(|(name, value)| (name.into(), value.into())))
    }

    fn names<'a>(variables: impl Iterator<Item = (&'a OsStr, &'a OsStr)>) -> Vec<String> {
        variables.map(|(name, _)| lossy(name)).collect()
    }

    #[test]
    fn only_listed_variables_are_passed() {
        let environment = environment();
        assert_eq!(names(environment.for_bridge()), ["PATH", "https_proxy"]);
        assert_eq!(
            names(environment.for_npm()),
            [
                "PATH",
                "https_proxy",
                "npm_config_registry",
                "NPM_CONFIG__AUTHTOKEN"
            ]
        );
        assert_eq!(environment.search_path(), "/bin");
        assert_eq!(format!("{environment:?}"), "Environment(8 variables)");
    }

    #[test]
    fn passwords_of_proxies_and_registries_are_redacted() {
        let secrets = environment().secrets();
        let text = secrets.redact("http://ann:gReen-7-apple@proxy:8080 and npm-Token-123");
        assert!(
            !text.contains("apple") && !text.contains("npm-Token"),
            "{text}"
        );
        assert!(text.contains("proxy:8080"), "{text}");
    }
}
