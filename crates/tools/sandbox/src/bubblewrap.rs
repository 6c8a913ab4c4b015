//! Confinement by bubblewrap: namespaces of users, processes, mounts and the network.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    system,
    view::{Base, Mount, PathAccess, View},
};

/// Places of the program. It is not searched for in `PATH`, which may name folders that a tool can
/// write.
const PLACES: [&str; 4] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// Place of the launcher inside the sandbox.
pub(crate) const LAUNCHER: &str = "/run/nanobot-launcher";

/// Maximum size of each private folder, in bytes.
const PRIVATE_SIZE: &str = "1073741824";

/// Returns the place of the program.
pub(crate) fn find() -> Option<PathBuf> {
    PLACES
        .iter()
        .map(PathBuf::from)
        .find(|place| place.is_file())
}

/// Returns the arguments for a process in `directory` that sees `view` and starts `launcher`, up to
/// the arguments of the launcher.
pub(crate) fn arguments(view: &View, launcher: &Path, directory: &Path) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.options(&[
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]);
    if view.has_network() {
        arguments.options(&["--share-net"]);
    }
    match view.base() {
        Base::Everything => arguments.options(&["--bind", "/", "/"]),
        Base::System => {
            for (link, target) in system::links() {
                arguments.mount("--symlink", &target, &link);
            }
        }
    }
    arguments.options(&["--proc", "/proc", "--dev", "/dev"]);
    let mounts = view.mounts();
    for mount in &mounts {
        arguments.mounted(mount);
    }
    arguments.mount("--ro-bind", launcher, Path::new(LAUNCHER));
    for mount in mounts.iter().filter(|mount| is_hidden_folder(mount)) {
        arguments.path("--remount-ro", &mount.path);
    }
    if view.base() == Base::System {
        arguments.options(&["--remount-ro", "/"]);
    }
    arguments.path("--chdir", directory);
    arguments.options(&["--", LAUNCHER]);
    arguments.0
}

fn is_hidden_folder(mount: &Mount) -> bool {
    mount.access == PathAccess::Hidden && mount.path.is_dir()
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn options(&mut self, options: &[&str]) {
        self.0.extend(options.iter().map(OsString::from));
    }

    fn path(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into()]);
    }

    fn mount(&mut self, option: &str, source: &Path, target: &Path) {
        self.0.extend([option.into(), source.into(), target.into()]);
    }

    fn mounted(&mut self, Mount { path, access }: &Mount) {
        match access {
            // A link of the system is there already.
            PathAccess::ReadOnly if path.is_symlink() => {}
            PathAccess::ReadOnly => self.mount("--ro-bind", path, path),
            PathAccess::ReadWrite => self.mount("--bind", path, path),
            PathAccess::Private => {
                self.options(&["--perms", "1777", "--size", PRIVATE_SIZE]);
                self.path("--tmpfs", path);
            }
            PathAccess::Hidden if path.is_dir() => {
                // An open folder may lie inside, so it can be passed through.
                self.options(&["--perms", "0111", "--size", "65536"]);
                self.path("--tmpfs", path);
            }
            PathAccess::Hidden => self.mount("--ro-bind", Path::new("/dev/null"), path),
        }
    }
}
