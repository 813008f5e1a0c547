//! The service: whether it answers, and whether it lives in the same time.

use super::{Finding, State};
use crate::agent::client::{self, Client};
use crate::agent::clock::Clock;
use crate::agent::collect::Challenge;
use crate::agent::config::Config;
use crate::agent::error::Error;
use crate::agent::run::APART_S_MAX;
use crate::wire::{UnixSeconds, limits};

/// Asks for a challenge, if that is wanted. The service keeps nothing of one that nobody answers.
pub fn findings(config: Option<&Config>, ask: bool, clock: &impl Clock) -> Vec<Finding> {
    let Some(config) = config.filter(|_| ask) else {
        let what = "not asked; --ask asks for a challenge, of which the service keeps nothing";
        return vec![Finding::note("challenge", what)];
    };
    match challenge(config) {
        Ok(challenge) => vec![
            Finding::ok("challenge", format!("{} bytes from {}", challenge.bytes.len(), config.service)),
            time(challenge.expires_at, clock.now()),
        ],
        Err(error) => vec![Finding::stopped("challenge", &error)],
    }
}

fn challenge(config: &Config) -> Result<Challenge, Error> {
    let client = Client::new(config.service.clone(), &config.anchors, config.timeout_s);
    let answer = client.post("/attest/challenge", b"{}", limits::GUEST_BODY_LEN_MAX)?;
    match answer.status {
        200 => Challenge::parse(&answer.body),
        _ => Err(client::undecided(&answer)),
    }
}

fn time(expires_at: UnixSeconds, now: UnixSeconds) -> Finding {
    match expires_at.since(now) {
        left if left > APART_S_MAX => {
            let what = format!("the challenge ends at {expires_at}, and this clock says {now}: set it");
            Finding::new("time", State::Wrong, what)
        }
        left if left > 0 => {
            Finding::ok("time", format!("the challenge lives for {left} s more by this clock"))
        }
        _ => {
            let what = format!("the challenge ended at {expires_at}, and this clock says {now}: set it");
            Finding::new("time", State::Wrong, what)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_that_ended_before_it_came_tells_of_a_wrong_clock() {
        let at = |seconds| UnixSeconds::new(seconds).unwrap();
        assert_eq!(time(at(100), at(99)).state, State::Ok);
        assert_eq!(time(at(100), at(100)).state, State::Wrong);
        // No challenge lives so long: the agent would take this clock for wrong, too.
        assert_eq!(time(at(100 + APART_S_MAX), at(100)).state, State::Ok);
        assert_eq!(time(at(101 + APART_S_MAX), at(100)).state, State::Wrong);
    }
}
