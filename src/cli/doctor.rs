//! `claviger doctor`: the guest looks at itself, before it asks.

use std::path::{Path, PathBuf};

use clap::Args;

use super::print::{Format, print};
use super::{Failure, Status, lockdown};
use crate::agent::devices::Inspect;
use crate::agent::doctor::{self, Diagnosis, Finding, Look, Memory, Outcome, Place, State};
use crate::agent::system::{Machine, Places, Settings};
use crate::agent::{Config, Origin, Overrides, SystemClock};

const AFTER_HELP: &str = "\
Changes nothing, and sends nothing unless --ask is given: each device is read, and asked for one report over random
data.

Exit status: 0 nothing stands against a release; 1 the service would refuse these facts; 2 the configuration or this
system is wrong; 3 something is missing or did not answer. Of several the first of 2, 1, 3.";

/// The run folder where none is configured: there is no runtime log in it.
const NOWHERE: &str = "/dev/null";

/// Looks at this guest before it asks: what is there, what is missing, and what the service would refuse.
///
/// All of it is the guest's own word; the page says what no look from inside can tell.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Doctor {
    /// The agent's configuration file, to be looked at too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The init data that this guest was launched with, in place of a configuration file.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    init_data: Option<PathBuf>,
    /// Also ask the configured service for a challenge. It keeps nothing of one that nobody answers.
    #[arg(long)]
    ask: bool,
    /// How to show what was found.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORM")]
    format: Format,
    /// Socket of `claviger simulate`: its machine answers in place of real devices.
    #[cfg(feature = "sim")]
    #[arg(long, value_name = "SOCKET")]
    simulated_machine: Option<PathBuf>,
}

impl Doctor {
    pub fn run(self) -> Result<Status, Failure> {
        let origin = match (&self.config, &self.init_data) {
            (Some(file), _) => Some(Origin::File(file)),
            (None, Some(file)) => Some(Origin::InitData(file)),
            (None, None) if self.ask => {
                return Err(Failure::usage("--ask needs --config or --init-data: they name the service"));
            }
            (None, None) => None,
        };
        // As the agent does, and before anything else.
        let memory = match lockdown::lock_down() {
            Ok(lockdown::Memory::Locked) => Memory::Locked,
            Ok(lockdown::Memory::Unlocked) => Memory::Unlocked,
            Err(failure) => Memory::Dumpable(failure.to_string()),
        };
        let config = origin.map(|origin| Config::read(origin, &Overrides::default()));
        #[cfg(feature = "sim")]
        if let Some(socket) = &self.simulated_machine {
            let look = Look { config: config.as_ref(), memory, ask: self.ask, simulated: true };
            return self.examined(&look, &mut super::simulate::Remote::connect(socket)?);
        }
        let (settings, run_dir) = match &config {
            Some(Ok(config)) => (config.devices.clone(), config.run_dir.as_path()),
            Some(Err(_)) | None => (Settings::default(), Path::new(NOWHERE)),
        };
        let mut devices = Machine::new(Places::default(), &settings, run_dir).map_err(Failure::usage)?;
        let look = Look { config: config.as_ref(), memory, ask: self.ask, simulated: false };
        self.examined(&look, &mut devices)
    }

    fn examined(&self, look: &Look<'_>, devices: &mut impl Inspect) -> Result<Status, Failure> {
        let diagnosis = doctor::examine(look, devices, &SystemClock);
        print(&match self.format {
            Format::Json => {
                let json = serde_json::to_string(&diagnosis).map_err(Failure::usage)?;
                format!("{json}\n")
            }
            Format::Text => page(&diagnosis),
        })?;
        Ok(match diagnosis.outcome {
            Outcome::Ready => Status::Good,
            Outcome::Refused => Status::Refused,
            Outcome::Misconfigured => Status::Usage,
            Outcome::Incomplete => Status::Undecided,
        })
    }
}

