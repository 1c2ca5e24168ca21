//! The plans of programs that are hard to prove compute what the programs compute, whole or in pieces.

use super::common::{hard_programs, phzc, scratch, stem};

#[test]
fn plans_of_hard_programs_are_proven_in_pieces() {
    proven(&["--pieces"]);
}

#[test]
#[ignore = "takes five minutes"]
fn plans_of_hard_programs_compute_the_same() {
    proven(&[]);
}

fn proven(how: &[&str]) {
    let plan = scratch(&format!("hard{}", how.len())).join("plan.ir").to_string_lossy().into_owned();
    let mut wrong = Vec::new();
    for path in hard_programs() {
        let (name, model) = (stem(&path), path.to_string_lossy());
        let passes = "fuse,shard,place";
        let made = phzc(&[&model, "--cluster", "a100-8x1", "--passes", passes, "-q", "-o", &plan], b"");
        assert_eq!(made.code, 0, "{name}: {}", made.stderr);
        let found = phzc(&[&["verify", &*model, &*plan], how].concat(), b"");
        eprintln!("{name:20} {}", found.stdout.lines().last().unwrap_or_default());
        if found.code != 0 {
            wrong.push(format!("{name}: {}{}", found.stdout, found.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
