//! `claviger catalogue`.

use clap::Args;

use super::output::Format;
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
        let wrong = |error: crate::policy::Error| Failure::Usage(error.to_string());
        match self.format {
            Format::Json => println!("{}", Catalogue::document().map_err(wrong)?),
            Format::Text => {
                let catalogue = Catalogue::embedded().map_err(wrong)?;
                println!("catalogue of {}", catalogue.version);
                for class in &catalogue.classes {
                    println!("\n{}: {}", class.class.text(), class.summary);
                    for row in &class.controls {
                        println!("  {:<16} {} ({})", row.dimension.text(), row.control, row.enforced_by);
                        for risk in &row.risks {
                            println!("  {:<16} remains: {}", "", risk.text());
                        }
                    }
                }
                println!("\nresidual risks");
                for risk in &catalogue.risks {
                    println!("  {:<28} {}", risk.id.text(), risk.text);
                }
            }
        }
        Ok(Status::Good)
    }
}
