//! Replicas of all stages on devices of their own, each of which runs some of a step's microbatches.
//!
//! Sums over the microbatches are sums over the replicas too, before the update.
//!
//! ```text
//! phzc.replicas="13:0;3:32"    // 13 microbatches on the devices from 0, 3 on as many from 32
//! ```

use super::Facts;
use super::header::{Header, bad};
use phzc_ir::{Diagnostic, Result, counted, notes};
use std::ops::Range;

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The microbatches of a step that it runs.
    pub n_microbatches: usize,
    /// The first device of each of its device groups.
    pub firsts: Vec<usize>,
}

/// A header with the replicas that a note lists.
///
/// # Errors
/// When it cannot be read, replicas share devices, or they do not run each microbatch once.
pub(super) fn among(header: Header, text: &str) -> Result<Header> {
    let replicas: Vec<Replica> = text.split(';').map(|part| replica(part, &header)).collect::<Result<_>>()?;
    let n_run: usize = replicas.iter().map(|replica| replica.n_microbatches).sum();
    if n_run != header.n_microbatches {
        let microbatches = counted(header.n_microbatches, "microbatch");
        return Err(unlike(&format!("they run {n_run} microbatches, the step has {microbatches}")));
    }
    if replicas.len() == 1 {
        return Err(unlike("there is one alone"));
    }
    if replicas[0].firsts != header.firsts {
        return Err(unlike("the first is not on the devices of the plan's stages"));
    }
    let header = Header { replicas, ..header }.of_replica(0);
    let mut all: Vec<[usize; 2]> =
        (0..header.n_groups()).flat_map(|group| header.each_devices(group)).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0][1] >= pair[1][0]) {
        Some(pair) => Err(unlike(&format!("two of them have device {}", pair[1][0]))),
        None => Ok(header),
    }
}

/// `13:0`, `13:0,32`.
fn replica(text: &str, header: &Header) -> Result<Replica> {
    let form =
        || bad(notes::REPLICAS, "a replica is `3:32`: how many microbatches, its groups' first devices");
    let (n_microbatches, firsts) = text.split_once(':').ok_or_else(form)?;
    let number = |text: &str| text.parse::<u32>().map(|number| number as usize).map_err(|_| form());
    let firsts: Vec<usize> = firsts.split(',').map(number).collect::<Result<_>>()?;
    let n_microbatches = number(n_microbatches)?;
    match n_microbatches > 0 && firsts.len() == header.n_groups() {
        true => Ok(Replica { n_microbatches, firsts }),
        false => Err(form()),
    }
}

fn unlike(what: &str) -> Diagnostic {
    let message = format!("the header's note `{}` does not hold: {what}", notes::REPLICAS);
    Diagnostic::error(message).help("run `place` again, or correct the note")
}

/// The note of some replicas.
pub fn note_of(replicas: &[Replica]) -> String {
    let one = |replica: &Replica| {
        let firsts: Vec<String> = replica.firsts.iter().map(usize::to_string).collect();
        format!("{}:{}", replica.n_microbatches, firsts.join(","))
    };
    replicas.iter().map(one).collect::<Vec<_>>().join(";")
}

impl Header {
    /// Errors if there are several, which something cannot do.
    ///
    /// # Errors
    /// Then.
    pub fn one_replica(&self, what: &str) -> Result<()> {
        if self.replicas.is_empty() {
            return Ok(());
        }
        let message = format!("the plan has {}, {what}", counted(self.n_replicas(), "replica"));
        let help = "`--emit stages` writes their modules; `place{replicas=never}` plans without";
        Err(Diagnostic::error(message).help(help))
    }

    /// How many replicas there are.
    pub fn n_replicas(&self) -> usize {
        self.replicas.len().max(1)
    }

    /// The microbatches of each replica: the first ones are the first's.
    pub fn shares(&self) -> Vec<Range<usize>> {
        let all = self.replicas.iter().map(|it| it.n_microbatches);
        let shares = all.scan(0, |end, own| {
            *end += own;
            Some(*end - own..*end)
        });
        if self.replicas.is_empty() {
            std::iter::once(0..self.n_microbatches).collect()
        } else {
            shares.collect()
        }
    }

    /// The header as one replica has it.
    #[must_use]
    pub fn of_replica(&self, at: usize) -> Header {
        match self.replicas.get(at) {
            Some(it) => Header { firsts: it.firsts.clone(), n_own: Some(it.n_microbatches), ..self.clone() },
            None => self.clone(),
        }
    }

    /// First and last device of a device group in each replica.
    pub fn each_devices(&self, group: usize) -> Vec<[usize; 2]> {
        let [first, last] = self.devices(group);
        match self.replicas.is_empty() {
            true => vec![[first, last]],
            false => {
                self.replicas.iter().map(|it| [it.firsts[group], it.firsts[group] + last - first]).collect()
            }
        }
    }
}

impl Facts {
    /// The facts as one replica has them.
    #[must_use]
    pub fn of_replica(&self, at: usize) -> Facts {
        Facts { header: self.header.of_replica(at), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use crate::derive::header;

    /// What becomes of a note, of a step of four microbatches on two devices.
    fn check(replicas: &str, expected: &str) {
        let text = format!(
            "HloModule m, frontend_attributes={{phzc.mesh=\"x=2\",phzc.replicas=\"{replicas}\",\
             phzc.plan=\"{{\\\"n_microbatches\\\":4}}\"}}\nENTRY e {{ ROOT x = f32[8] parameter(0) }}"
        );
        let found = header(&phzc_ir::parse(&text).expect("legal"));
        let found = match &found {
            Ok(header) => {
                let devices = header.each_devices(0).into_iter();
                let last = header.of_replica(1).n_own_microbatches();
                format!("{} and {last}, {:?}", header.n_own_microbatches(), devices.collect::<Vec<_>>())
            }
            Err(error) => error.message.clone(),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn replicas_share_out_the_microbatches() {
        check("3:0;1:8", "3 and 1, [[0, 1], [8, 9]]");
        check("3:0;2:8", "they run 5 microbatches, the step has 4 microbatches");
        check("3:0;1:1", "two of them have device 1");
        check("4:0", "there is one alone");
        check("3:2;1:8", "the first is not on the devices of the plan's stages");
    }

    #[test]
    fn what_is_no_replica_is_refused() {
        for note in ["", "4", "4:", "0:0;4:2", "4:0,2", "-4:0", "4:99999999999999"] {
            check(note, "a replica is `3:32`");
        }
    }
}
