//! Migrates older keys to current ones in memory; the file changes only when it is saved.

use std::path::Path;

use crate::ConfigFinding;
use crate::document::Node;
use crate::fold::in_file;
use crate::upstream::{OUTDATED, RENAMED};

/// Moves every older key of the document to its successor and adds a finding.
///
/// If the successor is set, it takes precedence and the older key is removed. If the parent of the
/// successor is not an object, the older key stays where it is; that is reported elsewhere.
pub(crate) fn migrate(root: &mut Node, file: &Path, findings: &mut Vec<ConfigFinding>) {
    for renamed in RENAMED {
        let (from, to) = (parts(renamed.from), parts(renamed.to));
        let Some(member) = root.take(&from) else {
            continue;
        };
        if member.value.is_blank() {
            continue;
        }
        let origin = in_file(file, member.place);
        if root.at(&to).is_some_and(|node| !node.is_blank()) {
            findings.push(ConfigFinding::Superseded {
                key: renamed.from.to_owned(),
                by: renamed.to.to_owned(),
                origin,
                successor_set: true,
            });
        } else if root.put(&to, member.place, member.value.clone()) {
            findings.push(ConfigFinding::Migrated {
                from: renamed.from.to_owned(),
                to: renamed.to.to_owned(),
                origin,
            });
        } else {
            root.put(&from, member.place, member.value);
        }
    }
    let Some(member) = root.member_at(&parts(OUTDATED.from)) else {
        return;
    };
    let (key, by, origin) = (
        OUTDATED.from.to_owned(),
        OUTDATED.to.to_owned(),
        in_file(file, member.place),
    );
    let is_blank = member.value.is_blank();
    let successor_set = root
        .at(&parts(OUTDATED.to))
        .is_some_and(|node| !node.is_blank());
    if is_blank || successor_set {
        root.take(&parts(OUTDATED.from));
    }
    match (is_blank, successor_set) {
        (true, _) => {}
        (false, true) => findings.push(ConfigFinding::Superseded {
            key,
            by,
            origin,
            successor_set,
        }),
        (false, false) => findings.push(ConfigFinding::Outdated { key, by, origin }),
    }
}

fn parts(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}
