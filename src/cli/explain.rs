//! `claviger explain CODE`.

use clap::Args;

use super::{Failure, Status};
use crate::wire::Code;
use crate::wire::text::foreign;

#[derive(Args)]
pub struct Explain {
    /// The code, as results, answers and the log write it; without one, every code is listed.
    code: Option<String>,
}

impl Explain {
    pub fn run(self) -> Result<Status, Failure> {
        let Some(text) = self.code else {
            for row in Code::TABLE {
                println!("{:<34} {}", row.text, row.meaning);
            }
            return Ok(Status::Good);
        };
        let Some(code) = Code::from_text(&text) else {
            let nearest = Code::TABLE
                .iter()
                .map(|row| (strsim::damerau_levenshtein(row.text, &text), row.text))
                .min()
                .map_or(String::new(), |(_, nearest)| format!("; the nearest is `{nearest}`"));
            return Err(Failure::Usage(format!("{} is not a code{nearest}", foreign(&text))));
        };
        println!("{}\n\n{}.\n\nWhat to do: {}.", code.text(), sentence(code.meaning()), code.hint());
        Ok(Status::Good)
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
