//! Rules for single programs: which of their arguments they write, remove or run.

use super::{
    Argument, GuardRefusal, Inspection, PipelineContext,
    wrapper::{SHELLS, any_downloads, reads_script_from_input},
};

const INTERPRETERS: [&str; 7] = ["python", "python3", "perl", "ruby", "node", "php", "lua"];

/// Git settings that run a command.
const GIT_COMMANDS: [&str; 12] = [
    "alias.",
    "core.pager",
    "core.fsmonitor",
    "core.sshcommand",
    "core.editor",
    "core.hookspath",
    "core.askpass",
    "pager.",
    "diff.external",
    "filter.",
    "credential.helper",
    "protocol.ext",
];

impl Inspection<'_> {
    /// Applies the rules of the program `name`.
    pub(super) fn program(
        &mut self,
        name: &str,
        arguments: &[Argument],
        surroundings: PipelineContext<'_>,
    ) -> Result<(), GuardRefusal> {
        match name {
            "rm" | "rmdir" | "unlink" | "shred" => self.removal(arguments),
            "find" => self.find(arguments),
            "xargs" => removes_unknown(arguments),
            "mv" => self.transfer(arguments, true),
            "ln" => {
                // Writing to a hard link writes the original file.
                if !arguments
                    .iter()
                    .any(|a| is_flag(&a.text, 's', "--symbolic"))
                {
                    self.all_written(&operands(arguments))?;
                }
                self.transfer(arguments, false)
            }
            "cp" | "install" | "rsync" | "scp" => self.transfer(arguments, false),
            "tee" | "truncate" | "touch" | "mkdir" | "chmod" | "chown" | "chgrp" | "chattr"
            | "setfacl" => self.all_written(&operands(arguments)),
            "sed" | "perl" => self.edited_in_place(arguments),
            "dd" => self.dd(arguments),
            "kill" => refuse_if(
                arguments
                    .iter()
                    .any(|argument| argument.text == std::process::id().to_string()),
                "ending the assistant",
            ),
            "curl" | "wget" | "sort" => self.output_option(arguments),
            "git" => git(arguments),
            "cd" | "pushd" | "chdir" => self.change_directory(arguments),
            "eval" | "source" | "." => runs_download(surroundings),
            shell if SHELLS.contains(&shell) => {
                runs_download(surroundings)?;
                let unread = surroundings.piped && reads_script_from_input(arguments);
                refuse_if(unread, "a shell that runs whatever a pipe delivers")
            }
            interpreter if INTERPRETERS.contains(&interpreter) => {
                runs_download(surroundings)?;
                let unread = surroundings.downloaded && arguments.iter().all(|a| a.text == "-");
                refuse_if(unread, "running what was just downloaded")
            }
            _ => Ok(()),
        }
    }

    fn removal(&self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let recursive = is_recursive(arguments);
        for operand in operands(arguments) {
            if recursive {
                self.may_remove_tree(operand)?;
            } else if operand.is_literal() {
                self.may_remove(operand)?;
            }
        }
        Ok(())
    }

    /// Checks `-delete`, and removals by `-exec`, on the folders that the search starts from.
    fn find(&self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let removes = arguments
            .iter()
            .any(|argument| argument.text == "-delete" || argument.program() == "rm");
        let starts = arguments
            .iter()
            .take_while(|argument| !argument.text.starts_with(['-', '(', '!']));
        for start in starts.filter(|_| removes) {
            self.may_change_below(start)?;
        }
        Ok(())
    }

    /// Checks copies and moves; the target is the last operand, or the value of `-t`.
    fn transfer(&self, arguments: &[Argument], removes_source: bool) -> Result<(), GuardRefusal> {
        let mut sources = operands(arguments);
        let target = match target_option(arguments) {
            Some(target) => {
                sources.retain(|source| source.text != target.text);
                Some(target)
            }
            None => sources.pop().cloned(),
        };
        let Some(target) = target else { return Ok(()) };
        self.may_write(&target)?;
        let is_folder = target
            .certain_path()
            .is_some_and(|place| self.absolute(place).is_dir());
        for source in sources {
            if removes_source && source.is_literal() {
                self.may_remove(source)?;
            }
            if is_folder {
                let name = source.text.rsplit('/').next().unwrap_or_default();
                self.may_write(&Argument::literal(format!("{}/{name}", target.text)))?;
            }
        }
        Ok(())
    }

    fn all_written(&self, targets: &[&Argument]) -> Result<(), GuardRefusal> {
        targets.iter().try_for_each(|target| self.may_write(target))
    }

    /// Checks the files that `sed -i` and `perl -i` write; the first operand may be the script.
    fn edited_in_place(&self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let in_place = arguments
            .iter()
            .any(|a| is_flag(&a.text, 'i', "--in-place") || a.text.starts_with("--in-place="));
        if !in_place {
            return Ok(());
        }
        let names_program = arguments.iter().any(|a| {
            a.text.starts_with("-e") || a.text.starts_with("--expression") || a.text == "-f"
        });
        let files = operands(arguments);
        self.all_written(files.get(usize::from(!names_program)..).unwrap_or_default())
    }

    fn dd(&self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let target = arguments
            .iter()
            .find(|argument| argument.text.starts_with("of="));
        target.map_or(Ok(()), |target| self.may_write(&target.from("of=".len())))
    }

    /// Checks the targets of `-o file`, `-O file`, `--output=file` and similar options.
    fn output_option(&self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        for (index, argument) in arguments.iter().enumerate() {
            let text = argument.text.as_str();
            if matches!(text, "-o" | "-O" | "--output" | "--output-document") {
                if let Some(target) = arguments.get(index + 1) {
                    self.may_write(target)?;
                }
            } else if let Some(at) = text.strip_prefix("--output").and_then(|_| text.find('=')) {
                self.may_write(&argument.from(at + 1))?;
            }
        }
        Ok(())
    }

    fn change_directory(&mut self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let home = self
            .guard
            .policy
            .home()
            .map(|home| home.to_string_lossy().into_owned());
        let target = match operands(arguments).first() {
            Some(target) => (*target).clone(),
            None => Argument::literal(home.unwrap_or_default()),
        };
        self.may_read(&target)?;
        if target.is_literal() && !target.text.is_empty() {
            self.directory = self.absolute(&target.text);
        }
        Ok(())
    }
}

