//! `nanobot skills`: lists, shows, checks, installs and removes skills.
//!
//! Decision: the contents of an installation are shown before anything is written, and the user has
//! to agree. If no user can be asked, `--yes` agrees; without it nothing happens.

use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use nanobot_runtime::{
    Consent, ConsentPlan, InstallEffect, Package, Runtime, RuntimeBuilder, SkillEntry, SkillOrigin,
    SkillStatus, Skills, SkillsError, skills as skills_of,
};

use super::{block_on, prepare_write};
use crate::failure::{CommandFailure, FAILED, chain};
use crate::output;

/// Subcommands of `nanobot skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List all skills and their problems
    List,
    /// Print a skill
    Show {
        /// Skill, as listed by `skills list`
        name: String,
    },
    /// Report problems of a skill, or of all but the built-in ones; exit code 1 if there are any
    Check {
        /// Skill, as listed by `skills list`
        name: Option<String>,
    },
    /// Install a skill into the workspace, after showing its content
    Install {
        /// Folder with a SKILL.md, or a .skill file; a folder of the workspace itself is approved
        /// in place
        path: PathBuf,
        /// Approve without asking
        #[arg(long)]
        yes: bool,
    },
    /// Allow skills of the workspace to be in every prompt, after showing their content
    Agree {
        /// Skills, as listed by `skills list` [default: all that request it and are not approved]
        names: Vec<String>,
        /// Approve without asking
        #[arg(long)]
        yes: bool,
    },
    /// Remove a skill from the workspace
    Remove {
        /// Skill, as listed by `skills list`
        name: String,
        /// Approve without asking
        #[arg(long)]
        yes: bool,
    },
}

