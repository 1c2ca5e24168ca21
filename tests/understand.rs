//! What helps to understand a plan: `diff`, `what-if`, the page of `--emit report` and its pictures.

use crate::common::{files, phzc, root, scratch};
use std::fs;
use std::path::Path;

/// A page may be so large.
const MAX_PAGE_BYTES: usize = 3 << 20;

/// Plans the README's example into a file of a directory; what it says.
fn plan(dir: &Path, name: &str, passes: &str) -> String {
    let (path, json) = (dir.join(name), dir.join(format!("{name}.json")));
    let arguments = ["examples/gpt2_small.ir", "--passes", passes, "-o", text(&path), "--plan", text(&json)];
    done(&arguments)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

/// Runs a command that ends well; what it prints, to both streams.
fn done(arguments: &[&str]) -> String {
    let outcome = phzc(arguments, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout + &outcome.stderr
}

/// Compares with the snapshot of that name in `tests/understand`.
fn compare(name: &str, printed: &str, dir: &Path) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("understand");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, printed.replace(&format!("{}/", text(dir)), "")));
}

#[test]
fn two_plans_of_the_readme_s_example_are_compared_and_asked_about() {
    let dir = scratch("understand");
    plan(&dir, "free.ir", "fuse,shard,place");
    plan(&dir, "one_stage.ir", "fuse,shard,place{stages=1}");
    let [free, one] = ["free.ir", "one_stage.ir"].map(|name| dir.join(name));
    let (free, one) = (text(&free), text(&one));
    let of_programs = done(&["diff", free, one]);
    compare("diff", &of_programs, &dir);
    // Figures alone say the same of the whole, and nothing of instructions.
    let of_figures = done(&["diff", &format!("{free}.json"), &format!("{one}.json")]);
    assert_eq!(of_figures.lines().nth(2), of_programs.lines().nth(2));
    assert!(!of_figures.contains("instruction "), "{of_figures}");
    assert!(done(&["diff", free, free]).ends_with("per step\n"));
    compare("what_if", &done(&["what-if", one, "--bandwidth", "NVLink=0.1x", "--hbm", "3GB"]), &dir);
    let small = done(&["what-if", one, "--hbm", "200MB"]);
    assert!(
        small.contains("no plan fits: weights and optimizer states need 2.0 GB, 244.6 MB on each"),
        "{small}"
    );
    let twice = phzc(&["what-if", one, "--bandwidth", "nv=2x", "--bandwidth", "NVLink=3x", "--same"], b"");
    assert!(twice.stderr.contains("`--bandwidth` of `NVLink` is given twice"), "{}", twice.stderr);
    let unknown = phzc(&["what-if", one, "--bandwidth", "carrier pigeon=2x"], b"");
    assert!(unknown.stderr.contains("its links are `NVLink3`"), "{}", unknown.stderr);
}

#[test]
fn a_plan_is_not_compared_with_that_of_another_program() {
    let dir = scratch("understand_kin");
    let [model, own, figures] = ["opt.ir", "opt.plan.ir", "opt.json"].map(|name| dir.join(name));
    plan(&dir, "gpt.ir", "fuse,shard,place{stages=1}");
    done(&["gen", "opt", "--size", "tiny", "-o", text(&model)]);
    done(&[text(&model), "-q", "-o", text(&own), "--plan", text(&figures)]);
    let of_figures = done(&["diff", text(&figures), text(&dir.join("gpt.ir.json"))]);
    assert!(of_figures.contains("A and B are not plans of one program"), "{of_figures}");
    let other = phzc(&["what-if", text(&own), "--hbm", "2x", "--program", "examples/mlp.ir"], b"");
    assert_eq!(other.code, 1);
    assert!(other.stderr.contains("`examples/mlp.ir` is not the program of this plan"), "{}", other.stderr);
    done(&["what-if", text(&own), "--hbm", "2x", "--program", text(&model)]);
}

#[test]
fn what_is_planned_anew_expects_the_stragglers_that_the_plan_does() {
    let plan = scratch("understand_stragglers").join("plan.ir");
    let printed =
        done(&["examples/mlp.ir", "--straggler", "2x@10%", "--cluster", "a100-8", "-o", text(&plan)]);
    assert!(printed.contains("expected with stragglers 2x@10%: any is slow in "), "{printed}");
    let anew = done(&["what-if", text(&plan), "--hbm", "1x"]);
    assert!(anew.contains("planning anew: takes as long"), "{anew}");
    let wrong = phzc(&["examples/mlp.ir", "--straggler", "0.5x@10%"], b"");
    assert!(wrong.code == 2 && wrong.stderr.contains("a slowdown is at least 1"), "{}", wrong.stderr);
}

