//! The parts of the system and of the home folder that commands need.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::view::{Base, PathAccess};

/// Programs and settings of the system. Debian keeps alternatives below `/etc`, NixOS and Guix keep
/// programs in `/nix` and `/gnu`.
const SYSTEM: [&str; 11] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
];

/// Settings of the system that hold credentials. Only a command of root could read them.
const SYSTEM_SECRETS: [&str; 11] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
];

/// Folders of temporary files and sockets. `/run` holds the sockets of services that start programs
/// outside of a sandbox: D-Bus, systemd, Docker.
const PRIVATE: [&str; 2] = ["/tmp", "/run"];

/// Places of toolchains and their settings below the home folder. None holds credentials, as far as
/// the toolchains put them there.
const TOOLCHAINS: [&str; 24] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/config",
    ".config/git/ignore",
    ".deno/bin",
    ".gitconfig",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".nix-profile",
    ".npm-global",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go/bin",
];

/// Returns what every command may access, with base, home folder and network as given.
pub(crate) fn entries(
    base: Base,
    home: Option<&Path>,
    network: bool,
) -> Vec<(PathBuf, PathAccess)> {
    let mut entries: Vec<(PathBuf, PathAccess)> = PRIVATE
        .iter()
        .map(|path| (path.into(), PathAccess::Private))
        .collect();
    entries.extend(SYSTEM_SECRETS.map(|path| (path.into(), PathAccess::Hidden)));
    if network {
        entries.extend(resolver_file().map(|path| (path, PathAccess::ReadOnly)));
    }
    if base == Base::Everything {
        return entries;
    }
    entries.extend(SYSTEM.map(|path| (path.into(), PathAccess::ReadOnly)));
    entries.push(("/var/tmp".into(), PathAccess::Private));
    if let Some(home) = home {
        entries.push((home.to_owned(), PathAccess::Private));
        entries.extend(TOOLCHAINS.map(|path| (home.join(path), PathAccess::ReadOnly)));
        entries.extend(own_programs(home).map(|path| (path, PathAccess::ReadOnly)));
    }
    entries
}

/// Returns the links at the root of the file system, such as `/bin`, with their targets.
pub(crate) fn links() -> Vec<(PathBuf, PathBuf)> {
    SYSTEM
        .iter()
        .filter_map(|path| Some((PathBuf::from(path), std::fs::read_link(path).ok()?)))
        .collect()
}

/// Returns the file with the name servers if `/etc/resolv.conf` is a link into a private folder.
fn resolver_file() -> Option<PathBuf> {
    let path = std::fs::canonicalize("/etc/resolv.conf").ok()?;
    let is_private = PRIVATE.iter().any(|folder| path.starts_with(folder));
    is_private.then_some(path)
}

/// Returns the folders of `PATH` in the home folder.
fn own_programs(home: &Path) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path)
        .filter(|folder| folder.starts_with(home) && folder != home)
        .collect();
    folders.into_iter()
}
