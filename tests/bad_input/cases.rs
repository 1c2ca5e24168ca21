//! The cases: one line each where one line will do.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// How many levels deep the deep ones are.
const DEEP: usize = 1_000_000;

/// What the file `input` is.
pub enum Input {
    /// It is missing.
    None,
    /// A file with this content.
    Bytes(Vec<u8>),
    /// A directory.
    Directory,
    /// A file of that many zeros, mostly holes.
    Zeros(u64),
}

/// One run.
pub struct Case {
    pub name: &'static str,
    pub input: Input,
    pub args: Vec<&'static str>,
    /// The exit code it must have.
    pub code: i32,
    /// A part of the message.
    pub says: &'static str,
}

const GOOD: &str = "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }";

/// A run of some passes.
pub fn case(name: &'static str, says: &'static str, input: Input) -> Case {
    Case { name, input, args: vec!["input", "--passes", "dce", "--dump-dir", "dumps"], code: 1, says }
}

/// A program.
pub fn text(name: &'static str, says: &'static str, text: impl Into<String>) -> Case {
    case(name, says, Input::Bytes(text.into().into_bytes()))
}

/// A body of the entry computation, after two parameters.
fn body(name: &'static str, says: &'static str, lines: &str) -> Case {
    text(name, says, format!("ENTRY e {{ x = f32[2,3] parameter(0) y = f32[3,4] parameter(1) {lines} }}"))
}

/// A command line on a good program.
pub fn command(name: &'static str, code: i32, says: &'static str, args: &[&'static str]) -> Case {
    Case { args: [&["input"], args].concat(), code, ..text(name, says, GOOD) }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).expect("a vector takes everything");
    out.finish().expect("a vector takes everything")
}

/// Everything that must fail.
pub fn bad() -> Vec<Case> {
    [files(), syntax(), deep(), names(), shapes(), attributes(), clusters(), commands()]
        .into_iter()
        .flatten()
        .collect()
}

fn files() -> Vec<Case> {
    let half = packed(GOOD.repeat(100).as_bytes());
    let half = half[..half.len() / 2].to_vec();
    let bomb = packed(&vec![b' '; 600 << 20]);
    vec![
        case("missing file", "no such file", Input::None),
        case("directory", "it is a directory", Input::Directory),
        case("too large", "is larger than 512 MiB", Input::Zeros(600 << 20)),
        text("empty", "is empty", ""),
        text("blanks", "found the end of the file", " \n\n\t "),
        case("not utf8", "is not UTF-8 text: byte 10 is 0xff", Input::Bytes(b"ENTRY e { \xff }".to_vec())),
        case("zeros", "found `\\0`", Input::Zeros(4096)),
        case("gzip cut off", "is a damaged gzip file", Input::Bytes(half)),
        case(
            "gzip of noise",
            "is a damaged gzip file",
            Input::Bytes(b"\x1f\x8b\x08\0noise that is no gzip".to_vec()),
        ),
        case("gzip bomb", "is larger than 512 MiB", Input::Bytes(bomb)),
        case("gzip of nothing", "is empty", Input::Bytes(packed(b""))),
        text("another language", "expected", "def f(x): return x"),
        text("prose", "expected", "Lorem ipsum dolor sit amet"),
    ]
}

