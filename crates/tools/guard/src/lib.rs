//! The URL guard and the path policy, checked before every network and file access of tools.
//!
//! There is one guard per kind of effect, called by all code that causes the effect. [`UrlGuard`]
//! decides which connections this program may open and returns the addresses that it checked.
//! [`PathPolicy`] decides which files a tool may access and returns a [`ResolvedPath`], which is
//! the only way to open the file, so that the checked file is the opened one.
//!
//! Neither knows HTTP, tools or configuration files, and neither confines a child process: that is
//! the task of an operating-system sandbox, for which [`PathPolicy::confinement`] states the rules.

mod address;
mod beneath;
mod check;
mod denied;
mod links;
mod path;
mod proxy;
mod resolver;
mod roots;
mod snapshot;
mod url;
mod work_folder;

pub use crate::{
    address::{canonical, is_metadata, is_public},
    beneath::{BeneathEntry, ResolvedPath},
    denied::{PathDenied, UrlDenied},
    path::{CREDENTIAL_PATHS, Confinement, PathPolicy, PathRules, RootAccess},
    proxy::proxy_hosts,
    resolver::{Resolver, SystemResolver},
    url::{CheckedUrl, MAX_REDIRECTS, UrlGuard},
};
