//! Parses the tasks in `HEARTBEAT.md` without a model.
//!
//! Decision: only lines that clearly ask for nothing are ignored: headings, comments, rules, empty
//! list items, ticked boxes, and everything under a heading for finished tasks. If a heading for
//! active tasks exists, text outside of its section is for people.

/// Words in headings of active tasks, in lower case; part of the heading is enough.
const ACTIVE: [&str; 6] = ["active", "to do", "todo", "进行", "待办", "任务"];
/// Words in headings of finished tasks.
const DONE: [&str; 6] = ["completed", "done", "archive", "已完成", "完成", "归档"];

/// The section that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskSection {
    Active,
    Done,
    Other,
}

/// Returns the active tasks of the file, with the headings that divide them; `None` if there are
/// none.
#[must_use]
pub fn active_tasks(text: &str) -> Option<String> {
    let text = without_comments(text);
    let lines = parts(&text);
    let is_divided = lines.iter().any(|(part, _)| *part == TaskSection::Active);
    let is_wanted = |part: TaskSection| {
        if is_divided {
            part == TaskSection::Active
        } else {
            part != TaskSection::Done
        }
    };
    let remaining: Vec<&str> = lines
        .iter()
        .filter(|(part, line)| is_wanted(*part) && !is_no_task(line))
        .map(|(_, line)| line.trim_end())
        .collect();
    remaining
        .iter()
        .any(|line| heading(line).is_none())
        .then(|| remaining.join("\n"))
}

/// Returns each line with its section. A heading that names no section belongs to the one above it.
fn parts(text: &str) -> Vec<(TaskSection, &str)> {
    let mut above: Vec<(usize, TaskSection)> = Vec::new();
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        let heading = heading(line).filter(|_| !in_fence);
        if let Some((level, title)) = heading {
            above.retain(|(other, _)| *other < level);
            if let Some(named) = section_of(title) {
                above.push((level, named));
                // The heading's own words ask for nothing.
                continue;
            }
        }
        lines.push((
            above.last().map_or(TaskSection::Other, |(_, part)| *part),
            line,
        ));
    }
    lines
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let is_heading =
        (1..=6).contains(&level) && (title.is_empty() || title.starts_with([' ', '\t']));
    is_heading.then(|| (level, title.trim()))
}

fn section_of(title: &str) -> Option<TaskSection> {
    let title = title.to_lowercase();
    let contains_any = |names: &[&str]| names.iter().any(|name| title.contains(name));
    if contains_any(&DONE) {
        Some(TaskSection::Done)
    } else if contains_any(&ACTIVE) {
        Some(TaskSection::Active)
    } else {
        None
    }
}

/// Returns `true` if a line asks for nothing: a blank line, a rule, an empty item, or a ticked box.
fn is_no_task(line: &str) -> bool {
    let line = line.trim();
    let is_rule = line
        .chars()
        .all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '));
    let item = line
        .strip_prefix(['-', '*', '+'])
        .unwrap_or(line)
        .trim_start();
    let is_ticked = item.starts_with("[x]") || item.starts_with("[X]");
    let words = item.strip_prefix("[ ]").unwrap_or(item);
    is_rule || is_ticked || words.trim().is_empty()
}

/// Removes HTML comments. An unterminated one extends to the end.
fn without_comments(text: &str) -> String {
    let mut remaining = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        remaining.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    remaining + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_open_items_has_no_tasks() {
        let table = [
            "",
            " \n\t\n",
            "# Heartbeat\n\n<!-- Add tasks\nbelow. -->\n\n## Active Tasks\n\n## Completed\n\n- [x] once\n- was done\n",
            "# Heartbeat\n\nThis file is read every half hour.\n\n## Active Tasks\n\n- [ ]\n-\n* \n---\n",
            "## Active Tasks\n- [x] all done\n",
            "## 进行中的任务\n\n## 已完成\n- 买牛奶\n",
            "<!-- - water the plants",
            "# Only\n## headings\n### here\n",
        ];
        for text in table {
            assert_eq!(active_tasks(text), None, "{text}");
        }
    }

    #[test]
    fn extracts_open_tasks() {
        let table = [
            ("- water the plants", "- water the plants"),
            ("Look at the mail.\n## Done\n- bread", "Look at the mail."),
            (
                "Words.\n## Active Tasks\n- [ ] mail <!-- hourly -->\n- [x] bread\n## Notes\nmore",
                "- [ ] mail",
            ),
            (
                "## Active Tasks\n### Daily\n- news\n#### Completed\n- x\n### Weekly\n- bins",
                "### Daily\n- news\n### Weekly\n- bins",
            ),
            (
                "## TODO\n```\n# not a heading\n```",
                "```\n# not a heading\n```",
            ),
            ("## 待办\n- 查看邮件", "- 查看邮件"),
            ("#hashtag", "#hashtag"),
        ];
        for (text, tasks) in table {
            assert_eq!(active_tasks(text).as_deref(), Some(tasks), "{text}");
        }
    }
}