fn syntax() -> Vec<Case> {
    vec![
        text("cut in a name", "found the end of the file", &GOOD[..14]),
        text("cut in a shape", "found the end of the file", &GOOD[..18]),
        text("cut after an equals sign", "found the end of the file", &GOOD[..13]),
        text("cut in a body", "found the end of the file", &GOOD[..GOOD.len() - 1]),
        text("cut in a header", "never closed", "HloModule m, entry_computation_layout={(f32[2]"),
        text("no instructions", "has no instructions", "ENTRY e { }"),
        text("nul in a name", "found `\\0`", "ENTRY e\0 { ROOT x = f32[2] parameter(0) }"),
        text("open comment", "expected", format!("{GOOD} /* never closed")),
        text("open string", "never closed", GOOD.replace("negate(x)", "negate(x), metadata={op_name=\"")),
        text("two entries", "one `ENTRY`", format!("{GOOD} {}", GOOD.replace("ENTRY e", "ENTRY f"))),
        text("escape codes", "found `\\u{1b}`", "\u{1b}[31mENTRY e { }"),
        body("unknown opcode", "did you mean `negate`", "ROOT z = f32[2,3] negat(x)"),
        body("unknown element type", "expected a shape", "ROOT z = f31[2,3] negate(x)"),
        body("negative size", "expected a dimension size", "ROOT z = f32[-2,3] negate(x)"),
        body("huge integer", "does not fit in 64 bits", "ROOT z = f32[99999999999999999999] negate(x)"),
        body("parameter number", "is no parameter number", "ROOT z = f32[2,3] parameter(4294967296)"),
        body("rank 40", "at most 32 dimensions", &format!("ROOT z = f32[{}1] negate(x)", "1,".repeat(40))),
        body("layout of another rank", "the layout names dimension 7", "ROOT z = f32[2,3]{7,0} negate(x)"),
        body("few numbers", "expected 3 elements", "ROOT z = s32[3] constant({1, 2})"),
        body("number too large", "is no `s8` literal", "ROOT z = s8[] constant(128)"),
        body("word as a number", "is no `f32` literal", "ROOT z = f32[] constant(fast)"),
        body("missing comma", "expected `,`", "ROOT z = f32[2,3] add(x y)"),
        body(
            "long line",
            "expected an opcode",
            &format!("/*{}*/ ROOT z = f32[2,3] negat3(x)", "é".repeat(4_000_000)),
        ),
        body(
            "long name",
            "is not defined before its use",
            &format!("ROOT z = f32[2,3] negate({})", "n".repeat(DEEP)),
        ),
    ]
}

fn deep() -> Vec<Case> {
    let (open, close) = ("(".repeat(DEEP), ")".repeat(DEEP));
    let inline = "z = f32[2] call(), to_apply={".repeat(DEEP);
    vec![
        body("deep tuple shape", "deep", &format!("ROOT z = {open}f32[]{close} parameter(2)")),
        body("deep buffers", "deep", &format!("ROOT z = {}f32[]{close} parameter(2)", "b(".repeat(DEEP))),
        body("deep tuple literal", "deep", &format!("ROOT z = {open}f32[]{close} constant({open}1{close})")),
        body(
            "deep braces in a literal",
            "expected",
            &format!("ROOT z = f32[2] constant({}", "{".repeat(DEEP)),
        ),
        body(
            "deep open attribute",
            "never closed",
            &format!("ROOT z = f32[2,3] negate(x), metadata={}", "{".repeat(DEEP)),
        ),
        body("deep inline computations", "deep", &inline),
        body(
            "deep sharding",
            "expected",
            &format!("ROOT z = f32[2,3] negate(x), sharding={}", "{".repeat(DEEP)),
        ),
        body(
            "deep operands",
            "operands may nest 64 deep",
            &format!("ROOT z = f32[2,3] negate({}", "negate(".repeat(DEEP)),
        ),
        text("deep calls", "more than 256 deep", calls()),
        text(
            "deep signature",
            "deep",
            format!("e (x: {open}f32[]{close}) -> f32[] {{ x = f32[] parameter(0) }}"),
        ),
    ]
}

/// Computations that call one another, each the one before it.
fn calls() -> String {
    let call =
        |k: usize| format!("c{k} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=c{} }}\n", k - 1);
    let calls: String = (1..100_000).map(call).collect();
    format!("c0 {{ ROOT x = f32[] parameter(0) }} {calls} ENTRY e {{ ROOT x = f32[] parameter(0) }}")
}