/// Length of a description in the list, in characters.
const DESCRIPTION_LENGTH: usize = 100;
/// Length of a skill that is shown when the user is asked about it, in characters.
const PREVIEW_LENGTH: usize = 2000;

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if there is no such skill, it cannot be used, or the user did not agree.
pub(crate) fn skills(
    program: &RuntimeBuilder,
    command: &SkillsCommand,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let skills = skills_of(&runtime)?;
    match command {
        SkillsCommand::List => list(&skills)?,
        SkillsCommand::Show { name } => show(&skills, name)?,
        SkillsCommand::Check { name } => return check(&skills, name.as_deref()),
        SkillsCommand::Install { path, yes } => install(&runtime, &skills, path, *yes)?,
        SkillsCommand::Agree { names, yes } => agree_to(&runtime, &skills, names, *yes)?,
        SkillsCommand::Remove { name, yes } => remove(&runtime, &skills, name, *yes)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(skills: &Skills) -> Result<(), CommandFailure> {
    let survey = skills.scan();
    let width = survey
        .iter()
        .map(|found| found.name.chars().count())
        .max()
        .unwrap_or_default();
    for found in &survey {
        let name = output::sanitize(&found.name);
        let description = output::sanitize(&describe_use(found));
        output::line(&format!(
            "{name:width$}  {:9}  {description}",
            found.origin.to_string()
        ))?;
        for note in notes(skills, found) {
            output::line(&format!(
                "{:width$}             ! {}",
                "",
                output::sanitize(&note)
            ))?;
        }
    }
    Ok(())
}

/// Describes how a skill is used.
fn describe_use(found: &SkillEntry) -> String {
    match &found.status {
        SkillStatus::InUse(skill) if !skill.is_available() => {
            format!("not available: {}", one_line(&skill.requires()))
        }
        SkillStatus::InUse(skill) if skill.always => {
            format!("in every prompt: {}", one_line(&skill.description))
        }
        SkillStatus::InUse(skill) => one_line(&skill.description),
        SkillStatus::Hidden { by } => format!("hidden by the {by} skill of the same name"),
        SkillStatus::Disabled => "switched off".to_owned(),
        SkillStatus::Refused(why) => format!("refused: {}", one_line(why)),
    }
}

/// Returns the remarks about a skill, including that it changed.
fn notes(skills: &Skills, found: &SkillEntry) -> Vec<String> {
    let changed = skills
        .has_changed(found)
        .then(|| "changed since it was installed".to_owned());
    found.remarks().into_iter().chain(changed).collect()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DESCRIPTION_LENGTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}

fn show(skills: &Skills, name: &str) -> Result<(), CommandFailure> {
    let survey = skills.scan();
    let candidates: Vec<&SkillEntry> = survey.iter().filter(|found| found.name == name).collect();
    // Prefer the skill that is in use over others of the same name.
    let in_use = candidates
        .iter()
        .find(|found| matches!(found.status, SkillStatus::InUse(_)));
    let Some(found) = in_use.or(candidates.first()) else {
        return Err(failed(&SkillsError::Unknown {
            name: name.to_owned(),
        }));
    };
    let mut text = format!(
        "{} ({})\n{}\n",
        found.name,
        found.origin,
        found.location.display()
    );
    text += &match &found.status {
        SkillStatus::InUse(skill) => {
            let state = match (skill.is_available(), skill.always) {
                (false, _) => format!("not available: {}", skill.requires()),
                (true, true) => "available, in every prompt".to_owned(),
                (true, false) => format!("available; ${} in a message loads it", skill.name),
            };
            format!("{state}\n\n{}\n\n{}\n", skill.description, skill.body)
        }
        _ => format!("{}\n", describe_use(found)),
    };
    for note in &found.remarks() {
        text += &format!("! {note}\n");
    }
    output::write(&output::sanitize(&text))?;
    Ok(())
}

fn check(skills: &Skills, name: Option<&str>) -> Result<ExitCode, CommandFailure> {
    let survey = skills.scan();
    let wanted: Vec<&SkillEntry> = match name {
        Some(name) => survey.iter().filter(|found| found.name == name).collect(),
        None => survey
            .iter()
            .filter(|found| found.origin != SkillOrigin::BuiltIn)
            .collect(),
    };
    if let (Some(name), true) = (name, wanted.is_empty()) {
        return Err(failed(&SkillsError::Unknown {
            name: name.to_owned(),
        }));
    }
    if wanted.is_empty() {
        output::line("There is nothing to check: no skills but the built-in ones.")?;
    }
    let mut is_fine = true;
    for found in wanted {
        let mut findings = skills.check_found(found).map_err(|error| failed(&error))?;
        findings.sort_by_key(|finding| !finding.is_error);
        let name = output::sanitize(&found.name);
        if findings.is_empty() {
            output::line(&format!("{name}: fine{}", in_prompts(found)))?;
        }
        for finding in findings {
            is_fine = false;
            let weight = if finding.is_error { "error" } else { "remark" };
            output::line(&format!(
                "{name}: {weight}: {}",
                output::sanitize(&finding.what)
            ))?;
        }
    }
    Ok(if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// Describes whether a valid skill is in every prompt, and by which consent.
fn in_prompts(found: &SkillEntry) -> &'static str {
    match (&found.status, found.consent) {
        (SkillStatus::InUse(skill), Some(_)) if skill.always && !skill.is_available() => {
            "; it may be in every prompt, but is not while it is unavailable"
        }
        (SkillStatus::InUse(skill), Some(Consent::Listed)) if skill.always => {
            "; it is in every prompt, whatever its files say, because `skills.always` lists it"
        }
        (SkillStatus::InUse(skill), _) if skill.always => "; it is in every prompt",
        _ => "",
    }
}

/// Shows the skills that ask to be in every prompt, and records the user's consent to each.
fn agree_to(
    runtime: &Runtime,
    skills: &Skills,
    names: &[String],
    yes: bool,
) -> Result<(), CommandFailure> {
    let needing_consent: Vec<String> = match names {
        [] => needing_consent(skills),
        names => names.to_vec(),
    };
    if needing_consent.is_empty() {
        output::line("There is nothing to approve: all skills in every prompt are approved.")?;
    }
    for name in needing_consent {
        let plan = skills.plan_consent(&name).map_err(|error| failed(&error))?;
        show_plan(&plan)?;
        agree(
            yes,
            &format!("Let {name} be in every prompt with these files?"),
        )?;
        block_on(prepare_write(runtime))?;
        record(skills, &plan)?;
    }
    Ok(())
}

/// Returns the names of skills that ask to be in every prompt and may not.
fn needing_consent(skills: &Skills) -> Vec<String> {
    skills
        .scan()
        .into_iter()
        .filter(|found| found.missing_consent_remark().is_some())
        .map(|found| found.name)
        .collect()
}

fn show_plan(plan: &ConsentPlan) -> Result<(), CommandFailure> {
    let ConsentPlan {
        name,
        folder,
        digest,
        capabilities,
        body,
    } = plan;
    let body = body.trim();
    let shown: String = body.chars().take(PREVIEW_LENGTH).collect();
    let more = body.chars().count().saturating_sub(PREVIEW_LENGTH);
    let more = if more > 0 {
        format!("\n… {more} more characters: nanobot skills show \"{name}\"")
    } else {
        String::new()
    };
    let text = format!(
        "Skill {name} asks to be in every prompt\n  {}\n  {digest}\n{capabilities}\n\n{shown}{more}\n\n",
        folder.display()
    );
    output::write(&output::sanitize(&text))?;
    Ok(())
}

fn record(skills: &Skills, plan: &ConsentPlan) -> Result<(), CommandFailure> {
    let now = chrono::Local::now().fixed_offset();
    skills
        .record_consent(plan, now)
        .map_err(|error| failed(&error))?;
    output::line(&output::sanitize(&format!(
        "{} is in every prompt, until its files change.",
        plan.name
    )))?;
    Ok(())
}

/// Asks the user at a terminal once about the skills in the home of another program. Those without
/// consent stay as they are.
///
/// # Errors
/// Returns an error if the terminal cannot be written to, or consent cannot be recorded.
pub(crate) fn ask_at_first_run(runtime: &Runtime) -> Result<(), CommandFailure> {
    let skills = skills_of(runtime)?;
    for name in needing_consent(&skills) {
        let plan = match skills.plan_consent(&name) {
            Ok(plan) => plan,
            Err(error) => {
                output::note(&output::sanitize(&format!(
                    "Warning: skill {name}: {}",
                    chain(&error)
                )));
                continue;
            }
        };
        show_plan(&plan)?;
        if confirm(&format!("Let {name} be in every prompt with these files?"))? {
            record(&skills, &plan)?;
        }
    }
    Ok(())
}

fn install(
    runtime: &Runtime,
    skills: &Skills,
    path: &Path,
    yes: bool,
) -> Result<(), CommandFailure> {
    let package = Package::open(path).map_err(|error| failed(&error))?;
    let plan = skills.plan(package).map_err(|error| failed(&error))?;
    let what = match plan.change {
        InstallEffect::New => "new",
        InstallEffect::Same => "installed already, these same files",
        InstallEffect::Replaces => "takes the place of the installed version",
        InstallEffect::PinsInPlace => "in its place already; what it is now will be agreed to",
    };
    let mut text = format!(
        "Skill {}: {what}\n  {}\n{}\n",
        plan.name, plan.digest, plan.capabilities
    );
    if let Some(origin) = plan.hides {
        text += &format!("  hides the {origin} skill of the same name\n");
    }
    for remark in &plan.remarks {
        text += &format!("  remark: {remark}\n");
    }
    output::write(&output::sanitize(&text))?;
    agree(yes, &format!("Install {} with all of this?", plan.name))?;
    block_on(prepare_write(runtime))?;
    let now = chrono::Local::now().fixed_offset();
    let folder = skills.install(&plan, now).map_err(|error| failed(&error))?;
    output::line(&format!("Installed: {}", folder.display()))?;
    Ok(())
}

fn remove(runtime: &Runtime, skills: &Skills, name: &str, yes: bool) -> Result<(), CommandFailure> {
    let folder = skills.removable(name).map_err(|error| failed(&error))?;
    agree(
        yes,
        &format!("Remove {} with all its files?", folder.display()),
    )?;
    block_on(prepare_write(runtime))?;
    let folder = skills.remove(name).map_err(|error| failed(&error))?;
    output::line(&format!("Removed: {}", folder.display()))?;
    Ok(())
}

/// Asks the user, unless the command line agreed.
fn agree(yes: bool, question: &str) -> Result<(), CommandFailure> {
    if yes {
        return Ok(());
    }
    if !output::is_interactive() {
        return Err(CommandFailure::new(
            "no one can be asked here, so nothing was changed",
            "Say --yes when you agree to what is listed above.",
        ));
    }
    if confirm(question)? {
        return Ok(());
    }
    Err(CommandFailure::new(
        "not agreed, so nothing was changed",
        "Say y, or --yes.",
    ))
}

fn confirm(question: &str) -> Result<bool, CommandFailure> {
    output::write(&output::sanitize(&format!("{question} [y/N] ")))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn failed(error: &SkillsError) -> CommandFailure {
    let remedy = match error {
        SkillsError::Io { .. } => {
            "Check that it is there, and that you may read it and write to the workspace."
        }
        SkillsError::NotASkill { .. } => {
            "Name the folder that holds the SKILL.md, or a .skill file made of it."
        }
        SkillsError::Archive { .. } => {
            "A .skill file is a zip archive of the skill's folder; make it anew."
        }
        SkillsError::Unsafe { .. } => "Leave it out, or do not install this skill.",
        SkillsError::TooLarge(_) => "Leave out what the skill does not need.",
        SkillsError::Invalid { .. } => {
            "Mend its SKILL.md; `nanobot skills show skill-creator` says how one looks."
        }
        SkillsError::Taken { .. } => {
            "Keep yours, or take it away by `nanobot skills remove NAME` first."
        }
        SkillsError::Unknown { .. } => "`nanobot skills list` shows their names.",
        SkillsError::NotOfWorkspace { .. } => {
            "Switch it off instead: add its name to skills.disabled."
        }
        SkillsError::AsksForNothing { .. } => "`nanobot skills list` says what becomes of it.",
        SkillsError::Lock { .. } => {
            "Mend that file, or delete it and install what it listed again."
        }
    };
    CommandFailure::of(error, remedy)
}
