//! What the program gives up: the network, other files, other programs.
//!
//! Decision: this is a second barrier in front of the computer, for input that is parsed here and
//! comes from strangers. Landlock is used as far as the kernel has it; without a filter of system
//! calls the program does not start.

use std::{io, path::Path};

/// Makes new files private, and the memory of this process unreadable for others.
pub(crate) fn protect_secrets() -> io::Result<()> {
    #[cfg(unix)]
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

/// Confines this thread, and those that it starts, to the files of `folder`. It cannot be undone.
/// On systems other than Linux this does nothing.
#[cfg(target_os = "linux")]
pub(crate) fn enter(folder: &Path) -> Result<(), String> {
    linux::allow_files(folder).map_err(|error| error.to_string())?;
    linux::deny_calls().map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn enter(_folder: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{collections::BTreeMap, env::consts::ARCH, path::Path};

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

    /// The newest version of Landlock that is asked for.
    const VERSION: ABI = ABI::V6;

    /// Calls that fail with `EPERM`: they reach the network, start or inspect processes, or are
    /// ways around this filter.
    const DENIED: &[libc::c_long] = &[
        libc::SYS_accept4,
        libc::SYS_bind,
        libc::SYS_connect,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
        libc::SYS_listen,
        libc::SYS_mount,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_setns,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_unshare,
    ];

    /// Bit of the calls of the x32 ABI, which share the architecture of `x86_64`.
    const X32: i64 = 0x4000_0000;

    pub(super) fn allow_files(folder: &Path) -> Result<(), RulesetError> {
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
        let files = AccessFs::from_all(VERSION) & !(devices | AccessFs::Execute);
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(VERSION))?
            .handle_access(AccessNet::from_all(VERSION))?
            .scope(Scope::from_all(VERSION))?
            .create()?
            .add_rules(path_beneath_rules([folder], files))?
            .add_rules(path_beneath_rules(["/dev/urandom"], AccessFs::ReadFile))?
            .restrict_self()?;
        Ok(())
    }

    pub(super) fn deny_calls() -> Result<(), seccompiler::Error> {
        let mut rules: BTreeMap<i64, _> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
        if ARCH == "x86_64" {
            rules.extend(DENIED.iter().map(|call| (call | X32, Vec::new())));
        }
        let architecture: TargetArch = ARCH.try_into()?;
        let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture)?;
        let program: BpfProgram = filter.try_into()?;
        apply_filter(&program)
    }
}