#[test]
fn the_number_of_stages_and_a_collective_are_explained() {
    let dir = scratch("explained");
    let path = dir.join("plan.ir");
    let common = ["examples/gpt2_small.ir", "--passes", "fuse,shard,place", "-q", "-o", text(&path)];
    let said = done(
        &[
            &common[..],
            &["--explain", "stages", "--explain", "mesh", "--explain", "convert_element_type.104.ag"],
        ]
        .concat(),
    );
    let (own, strategies) =
        said.split_once("why `convert_element_type.104` lies").expect("the value's strategies come last");
    assert!(strategies.contains("chosen"), "{strategies}");
    compare("explain", own, &dir);
    let explained = fs::read(&path).expect("a plan");
    done(&common);
    assert_eq!(fs::read(&path).expect("a plan"), explained, "the explanation changes the plan");
}

#[test]
fn what_restricts_the_number_of_stages_is_said() {
    let path = scratch("restricted").join("plan.ir");
    let explained = |model: &str, passes: &str| {
        done(&[model, "--passes", passes, "-q", "-o", text(&path), "--explain", "stages"])
    };
    let reason = |said: String| said.lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        reason(explained("examples/mlp.ir", "fuse,shard,place{stages=2}")),
        "why 2 stages: the option `stages=2` allows plans on 2 device groups alone; leave it out to compare others"
    );
    assert_eq!(
        reason(explained(text(&path), "place")),
        "why 2 stages: the program was placed before, so no other number has been searched"
    );
    let open = explained("examples/mlp.ir", "fuse,shard,place");
    assert!(open.contains("8 device groups: no plan, no cut"), "{open}");
}

#[test]
fn a_large_plan_fits_on_a_small_page_with_pictures_that_are_xml() {
    let dir = scratch("page");
    let model = dir.join("gpt.ir");
    done(&["gen", "gpt", "--size", "6.7b", "-o", text(&model)]);
    let plan = dir.join("plan.ir");
    let common = ["--cluster", "h100-8x4", "-q"];
    done(&[&[text(&model), "-o", text(&plan)], &common[..]].concat());
    let page = |name: &str, emit: &str| {
        let path = dir.join(name);
        done(
            &[&[text(&plan), "--passes", "estimate", "--emit", emit, "-o", text(&path)], &common[..]]
                .concat(),
        );
        path
    };
    let html = fs::read_to_string(page("plan.html", "report")).expect("the page is text");
    assert!(html.len() < MAX_PAGE_BYTES, "{} bytes", html.len());
    for part in
        ["timeline", "memory", "layer", "ops", "time", "stages", "communication", "peak", "instructions"]
    {
        assert!(html.contains(&format!("<section id=\"{part}\">")), "no {part}");
        assert!(html.contains(&format!("<a href=\"#{part}\">")), "no link to {part}");
    }
    // Only names of XML's own: no picture, style or script is fetched.
    let fetched = ["src=", "<link", "@import", "url("];
    assert!(fetched.iter().all(|it| !html.contains(it)));
    assert_eq!(html, fs::read_to_string(page("again.html", "report")).expect("text"), "the bytes differ");
    let pictures = files(&page("pictures", "pictures"));
    assert!(pictures.len() >= 4, "{pictures:?}");
    for picture in pictures {
        let svg = fs::read_to_string(&picture).expect("a picture is text");
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        assert_eq!(document.root_element().tag_name().name(), "svg");
        let n_shapes = document.descendants().filter(|node| node.is_element()).count();
        assert!(n_shapes > 4, "{}: {n_shapes} shapes", picture.display());
    }
}

#[test]
fn what_is_named_on_a_page_is_escaped() {
    let program = "HloModule m
ENTRY e {
  x = f32[64,64] parameter(0), metadata={op_name=\"<script>\" source_file=\"a<b>.py\" source_line=3}
  ROOT y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file=\"a<b>.py\" source_line=4}
}";
    let outcome = phzc(&["-", "--emit", "report", "-q"], program.as_bytes());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("a&lt;b&gt;.py:4") && !outcome.stdout.contains("a<b>"));
    assert!(outcome.stdout.contains("<section id=\"lines\">"));
}

#[test]
fn pictures_need_a_directory() {
    let outcome = phzc(&["examples/mlp.ir", "--emit", "pictures"], b"");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("several files"), "{}", outcome.stderr);
    assert!(root().join("tests/browser/run").is_file());
}