/// Writes the page: each place, each finding with its reasons, what cannot be told, and what to conclude.
fn page(diagnosis: &Diagnosis) -> String {
    let mut page = String::new();
    if diagnosis.simulated {
        page.push_str("SIMULATED machine: nothing here speaks of this guest's own devices.\n\n");
    }
    for section in &diagnosis.sections {
        page.push_str(&format!("{}\n", place(section.section)));
        section.findings.iter().for_each(|finding| page.push_str(&lines(finding)));
        page.push('\n');
    }
    page.push_str("what cannot be told from inside:\n");
    for sentence in diagnosis.cannot_tell {
        page.push_str(&format!("    {sentence}\n"));
    }
    page.push_str(&format!("\nconclusion: {}\n", conclusion(diagnosis)));
    page
}

fn lines(finding: &Finding) -> String {
    let name = match finding.device {
        Some(at) => format!("{} {at}", finding.name),
        None => finding.name.replace('_', " "),
    };
    let mut lines = format!("    {:<8} {name:<16}  {}\n", word(finding.state), finding.what);
    for reason in &finding.reasons {
        lines.push_str(&format!("        {}: {}\n", reason.code, reason.code.meaning()));
        for (label, text) in [("expected", &reason.expected), ("found", &reason.actual)] {
            if let Some(text) = text {
                lines.push_str(&format!("            {label}: {text}\n"));
            }
        }
        lines.push_str(&format!("            what to do: {}\n", reason.hint));
    }
    lines
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Agent => "agent",
        Place::Container => "container runtime",
        Place::Cpu => "CPU",
        Place::Gpu => "GPU",
        Place::Pci => "PCI",
        Place::Service => "service",
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Missing => "missing",
        State::Note => "note",
        State::Ok => "ok",
        State::Refused => "refused",
        State::Wrong => "wrong",
    }
}

fn conclusion(diagnosis: &Diagnosis) -> String {
    let codes: Vec<&str> = diagnosis.codes.iter().map(|code| code.text()).collect();
    let refused = match codes.is_empty() {
        true => String::new(),
        false => format!(" The service would refuse ({}).", codes.join(", ")),
    };
    match diagnosis.outcome {
        Outcome::Ready => "nothing that can be told here stands against a release.".to_string(),
        Outcome::Refused => {
            format!("the service would refuse ({}). Mend that before asking.", codes.join(", "))
        }
        Outcome::Misconfigured => {
            format!("the configuration or this system is wrong; the agent would not ask.{refused}")
        }
        Outcome::Incomplete => {
            "something is missing or did not answer; the agent would get nothing.".to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Arguments, Command};
    use crate::wire::Code;

    /// Also in the build that has the agent alone.
    #[test]
    fn the_agents_build_has_the_command() {
        let arguments = Arguments::try_parse_from(["claviger", "doctor", "--config", "agent.toml"]).unwrap();
        assert!(matches!(arguments.command, Command::Doctor(Doctor { ask: false, .. })));
        assert!(
            Arguments::try_parse_from(["claviger", "doctor", "--config", "a", "--init-data", "b"]).is_err()
        );
    }

    #[test]
    fn the_service_is_not_asked_where_nobody_says_which() {
        let Command::Doctor(doctor) =
            Arguments::try_parse_from(["claviger", "doctor", "--ask"]).unwrap().command
        else {
            panic!("another command")
        };
        assert!(matches!(doctor.run(), Err(Failure::Usage(_))));
    }

    #[test]
    fn what_is_wrong_does_not_hide_what_would_be_refused() {
        let diagnosis = Diagnosis {
            schema: doctor::SCHEMA,
            outcome: Outcome::Misconfigured,
            status: 2,
            simulated: true,
            codes: vec![Code::GpuDevtools],
            sections: Vec::new(),
            facts: None,
            cannot_tell: doctor::CANNOT_TELL,
        };
        let page = page(&diagnosis);
        assert!(page.starts_with("SIMULATED") && page.contains("would refuse (gpu_devtools)"), "{page}");
    }
}
