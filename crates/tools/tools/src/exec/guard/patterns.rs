//! Patterns over a command with its arguments: the built-in ones and the operator's.
//!
//! Decision: case folding, word characters and white space are ASCII only, like programs and their
//! options. Unicode tables would take more space than everything else here.

use std::sync::LazyLock;

use regex_lite::{Regex, RegexBuilder};

use super::{Argument, GuardRefusal};
use crate::ToolsError;

/// Harmful commands, anchored at the program name, so that a commit message about rebooting does
/// not match.
const DANGEROUS: [(&str, &str); 14] = [
    (
        r"^(mkfs(\.\w+)?|mke2fs|mkswap|diskpart|fdisk|sfdisk|parted|wipefs|blkdiscard)\b",
        "formatting a disk",
    ),
    (r"^format(\.com)?\s+[a-z]:", "formatting a disk"),
    (r"^(del|erase)\s+/[fsq]\b", "forced deletion"),
    (r"^(rmdir|rd)\s+/s\b", "recursive deletion"),
    (
        r"^dd\b.*\sof=/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|mem|kmem)",
        "writing to a device",
    ),
    (
        r"^(shutdown|reboot|poweroff|halt|telinit)(\s|$)",
        "stopping the machine",
    ),
    (r"^init\s+[06]\b", "stopping the machine"),
    (
        r"^systemctl\b.*\s(poweroff|reboot|halt|kexec|suspend|hibernate|isolate|rescue|emergency)\b",
        "stopping the machine",
    ),
    (
        r"^(sudo|sudoedit|su|doas|pkexec|runuser|run0)(\s|$)",
        "acting as another user",
    ),
    (
        r"^chmod\b.*\s([ugoa]*[+=][rwxXt]*s[rwxXst]*|0?[2-7][0-7]{3})(\s|$)",
        "set-uid or set-gid bits",
    ),
    (
        r"^kill\s+(-\S+\s+(\w+\s+)?)+-1(\s|$)",
        "ending all processes",
    ),
    (
        r"^(kill|pkill|killall)\b.*\$(ppid|\{ppid\})",
        "ending the assistant",
    ),
    (
        r"^crontab(\s+([^-]|-(\s|$)|-[eriu])|$)",
        "changing scheduled jobs",
    ),
    (
        r"^tar\b.*\s--?(checkpoint-action|to-command|use-compress-program|rsh-command)",
        "a command run by tar",
    ),
];

static BUILT_IN: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    // A pattern that does not compile is caught by the test below.
    let compile =
        |(pattern, what): (&str, &'static str)| Some((ignoring_case(pattern).ok()?, what));
    DANGEROUS.into_iter().filter_map(compile).collect()
});

fn ignoring_case(pattern: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).build()
}

/// Refuses a fork bomb: a function that pipes into itself.
pub(super) fn fork_bomb(text: &str) -> Result<(), GuardRefusal> {
    let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let doubles = squeezed.match_indices("(){").any(|(at, _)| {
        let (before, body) = squeezed.split_at_checked(at).unwrap_or_default();
        let start = before
            .rfind([';', '&', '|', '}', '\n'])
            .map_or(0, |found| found + 1);
        let name = before.get(start..).unwrap_or_default();
        let name = name.strip_prefix("function").unwrap_or(name);
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    });
    if doubles {
        Err(GuardRefusal::Dangerous("a fork bomb".to_owned()))
    } else {
        Ok(())
    }
}

/// Joins a command into one line, for patterns and messages.
pub(super) fn line(name: &str, arguments: &[Argument]) -> String {
    let texts = arguments.iter().map(|argument| argument.text.as_str());
    std::iter::once(name)
        .chain(texts)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The operator's patterns.
#[derive(Debug)]
pub(super) struct Patterns {
    deny: Vec<Regex>,
    allow: Vec<Regex>,
}

impl Patterns {
    pub(super) fn new(deny: &[String], allow: &[String]) -> Result<Self, ToolsError> {
        let compile = |pattern: &String| {
            ignoring_case(pattern).map_err(|source| ToolsError::Pattern {
                pattern: pattern.clone(),
                source,
            })
        };
        Ok(Self {
            deny: deny.iter().map(compile).collect::<Result<_, _>>()?,
            allow: allow.iter().map(compile).collect::<Result<_, _>>()?,
        })
    }

    /// Refuses a dangerous or denied command. Returns `true` if the command matches an allow
    /// pattern or there are none. An allowed command is exempt from the built-in patterns and the
    /// deny patterns.
    pub(super) fn check(&self, name: &str, arguments: &[Argument]) -> Result<bool, GuardRefusal> {
        let line = line(name, arguments);
        let named = self.allow.iter().any(|pattern| pattern.is_match(&line));
        if !named {
            if let Some((_, what)) = BUILT_IN.iter().find(|(pattern, _)| pattern.is_match(&line)) {
                return Err(GuardRefusal::Dangerous((*what).to_owned()));
            }
            if let Some(pattern) = self.deny.iter().find(|pattern| pattern.is_match(&line)) {
                return Err(GuardRefusal::Denied(pattern.as_str().to_owned()));
            }
        }
        Ok(named || self.allow.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_pattern_compiles() {
        assert_eq!(BUILT_IN.len(), DANGEROUS.len());
    }

    #[test]
    fn built_in_patterns_match_commands_but_not_mentions() {
        let check = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let arguments: Vec<_> = words.map(Argument::literal).collect();
            Patterns::new(&[], &[])
                .unwrap()
                .check(name, &arguments)
                .is_ok()
        };
        for harmful in [
            "mkfs.ext4 /dev/sda1",
            "format c:",
            "del /f x",
            "kill -9 -1",
            "chmod 4755 f",
            "crontab -e",
            "crontab f",
        ] {
            assert!(!check(harmful), "{harmful}");
        }
        for harmless in [
            "npm run format",
            "echo reboot-plan",
            "kill -9 123",
            "kill -1 1234",
            "chmod 755 f",
            "chmod +x s",
            "crontab -l",
            "rmdir sub",
        ] {
            assert!(check(harmless), "{harmless}");
        }
    }

    #[test]
    fn detects_fork_bombs_under_any_function_name() {
        for bomb in [
            ":(){ :|:& };:",
            "f () { f | f & } ; f",
            "function b(){ b|b; }; b",
        ] {
            assert!(fork_bomb(bomb).is_err(), "{bomb}");
        }
        assert_eq!(fork_bomb("f() { echo hi | cat; }; f"), Ok(()));
    }
}