fn names() -> Vec<Case> {
    vec![
        body(
            "cycle",
            "`b` is not defined before its use",
            "a = f32[2,3] negate(b) ROOT b = f32[2,3] negate(a)",
        ),
        body("reads itself", "`z` is not defined before its use", "ROOT z = f32[2,3] negate(z)"),
        body("unknown operand", "`nobody` is not defined", "ROOT z = f32[2,3] negate(nobody)"),
        body(
            "unknown computation",
            "computation `nobody` is not defined",
            "ROOT z = f32[2,3] call(x), to_apply=nobody",
        ),
        body("calls itself", "computation `e` is not defined", "ROOT z = f32[2,3] call(x), to_apply=e"),
        body("one name twice", "`x` is defined twice", "ROOT x = f32[2,3] parameter(2)"),
        text("one computation twice", "`e` is defined twice", format!("{} {GOOD}", &GOOD[6..])),
        body("one parameter twice", "parameter", "ROOT z = f32[2,3] parameter(1)"),
        body("parameters with a gap", "parameter", "ROOT z = f32[2,3] parameter(7)"),
    ]
}

fn shapes() -> Vec<Case> {
    vec![
        body("add of two shapes", "`add` needs operands of equal sizes", "ROOT z = f32[2,3] add(x, y)"),
        body("wrong result", "", "ROOT z = f32[2,4] negate(x)"),
        body("wrong operand shape", "has another shape", "ROOT z = f32[2,3] negate(f32[9] x)"),
        body("missing operand", "`add`", "ROOT z = f32[2,3] add(x)"),
        body("too many operands", "`negate`", "ROOT z = f32[2,3] negate(x, x)"),
        body(
            "dot over unequal sizes",
            "`dot`",
            "ROOT z = f32[3,3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        ),
        body(
            "dot over no dimension",
            "names dimension 9 of a rank-2 array",
            "ROOT z = f32[2,4] dot(x, y), lhs_contracting_dims={9}, rhs_contracting_dims={0}",
        ),
        body("reshape to more elements", "`reshape`", "ROOT z = f32[7] reshape(x)"),
        body(
            "transposition of no permutation",
            "names dimension 0 twice",
            "ROOT z = f32[2,3] transpose(x), dimensions={0,0}",
        ),
        body(
            "broadcast into nowhere",
            "names dimension 5 of a rank-2 array",
            "ROOT z = f32[2,3] broadcast(x), dimensions={5,6}",
        ),
        body("slice backwards", "`slice`", "ROOT z = f32[2,3] slice(x), slice={[2:0], [0:3]}"),
        body(
            "concatenation of unequal sizes",
            "`concatenate`",
            "ROOT z = f32[5,3] concatenate(x, y), dimensions={0}",
        ),
        body(
            "part that is not there",
            "`index` must be below 1",
            "t = (f32[2,3]) tuple(x) ROOT z = f32[2,3] get-tuple-element(t), index=4",
        ),
        body("element of no tuple", "`get-tuple-element`", "ROOT z = f32[2,3] get-tuple-element(x), index=0"),
        body("more elements than 64 bits count", "", "ROOT z = f32[4294967296,4294967296] parameter(2)"),
        text("loop of another state", "must return what it takes", LOOP),
        text("reducer of three", "must take 2 scalars", REDUCER),
    ]
}

const LOOP: &str = "c { s = f32[2] parameter(0) ROOT p = pred[] constant(false) }
b { s = f32[2] parameter(0) ROOT t = f32[3] constant({1, 2, 3}) }
ENTRY e { x = f32[2] parameter(0) ROOT w = f32[2] while(x), condition=c, body=b }";

const REDUCER: &str = "r { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0) z = f32[] constant(0) ROOT w = f32[] reduce(x, z), dimensions={0}, to_apply=r }";

fn attributes() -> Vec<Case> {
    let dot = |sharding: &str| format!("ROOT z = f32[2,3] negate(x), sharding={sharding}");
    vec![
        body("attribute without a value", "expected `=`", "ROOT z = f32[2,3] negate(x), dimensions"),
        body("word as a list", "expected", "ROOT z = f32[2,3] transpose(x), dimensions=fast"),
        body(
            "window of unequal ranks",
            "one number per window dimension",
            "ROOT z = f32[2,3] negate(x), window={size=3x3 stride=1}",
        ),
        body("labels of no sense", "expected labels", "ROOT z = f32[2,3] negate(x), dim_labels=bb_00->bf"),
        body("padding of no sense", "expected padding", "ROOT z = f32[2,3] negate(x), padding=1_2_3_4"),
        body("sharding of no kind", "expected `replicated`", &dot("{everywhere}")),
        body("sharding of another rank", "sharding", &dot("{devices=[2,2,2]<=[8]}")),
        body("sharding of few devices", "sharding", &dot("{devices=[2,4]<=[4]}")),
        body("sharding of no devices", "sharding", &dot("{devices=[0,1]<=[0]}")),
        body("sharding with a device twice", "sharding", &dot("{devices=[2,1]0,0}")),
        body(
            "sharding of a million million devices",
            "sharding",
            &dot("{devices=[1000000,1000000]<=[1000000000000]}"),
        ),
        body(
            "sharding past 64 bits",
            "sharding",
            &dot("{devices=[4294967296,4294967296]<=[4294967296,4294967296]T(0,1)}"),
        ),
        body("sharding of a tuple for an array", "sharding", &dot("{{replicated},{replicated}}")),
    ]
}

fn clusters() -> Vec<Case> {
    let good = "name = \"mine\"\naccelerator = \"a100-80\"\nper_node = 8\n";
    vec![
        command("missing cluster file", 1, "no such file", &["--passes", "dce", "--cluster", "missing.toml"]),
        command("unknown cluster", 1, "unknown device `x9000`", &["--passes", "dce", "--cluster", "x9000-8"]),
        command("cluster of zero devices", 1, "a100-0", &["--passes", "dce", "--cluster", "a100-0"]),
        command(
            "cluster past 64 bits",
            1,
            "a100-8x",
            &["--passes", "dce", "--cluster", "a100-8x99999999999999999999"],
        ),
        cluster_file("file of zero devices", "expected a count from 1", good.replace("= 8", "= 0")),
        cluster_file("toml of no sense", "", "per_node = = 8".to_owned()),
        cluster_file("unknown key", "unknown field `color`", format!("{good}color = 3\n")),
        cluster_file("missing key", "missing field", "name = \"mine\"\n".to_owned()),
        cluster_file("deep toml", "", format!("a = {}", "[".repeat(DEEP / 4))),
        cluster_file(
            "another cluster's name",
            "another, built-in cluster",
            good.replace("mine", "a100-8").replace("= 8", "= 4"),
        ),
    ]
}

/// The file `input` is the cluster; the program is the example beside the sources.
fn cluster_file(name: &'static str, says: &'static str, toml: String) -> Case {
    const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mlp.ir");
    Case { args: vec![MODEL, "--passes", "dce", "--cluster", "./input"], ..text(name, says, toml) }
}

const FITS_NOWHERE: &[&str] = &["input", "--passes", "fuse,shard,place", "-o", "out"];

/// 12 TB for eight devices of 80 GB.
const HUGE: &str = "ENTRY e { x = f32[1000000,1000000] parameter(0) y = f32[1000000,1000000] parameter(1)
  ROOT z = f32[1000000,1000000] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";

/// A finished plan for a mesh of 8 devices.
const PLANNED: &str = "HloModule m, num_partitions=8, frontend_attributes={phzc.passes=\"fuse,shard,place\",phzc.cluster=\"a100-8\",phzc.mesh=\"x=8\",phzc.plan=\"{\\\"fits\\\":true,\\\"planned_secs\\\":1e-6}\"}
  ENTRY e { x = f32[8] parameter(0), sharding={devices=[8]<=[8]} ROOT y = f32[8] negate(x), sharding={devices=[8]<=[8]} }";

/// The finished plan, run again.
fn planned(name: &'static str, says: &'static str, args: &[&'static str]) -> Case {
    Case { args: [&["input", "-o", "out"], args].concat(), ..text(name, says, PLANNED) }
}

fn commands() -> Vec<Case> {
    vec![
        planned(
            "plan on another mesh",
            "the program has a plan on the mesh `x=8`, not on `2x4`",
            &["--passes", "fuse,shard{mesh=2x4},place"],
        ),
        Case {
            args: vec!["input", "--passes", "fuse,shard,place", "-o", "out"],
            ..text(
                "plan for fewer devices",
                "the program has a plan for 4 devices, but `a100-8` has 8 devices",
                PLANNED.replace("=8", "=4").replace("[8]", "[4]"),
            )
        },
        planned(
            "plan for more devices",
            "the program was planned for `a100-8`, and is now for `a100-1`",
            &["--passes", "shard", "--cluster", "a100-1"],
        ),
        planned(
            "plan for other devices",
            "`--passes estimate` tells what this plan takes there",
            &["--passes", "place", "--cluster", "h100-8"],
        ),
        Case { args: vec![], ..command("no arguments", 2, "required arguments", &[]) },
        command("unknown flag", 2, "unexpected argument", &["--frobnicate"]),
        command("two programs", 2, "unexpected argument", &["input"]),
        command("unknown pass", 2, "did you mean `dce`", &["--passes", "dcee"]),
        command("unknown option", 2, "unknown option `speed` of `dce`", &["--passes", "dce{speed=9}"]),
        command("open brace", 2, "expected", &["--passes", "dce{"]),
        command("two commas", 2, "expected the name of a pass", &["--passes", "dce,,dce"]),
        Case {
            args: FITS_NOWHERE.to_vec(),
            ..text("model that fits nowhere", "no plan fits: inputs need", HUGE)
        },
        command("help about no pass", 2, "cannot be used with", &["--help-passes", "frobnicate"]),
    ]
}

/// What is odd but legal, and must pass quickly.
pub fn extreme() -> Vec<Case> {
    let ok = |name, lines: String| Case {
        code: 0,
        args: vec!["input", "--passes", "dce", "-o", "out"],
        ..text(name, "", lines)
    };
    let chain: String = (1..200_000).map(|k| format!("x{k} = f32[2] negate(x{})\n", k - 1)).collect();
    let operands = vec!["x"; 300_000].join(", ");
    let parts = vec!["f32[2]"; 300_000].join(", ");
    let inline = "y{k} = f32[2] call(x), to_apply={ p = f32[2] parameter(0) ROOT q = f32[2] negate(p) }\n";
    let inlines: String = (0..20_000).map(|k| inline.replace("{k}", &k.to_string())).collect();
    let nested = format!("{}{}", "{".repeat(DEEP), "}".repeat(DEEP));
    vec![
        ok("chain of instructions", format!("ENTRY e {{ x0 = f32[2] parameter(0)\n{chain} }}")),
        ok("wide tuple", format!("ENTRY e {{ x = f32[2] parameter(0) ROOT t = ({parts}) tuple({operands}) }}")),
        ok("many inline computations", format!("ENTRY e {{ x = f32[2] parameter(0) {inlines} }}")),
        ok("deep attribute", format!("ENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] negate(x), metadata={nested} }}")),
        ok("large sizes", "ENTRY e { x = f32[2000000000,1000000000] parameter(0) ROOT y = f32[2000000000,1000000000] negate(x) }".to_owned()),
        ok("no elements", "ENTRY e { x = f32[0,5] parameter(0) ROOT y = f32[0,5] negate(x) }".to_owned()),
    ]
}
