//! The answer.

use jiff::Timestamp;

use super::answers::Answered;
use super::seen::Want;
use crate::model::Ref;

/// The next step of a decision.
#[derive(Clone, Debug)]
pub enum Next {
    /// Read these objects, then decide again.
    Look(Vec<Want>),
    /// The answer is complete.
    Say(Box<Verdict>),
}

/// The state of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is stuck.
    Fine,
    /// It waits as it should, or has not waited for long.
    Waits,
    /// It is stuck.
    Stuck,
    /// It could not be determined.
    Unknown,
}

impl State {
    /// Its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Waits => "waits",
            Self::Stuck => "stuck",
            Self::Unknown => "unknown",
        }
    }
}

/// The certainty of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The objects prove it.
    Proved,
    /// A quoted text reports it.
    Said,
    /// Nothing contradicts it.
    Guessed,
}

impl Certainty {
    /// Its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Said => "said",
            Self::Guessed => "guessed",
        }
    }
}

/// Who can apply a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The user of the namespace.
    You,
    /// The administrator of the cluster.
    Administrator,
    /// Whoever runs the driver and its storage.
    Driver,
}

impl Who {
    /// Its name in the output and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Administrator => "administrator",
            Self::Driver => "driver",
        }
    }
}

/// A remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub who: Who,
    pub text: String,
    pub command: Option<String>,
    /// The possible loss.
    pub risk: Option<String>,
}

/// A cause, with its remedies.
#[derive(Clone, Debug)]
pub struct Finding {
    /// `C1`, …: users rely on these numbers.
    pub id: &'static str,
    pub certainty: Certainty,
    /// The object at fault.
    pub object: Ref,
    /// The fault and its reason.
    pub text: String,
    /// A text of another program.
    pub quoted: Option<String>,
    pub remedies: Vec<Remedy>,
    /// It only waits, as it should.
    pub waits: bool,
}

impl Finding {
    fn new(id: &'static str, certainty: Certainty, object: &Ref, text: String) -> Self {
        Self {
            id,
            certainty,
            object: object.clone(),
            text,
            quoted: None,
            remedies: Vec::new(),
            waits: false,
        }
    }

    /// A cause that the objects prove.
    pub fn proved(id: &'static str, object: &Ref, text: impl Into<String>) -> Self {
        Self::new(id, Certainty::Proved, object, text.into())
    }

    /// A cause that a text of another program reports.
    pub fn said(id: &'static str, object: &Ref, words: &str, text: impl Into<String>) -> Self {
        Self {
            quoted: Some(words.to_owned()),
            ..Self::new(id, Certainty::Said, object, text.into())
        }
    }

    /// A cause that nothing contradicts.
    pub fn guessed(id: &'static str, object: &Ref, text: impl Into<String>) -> Self {
        Self::new(id, Certainty::Guessed, object, text.into())
    }

    /// A cause that the objects prove if `proved`; otherwise nothing contradicts it.
    pub fn proved_if(
        proved: bool,
        id: &'static str,
        object: &Ref,
        text: impl Into<String>,
    ) -> Self {
        let certainty = if proved {
            Certainty::Proved
        } else {
            Certainty::Guessed
        };
        Self::new(id, certainty, object, text.into())
    }

