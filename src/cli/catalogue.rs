//! `claviger catalogue`.

use clap::Args;

use super::output::{Format, print};
use super::{Failure, Status};
use crate::policy::Catalogue;

#[derive(Args)]
pub struct Show {
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Show {
    pub fn run(self) -> Result<Status, Failure> {
        print(&match self.format {
            Format::Json => format!("{}\n", Catalogue::document().map_err(Failure::usage)?),
            Format::Text => page(Catalogue::embedded().map_err(Failure::usage)?),
        })?;
        Ok(Status::Good)
    }
}

fn page(catalogue: &Catalogue) -> String {
    let mut lines = vec![format!("catalogue of {}", catalogue.version)];
    for class in &catalogue.classes {
        lines.push(format!("\n{}: {}", class.class.text(), class.summary));
        for row in &class.controls {
            lines.push(format!("  {:<16} {} ({})", row.dimension.text(), row.control, row.enforced_by));
            lines.extend(row.risks.iter().map(|risk| format!("  {:<16} remains: {}", "", risk.text())));
        }
    }
    lines.push("\nresidual risks".to_string());
    lines.extend(catalogue.risks.iter().map(|risk| format!("  {:<28} {}", risk.id.text(), risk.text)));
    lines.push("\nsupport list: combinations of whole GPUs that vendors state as supported".to_string());
    for row in &catalogue.support {
        let cpus: Vec<&str> = row.lines.iter().map(|line| line.text()).collect();
        lines.push(format!(
            "  {} with {}: driver {} from {}, VBIOS from {}",
            cpus.join(", "),
            row.architecture.chip(),
            row.driver_branch,
            row.driver_least,
            row.vbios_least
        ));
        lines.push(format!("    by {}, read on {}", row.source, row.dated));
    }
    lines.join("\n") + "\n"
}