fn refuse_if(refused: bool, what: &str) -> Result<(), GuardRefusal> {
    if refused {
        Err(GuardRefusal::Dangerous(what.to_owned()))
    } else {
        Ok(())
    }
}

/// Refuses to run a script that comes out of a download.
fn runs_download(surroundings: PipelineContext<'_>) -> Result<(), GuardRefusal> {
    refuse_if(
        any_downloads(surroundings.nested),
        "running what was just downloaded",
    )
}

/// Refuses `xargs rm -r`, because the paths it removes are unknown.
fn removes_unknown(arguments: &[Argument]) -> Result<(), GuardRefusal> {
    let at = arguments
        .iter()
        .position(|argument| argument.program() == "rm");
    let recursive = at
        .and_then(|at| arguments.get(at..))
        .is_some_and(is_recursive);
    refuse_if(recursive, "recursive deletion of names from a pipe")
}

fn git(arguments: &[Argument]) -> Result<(), GuardRefusal> {
    let settings = arguments.windows(2).filter_map(|pair| match pair {
        [option, setting] if option.text == "-c" => Some(setting.text.to_lowercase()),
        _ => None,
    });
    let runs = |setting: String| {
        GIT_COMMANDS
            .iter()
            .any(|prefix| setting.starts_with(prefix))
    };
    refuse_if(
        settings.into_iter().any(runs),
        "a git setting that runs a command",
    )
}

fn is_recursive(arguments: &[Argument]) -> bool {
    arguments.iter().any(|a| {
        ['r', 'R']
            .iter()
            .any(|short| is_flag(&a.text, *short, "--recursive"))
    })
}

/// `true` if `text` is the option `long`, possibly abbreviated, or contains `short` among its short
/// options.
fn is_flag(text: &str, short: char, long: &str) -> bool {
    let shorts = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    shorts.is_some_and(|rest| rest.contains(short)) || (text.len() > 2 && long.starts_with(text))
}

/// Returns the arguments that are not options.
fn operands(arguments: &[Argument]) -> Vec<&Argument> {
    let mut options = true;
    arguments
        .iter()
        .filter(|argument| {
            let is_option = options && argument.text.starts_with('-') && argument.text.len() > 1;
            options &= argument.text != "--";
            !is_option
        })
        .collect()
}

/// Returns the value of `-t` or `--target-directory`.
fn target_option(arguments: &[Argument]) -> Option<Argument> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.text.as_str();
        if text == "-t" || text == "--target-directory" {
            return rest.next().cloned();
        }
        if text.starts_with("--target-directory=") {
            return Some(argument.from("--target-directory=".len()));
        }
        if text.starts_with("-t") && text.len() > 2 {
            return Some(argument.from(2));
        }
    }
    None
}