    /// Quotes a text of another program, unless it is empty.
    pub fn quoting<'a>(mut self, words: impl Into<Option<&'a str>>) -> Self {
        let words = words.into().filter(|words| !words.is_empty());
        self.quoted = words.map(str::to_owned).or(self.quoted);
        self
    }

    /// Marks that it only waits, as it should.
    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Adds a remedy.
    pub fn remedy(mut self, who: Who, text: String) -> Self {
        self.remedies.push(Remedy {
            who,
            text,
            command: None,
            risk: None,
        });
        self
    }

    /// Adds a remedy for the user of the namespace.
    pub fn you(self, text: impl Into<String>) -> Self {
        self.remedy(Who::You, text.into())
    }

    /// Adds a remedy for the administrator.
    pub fn admin(self, text: impl Into<String>) -> Self {
        self.remedy(Who::Administrator, text.into())
    }

    /// Adds a remedy for whoever runs the driver.
    pub fn driver(self, text: impl Into<String>) -> Self {
        self.remedy(Who::Driver, text.into())
    }

    /// Adds a command to the last remedy. A guess gets no command, since it might change something.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        let command = command.into();
        if self.certainty != Certainty::Guessed
            && is_plain(&command)
            && let Some(last) = self.remedies.last_mut()
        {
            last.command = Some(command);
        }
        self
    }

    /// Adds the possible loss to the last remedy.
    pub fn risk(mut self, risk: impl Into<String>) -> Self {
        if let Some(last) = self.remedies.last_mut() {
            last.risk = Some(risk.into());
        }
        self
    }
}

/// Whether a shell takes a command literally, whatever names it contains: outside quotes it has plain characters only.
/// A quote in a name would end the quoting early.
///
/// Nor may a word begin with a dash, except for the known options: `--all` as the name of a volume would be an option.
fn is_plain(command: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./:=_-".contains(c);
    let known = |word: &str| !word.starts_with('-') || OPTIONS.contains(&word);
    let mut outside = command.split('\'').step_by(2);
    outside.all(|part| part.chars().all(plain) && part.split(' ').all(known))
}

/// The options that commands may have.
const OPTIONS: &[&str] = &[
    "-n",
    "-c",
    "-p",
    "--type=json",
    "--type=merge",
    "--replicas=1",
    "--previous",
    "--ignore-daemonsets",
];

/// A step of the path from the subject to the cause.
#[derive(Clone, Debug)]
pub struct PathStep {
    /// Depth of the indentation.
    pub depth: usize,
    pub object: Ref,
    pub says: String,
    /// The cause that was found at this step.
    pub cause: Option<&'static str>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub subject: Ref,
    pub state: State,
    /// Time since which it has waited.
    pub since: Option<Timestamp>,
    pub causes: Vec<Finding>,
    pub path: Vec<PathStep>,
    /// Without a cause: the newest text of another program about it.
    pub last_words: Option<String>,
    /// The requests that failed, and why.
    pub unseen: Vec<(String, String)>,
    /// What controllers say about objects on the way.
    pub controllers: Vec<Answered>,
    /// The subject does not exist.
    pub absent: bool,
    /// The time at which the answer was computed.
    pub now: Timestamp,
}

impl Verdict {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match (self.state, self.causes.is_empty()) {
            _ if self.absent => 1,
            (State::Fine, _) => 0,
            (State::Waits, _) => 5,
            (State::Stuck, false) => 3,
            (State::Stuck, true) => 4,
            (State::Unknown, _) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;

    #[test]
    fn w_39_a_name_cannot_put_a_second_command_into_one() {
        for (command, plain) in [
            ("kubectl -n shop delete pod web-0", true),
            (
                "kubectl patch pv a --type=json -p '[{\"op\":\"remove\"}]'",
                true,
            ),
            ("kubectl delete pod x;reboot", false),
            ("kubectl delete pod --all", false),
            ("kubectl -n -A delete pod a", false),
            ("kubectl annotate lease a b-", true),
            ("kubectl delete pod $(reboot)", false),
            ("kubectl patch pv a'b --type=json -p '[{}]'", false),
            ("kubectl delete pod a\nreboot", false),
        ] {
            assert_eq!(is_plain(command), plain, "{command}");
        }
    }

    #[test]
    fn w_42_a_guess_has_no_command() {
        let at = Ref::new(Kind::Pod, "a", "b");
        let guess = Finding::guessed("C1", &at, "")
            .you("")
            .command("kubectl get pods");
        assert_eq!(guess.remedies[0].command, None);
    }
}
