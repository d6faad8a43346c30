//! What is said in the end.

use jiff::Timestamp;

use super::seen::Want;
use crate::model::Ref;

/// What to do next.
#[derive(Clone, Debug)]
pub enum Next {
    /// Look at these, then ask again.
    Look(Vec<Want>),
    /// That is all.
    Say(Box<Verdict>),
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is stuck.
    Fine,
    /// It waits as it should, or has not waited for long.
    Waits,
    /// It is stuck.
    Stuck,
    /// It could not be told.
    Unknown,
}

impl State {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Waits => "waits",
            Self::Stuck => "stuck",
            Self::Unknown => "unknown",
        }
    }
}

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The objects say so.
    Proved,
    /// A text says so, which is quoted.
    Said,
    /// Nothing contradicts it.
    Guessed,
}

impl Certainty {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Said => "said",
            Self::Guessed => "guessed",
        }
    }
}

/// Who can do something.
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
    /// As people and JSON have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Administrator => "administrator",
            Self::Driver => "driver",
        }
    }
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub who: Who,
    pub text: String,
    pub command: Option<String>,
    /// What may be lost by it.
    pub risk: Option<String>,
}

/// A cause, with what to do.
#[derive(Clone, Debug)]
pub struct Finding {
    /// `C1`, …: a contract.
    pub id: &'static str,
    pub certainty: Certainty,
    /// What it is about.
    pub object: Ref,
    /// What is wrong, and why.
    pub text: String,
    /// Somebody else's words.
    pub quoted: Option<String>,
    pub remedies: Vec<Remedy>,
    /// It is as it should be.
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

    /// The objects say so.
    pub fn proved(id: &'static str, object: &Ref, text: impl Into<String>) -> Self {
        Self::new(id, Certainty::Proved, object, text.into())
    }

    /// Somebody's words say so.
    pub fn said(id: &'static str, object: &Ref, words: &str, text: impl Into<String>) -> Self {
        Self {
            quoted: Some(words.to_owned()),
            ..Self::new(id, Certainty::Said, object, text.into())
        }
    }

    /// Nothing contradicts it.
    pub fn guessed(id: &'static str, object: &Ref, text: impl Into<String>) -> Self {
        Self::new(id, Certainty::Guessed, object, text.into())
    }

    /// The objects say so, or, where not all could be seen, nothing contradicts it.
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

    /// With somebody else's words, if there are any.
    pub fn quoting<'a>(mut self, words: impl Into<Option<&'a str>>) -> Self {
        let words = words.into().filter(|words| !words.is_empty());
        self.quoted = words.map(str::to_owned).or(self.quoted);
        self
    }

    /// It is as it should be.
    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// What somebody can do.
    pub fn remedy(mut self, who: Who, text: String) -> Self {
        self.remedies.push(Remedy {
            who,
            text,
            command: None,
            risk: None,
        });
        self
    }

    /// What the user of the namespace can do.
    pub fn you(self, text: impl Into<String>) -> Self {
        self.remedy(Who::You, text.into())
    }

    /// What the administrator can do.
    pub fn admin(self, text: impl Into<String>) -> Self {
        self.remedy(Who::Administrator, text.into())
    }

    /// What whoever runs the driver can do.
    pub fn driver(self, text: impl Into<String>) -> Self {
        self.remedy(Who::Driver, text.into())
    }

    /// The command of the last remedy. A guess has none that changes something, so it has none.
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

    /// What may be lost by the last remedy.
    pub fn risk(mut self, risk: impl Into<String>) -> Self {
        if let Some(last) = self.remedies.last_mut() {
            last.risk = Some(risk.into());
        }
        self
    }
}

/// Whether a shell takes a command for what it looks like, whatever is in the names that it has: outside of what is quoted there are plain
/// characters alone. A quote in a name would leave a part of what is quoted outside.
///
/// No name may begin with a dash, either: `--all` as the name of a volume is an option.
fn is_plain(command: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./:=_-".contains(c);
    let known = |word: &str| !word.starts_with('-') || OPTIONS.contains(&word);
    let mut outside = command.split('\'').step_by(2);
    outside.all(|part| part.chars().all(plain) && part.split(' ').all(known))
}

/// What commands have of options.
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

/// A station of the way.
#[derive(Clone, Debug)]
pub struct Station {
    /// How far it is indented.
    pub depth: usize,
    pub object: Ref,
    pub says: String,
    /// The cause that was found here.
    pub cause: Option<&'static str>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub subject: Ref,
    pub state: State,
    /// Since when it has waited.
    pub since: Option<Timestamp>,
    pub causes: Vec<Finding>,
    pub path: Vec<Station>,
    /// Where no cause was found: the newest words of somebody about it.
    pub last_words: Option<String>,
    /// What could not be looked at, and why.
    pub unseen: Vec<(String, String)>,
    /// The subject is not there.
    pub absent: bool,
    /// What "now" was.
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
