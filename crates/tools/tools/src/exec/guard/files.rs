//! Checks the paths and URLs in arguments.

use std::path::Path;

use nanobot_guard::{PathDenied, ResolvedPath};
use url::{Host, Url};

use super::{Argument, GuardRefusal, Inspection};

/// Device files that any command may use.
const HARMLESS_DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Folders of installed programs. Naming a program there runs it and does not read the file.
const PROGRAM_FOLDERS: [&str; 8] = [
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/nix/store",
    "/run/current-system",
    "/snap",
    "/System",
];

/// Programs that print or ignore their arguments.
const PRINTERS: [&str; 5] = ["echo", "printf", ":", "true", "false"];

/// Programs whose first operand is a pattern or a script.
const MATCHERS: [&str; 12] = [
    "grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "mawk", "jq", "yq", "expr",
];

impl Inspection<'_> {
    /// Checks everything that looks like a path or a URL among the arguments of `name`.
    pub(super) fn paths(
        &mut self,
        program: &Argument,
        name: &str,
        arguments: &[Argument],
    ) -> Result<(), GuardRefusal> {
        let installed = PROGRAM_FOLDERS
            .iter()
            .any(|folder| Path::new(&program.text).starts_with(folder));
        if program.text.contains('/') && !installed {
            self.may_read(program)?;
        }
        if PRINTERS.contains(&name) {
            return Ok(());
        }
        // URLs in a commit message are not connected to.
        let is_message =
            name == "git" && arguments.first().is_some_and(|verb| verb.text == "commit");
        let mut pattern_ahead = MATCHERS.contains(&name);
        for argument in arguments {
            if pattern_ahead && !argument.text.starts_with('-') {
                pattern_ahead = false;
                continue;
            }
            if !is_message {
                self.addresses(name, &argument.text);
            }
            self.argument_path(argument)?;
        }
        Ok(())
    }

    fn argument_path(&self, argument: &Argument) -> Result<(), GuardRefusal> {
        let text = argument.text.as_str();
        // `-C/path`, `-I../path`: the path follows the option directly.
        let option = if text.starts_with('-') {
            text.len()
                - text
                    .trim_start_matches(|c: char| c == '-' || c.is_ascii_alphanumeric())
                    .len()
        } else {
            0
        };
        let mut starts = vec![option];
        starts.extend(text.find('=').map(|at| at + 1));
        starts.extend(text.find('@').map(|at| at + 1));
        for candidate in starts.into_iter().map(|start| argument.from(start)) {
            if self.is_path(&candidate) {
                self.may_read(&candidate)?;
            }
        }
        Ok(())
    }

    /// `true` if the argument is a path: it exists, or it is written like one.
    fn is_path(&self, candidate: &Argument) -> bool {
        let text = candidate.text.as_str();
        let Some(place) = candidate.certain_path().filter(|place| !place.is_empty()) else {
            return false;
        };
        if text.contains("://") {
            return false;
        }
        let written = !text.contains(char::is_whitespace) && (text.contains('/') || text == "..");
        written || self.absolute(place).symlink_metadata().is_ok()
    }

    /// Collects the URLs in `text`; a bare host counts for programs that take one.
    fn addresses(&mut self, name: &str, text: &str) {
        let lower = text.to_ascii_lowercase();
        for scheme in ["http://", "https://"] {
            for (at, _) in lower.match_indices(scheme) {
                let url = text.get(at..).unwrap_or_default();
                let end = url.find(|c: char| c.is_whitespace() || "\"'<>`$…".contains(c));
                let url = url.get(..end.unwrap_or(url.len())).unwrap_or_default();
                // Skip a URL whose host is unknown until the command runs.
                if url.len() > scheme.len() {
                    self.urls.push(url.to_owned());
                }
            }
        }
        if matches!(name, "curl" | "wget") && !text.starts_with('-') && !text.contains("://") {
            let bare = format!("http://{text}");
            let host = Url::parse(&bare)
                .ok()
                .and_then(|url| url.host().map(|host| host.to_owned()));
            match host {
                Some(Host::Domain(domain)) if domain != "localhost" => {}
                Some(_) if !text.chars().all(|c| c.is_ascii_digit()) => self.urls.push(bare),
                _ => {}
            }
        }
    }

    pub(super) fn may_read(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            return Ok(());
        };
        if is_network_device(place) {
            return Err(GuardRefusal::Dangerous(
                "a network device of the shell".to_owned(),
            ));
        }
        let verdict = self.guard.policy.read(self.absolute(place));
        match verdict {
            Err(PathDenied::Special { .. }) if is_harmless_device(place) => Ok(()),
            Err(PathDenied::Special { .. }) if !self.guard.policy.is_restricted() => {
                let reveals = ["environ", "mem", "root", "cwd", "fd"];
                let inside = place.starts_with("/proc/")
                    && (!target.is_literal()
                        || place.split('/').any(|part| reveals.contains(&part)));
                if inside { refused(verdict) } else { Ok(()) }
            }
            // Text that only looks like an absolute path.
            Err(PathDenied::Outside { .. }) if is_nowhere(place) => Ok(()),
            _ => refused(verdict),
        }
    }

    pub(super) fn may_write(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            return Ok(());
        };
        if is_network_device(place) {
            return Err(GuardRefusal::Dangerous(
                "a network device of the shell".to_owned(),
            ));
        }
        if is_harmless_device(place) {
            return Ok(());
        }
        refused(self.guard.policy.write(self.absolute(place)))
    }

    pub(super) fn may_remove(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            return Ok(());
        };
        refused(self.guard.policy.remove(self.absolute(place)))
    }

    /// Checks the removal of a directory tree. It must be inside the workspace or another open
    /// root, whether tools are confined or not, and the path must be certain.
    pub(super) fn may_remove_tree(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            let reason = format!(
                "recursive deletion of '{}', which only running would tell",
                target.text
            );
            return Err(GuardRefusal::Dangerous(reason));
        };
        refused(self.guard.confined.remove(self.absolute(place)))
    }

    /// Checks that files in this tree may be removed or changed: it is in an open root and not
    /// protected.
    pub(super) fn may_change_below(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            return Ok(());
        };
        refused(self.guard.confined.write(self.absolute(place)))
    }
}

/// Turns a denial into a refusal. A path that cannot be resolved is left to the shell, which will
/// report it.
fn refused(verdict: Result<ResolvedPath, PathDenied>) -> Result<(), GuardRefusal> {
    match verdict {
        Ok(_) | Err(PathDenied::Unresolvable { .. } | PathDenied::Malformed) => Ok(()),
        Err(denied) => Err(GuardRefusal::Path(denied.to_string())),
    }
}

fn is_harmless_device(place: &str) -> bool {
    HARMLESS_DEVICES.contains(&place) || place.starts_with("/dev/fd/")
}

fn is_network_device(place: &str) -> bool {
    place.starts_with("/dev/tcp/") || place.starts_with("/dev/udp/")
}

/// `true` if not even the first component of an absolute path exists.
fn is_nowhere(place: &str) -> bool {
    let mut components = Path::new(place).components();
    let root = components.next();
    let first = components.next();
    match (root, first) {
        (Some(root), Some(first)) => {
            let top = Path::new(&root).join(first);
            place.starts_with('/') && top.symlink_metadata().is_err()
        }
        _ => false,
    }
}
