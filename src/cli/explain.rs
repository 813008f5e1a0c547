//! `claviger explain CODE`.

use clap::Args;

use super::print::print;
use super::{Failure, Status, documents};
use crate::wire::Code;
use crate::wire::code::Family;
use crate::wire::text::foreign;

#[derive(Args)]
pub struct Explain {
    /// The code, as results, answers and the log write it; without one, every code is listed.
    code: Option<String>,
}

impl Explain {
    pub fn run(self) -> Result<Status, Failure> {
        let Some(text) = self.code else {
            let width = Code::TABLE.iter().map(|row| row.text.len()).max().unwrap_or(0);
            let rows = Code::TABLE.iter().map(|row| format!("{:<width$}  {}\n", row.text, row.meaning));
            print(&rows.collect::<String>())?;
            return Ok(Status::Good);
        };
        let typed = text.to_lowercase();
        let Some(code) = Code::from_text(&typed) else {
            // A code that begins with what was typed is nearer than one that is spelled alike.
            let distance =
                |known: &str| (!known.starts_with(&typed), strsim::damerau_levenshtein(known, &typed));
            let nearest = Code::TABLE
                .iter()
                .map(|row| (distance(row.text), row.text))
                .min()
                .map_or(String::new(), |(_, nearest)| format!("; the nearest is `{nearest}`"));
            return Err(Failure::Usage(format!(
                "{} is not a code{nearest}; `claviger explain` lists all",
                foreign(&text)
            )));
        };
        let (meaning, kind) = (sentence(code.meaning()), kind(code));
        print(&format!("{code}\n\n{meaning}.\n\nKind: {kind}.\nWhat to do: {}.\n", code.hint()))?;
        Ok(Status::Good)
    }
}

fn kind(code: Code) -> &'static str {
    if documents::is_of_document(code) {
        return "a document given beside the evidence is out of date, damaged or about another device; \
                picked by hand it refuses, in the service it counts as not given";
    }
    match code.family() {
        Family::Authenticity => "the evidence is not genuine, or not about this device",
        Family::Floor => "refused, and no policy can allow it",
        Family::Policy => "not allowed by the policy, or by the strict defaults without one",
        Family::Request => "the request itself cannot be served",
        Family::Shape => "bytes do not have the form that their format demands",
        Family::Unavailable => "undecided: something needed is missing; try again",
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
