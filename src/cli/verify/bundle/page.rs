//! The page of a recorded request: a table of checks per part, then what to conclude.

use serde_json::Value;

use super::super::super::output::{check_lines, claim_rows, line, noted, reason_lines, word};
use super::{Ruling, Told, named};
use crate::policy::appraise::Status as AppraisalStatus;
use crate::verify::Subject;
use crate::verify::verdict::Verdict;

/// Writes the page.
pub fn page(told: &Told) -> String {
    let mut page = noted(&told.notes);
    for (subject, checks) in &told.parts {
        line(&mut page, format_args!("{}: {}", titled(*subject), word(&Verdict::of(checks))));
        line(&mut page, format_args!("    {:<14} {:<8} code", "check", "outcome"));
        for check in checks.list() {
            check_lines(&mut page, check);
        }
        page.push('\n');
    }
    for (title, claims) in claimed(&told.claims) {
        line(&mut page, format_args!("claims of {title}, as it states them:"));
        claim_rows(&mut page, claims);
        page.push('\n');
    }
    verdict(&mut page, told);
    ruling(&mut page, told);
    match told.issued {
        Some(issued) => {
            line(
                &mut page,
                format_args!("judged at {}; the challenge says it was made at {issued}", told.now),
            );
        }
        None => line(&mut page, format_args!("judged at {}", told.now)),
    }
    line(
        &mut page,
        format_args!(
            "freshness: recorded. Nobody but the service that made the challenge can tell that it was alive; \
             leases, quotas and keys were not asked for."
        ),
    );
    line(&mut page, format_args!("{}", conclusion(told)));
    page
}

fn titled(subject: Subject) -> String {
    match subject {
        Subject::Request => "request (proof, report data, facts)".to_string(),
        Subject::Cpu => "CPU".to_string(),
        Subject::Gpu(at) => format!("GPU {at}"),
    }
}

/// Lists the claims of each part that has some.
fn claimed(claims: &Value) -> Vec<(String, &Value)> {
    let mut list =
        vec![("the request".to_string(), &claims["request"]), ("the CPU".to_string(), &claims["cpu"])];
    let gpus = claims["gpus"].as_array().into_iter().flatten().enumerate();
    list.extend(gpus.map(|(at, gpu)| (format!("GPU {at}"), gpu)));
    list.retain(|(_, claims)| claims.is_object());
    list
}

fn verdict(page: &mut String, told: &Told) {
    let code = match told.verdict() {
        Verdict::Verified => None,
        Verdict::Refused | Verdict::Undecided => told.code(),
    };
    let code = code.map_or(String::new(), |code| format!(" ({code})"));
    line(page, format_args!("verdict:   {}{code}", word(&told.verdict())));
    line(page, format_args!("appraisal: {}", word(&told.appraisal.0)));
    reason_lines(page, &told.appraisal.1, part);
}

fn ruling(page: &mut String, told: &Told) {
    match &told.ruling {
        Ruling::NotAsked => line(
            page,
            format_args!("decision:  none; without --policy nobody says what may run and who gets which key"),
        ),
        Ruling::NoRequest => line(
            page,
            format_args!(
                "decision:  none; a policy speaks of requests of claviger's, and none stands in this bundle"
            ),
        ),
        Ruling::Granted { policy, grade, support, risks } => {
            line(page, format_args!("decision:  would be granted under {policy}, were it fresh"));
            line(page, format_args!("    binding grade: {grade}"));
            line(page, format_args!("    support: {}", support["support"].as_str().unwrap_or("none")));
            line(page, format_args!("    residual risks: {}", risks.join(", ")));
        }
        Ruling::Denied { policy, reasons: all } => {
            line(page, format_args!("decision:  denied under {policy}"));
            reason_lines(page, all, part);
        }
        Ruling::Undecided { policy, missing } => {
            line(page, format_args!("decision:  undecided under {policy}: something is missing"));
            reason_lines(page, missing, part);
        }
    }
    if let Some(code) = told.stopped {
        line(
            page,
            format_args!("    the service would stop before it reads a policy: no genuine guest ({code})"),
        );
    }
}

/// Names the part that a reason speaks of.
fn part(subject: Subject) -> String {
    format!("{}: ", named(subject))
}

/// Says in one line what the reader should conclude.
fn conclusion(told: &Told) -> String {
    let replaced = match told.notes.iter().any(|note| note.contains("was replaced")) {
        true => " under the roots given with --root, which says nothing about real hardware",
        false => "",
    };
    let code = told.code().map_or("no check was made", |code| code.text());
    let sentence = match (told.verdict(), &told.ruling, told.appraisal.0) {
        (_, Ruling::Granted { .. }, _) => {
            format!(
                "genuine{replaced}, and what the policy names. A fresh request like it would get its keys."
            )
        }
        (Verdict::Refused, _, _) => format!("not shown to be genuine ({code}). Rely on none of its claims."),
        (Verdict::Undecided, _, AppraisalStatus::Contraindicated) => {
            format!("undecided, and not acceptable even if genuine{replaced}. Do not rely on it.")
        }
        (Verdict::Undecided, _, _) => {
            format!("undecided ({code}). Give what is missing and judge again.")
        }
        (Verdict::Verified, Ruling::Denied { .. }, _)
        | (Verdict::Verified, _, AppraisalStatus::Contraindicated) => {
            format!("genuine{replaced}, and not acceptable ({code}). Give it no key.")
        }
        (Verdict::Verified, Ruling::Undecided { .. }, _) => {
            format!("genuine{replaced}; what the policy needs beside is missing. Give it and judge again.")
        }
        (Verdict::Verified, Ruling::NoRequest | Ruling::NotAsked, AppraisalStatus::None) => {
            format!("genuine{replaced}. Whether it is acceptable was not judged.")
        }
        (
            Verdict::Verified,
            Ruling::NoRequest | Ruling::NotAsked,
            AppraisalStatus::Affirming | AppraisalStatus::Warning,
        ) => {
            format!(
                "genuine{replaced}, and acceptable under the strict defaults. What runs in it was not judged."
            )
        }
    };
    format!("conclusion: {sentence}")
}
