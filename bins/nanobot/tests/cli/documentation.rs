//! Compares `docs/commands.md` with the commands of the program.

use crate::support::Home;

/// Returns the commands that a help text lists.
fn commands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[tokio::test]
async fn every_command_is_documented() {
    let page = include_str!("../../../../docs/commands.md");
    let home = Home::new();
    let help = home.run(&["--help"]).await;
    let names = commands(&help.stdout);
    assert!(names.len() >= 10, "{names:?}");
    let mut missing = Vec::new();
    for name in names {
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with(&format!("| `nanobot {name}")))
            .collect();
        if rows.is_empty() {
            missing.push(name.to_owned());
        }
        let help = home.run(&[name, "--help"]).await;
        for part in commands(&help.stdout) {
            let quoted = [format!("`{part}`"), format!("`{part} ")];
            if !rows
                .iter()
                .any(|row| quoted.iter().any(|quoted| row.contains(quoted)))
            {
                missing.push(format!("{name} {part}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
