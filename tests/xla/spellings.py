#!/usr/bin/env python3
"""Odd spellings of HLO text, written by hand: XLA's parser and phzc must decide and read alike.

`tests/xla/run spellings [PHZC]` prints every case that XLA takes and phzc refuses, or the other way round, or that
both take and XLA reads differently in phzc's own print.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from itertools import product

from jaxlib import _hlo

from common import ROOT

SUM = "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
WRAPPED = "w { p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p) }\n"

# An entry's lines; `|` separates lines. Each list is a class of spellings.
INLINE = [
    "ROOT r = f32[4] convert(s8[4] parameter(0))",
    "ROOT r = f32[4] convert(s8[4]{0} parameter(0))",
    "ROOT r = f32[4] convert(s8[4]parameter(0))",
    "ROOT r = f32[4] convert(s8[4] %parameter(0))",
    "ROOT r = f32[4] convert(parameter(0))",
    "ROOT r = f32[4] convert(s8[4] q = s8[4] parameter(0))",
    "ROOT r = f32[4] add(f32[4] parameter(0), f32[4] parameter(1))",
    "ROOT r = f32[4] add(f32[4] parameter(1), f32[4] parameter(0))",
    "ROOT r = f32[4] add(f32[4] parameter(0), f32[4] parameter(0))",
    "ROOT r = f32[4] add(f32[4] parameter(0), f32[4] constant({1, 2, 3, 4}))",
    "ROOT r = f32[4] add(f32[4] constant({1, 2, 3, 4}), f32[4] parameter(0))",
    "ROOT r = f32[4] negate(f32[4] abs(f32[4] parameter(0)))",
    "ROOT r = f32[4] negate(f32[4] abs(f32[4] negate(f32[4] abs(f32[4] parameter(0)))))",
    "ROOT r = f32[4] add(f32[4] abs(f32[4] parameter(0)), f32[4] abs(f32[4] parameter(1)))",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(p, f32[4] abs(p))",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(f32[4] abs(f32[4] p), %p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(abs(p), p)",
    "ROOT r = f32[4] negate(f32[4] broadcast(f32[] constant(1)), dimensions={})",
    "ROOT r = f32[4] negate(f32[4] broadcast(f32[] constant(1), dimensions={}))",
    "ROOT r = f32[4] broadcast(f32[] constant(1)), dimensions={}",
    "ROOT r = f32[4] broadcast(f32[] parameter(0)), dimensions={}",
    "ROOT r = f32[2,2] dot(f32[2,4] parameter(0), f32[4,2] parameter(1)), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "ROOT r = f32[4,2] transpose(f32[2,4] parameter(0)), dimensions={1,0}",
    "ROOT r = f32[8] reshape(f32[2,4] parameter(0))",
    "ROOT r = f32[8] reshape(f32[2,4] reshape(f32[4,2] parameter(0)))",
    "ROOT r = f32[2] reduce(f32[2,4] parameter(0), f32[] constant(0)), dimensions={1}, to_apply=s",
    "ROOT r = f32[4] select(pred[4] parameter(0), f32[4] parameter(1), f32[4] parameter(2))",
    "ROOT r = f32[4] clamp(f32[] constant(0), f32[4] parameter(0), f32[] constant(6))",
    "ROOT r = f32[6] pad(f32[4] parameter(0), f32[] constant(0)), padding=1_1",
    "ROOT r = f32[8] concatenate(f32[4] parameter(0), f32[4] parameter(1)), dimensions={0}",
    "ROOT r = (f32[4], s32[]) tuple(f32[4] parameter(0), s32[] constant(3))",
    "ROOT r = f32[4] get-tuple-element((f32[4], s32[]) parameter(0)), index=0",
    "ROOT r = f32[4] get-tuple-element((f32[4]) tuple(f32[4] parameter(0))), index=0",
    "ROOT r = f32[4] copy(f32[4] parameter(0))",
    "ROOT r = f32[4] negate(f32[4] parameter(0)), metadata={op_name=\"x\"}",
    "parameter.anon = f32[4] parameter(0) | ROOT r = f32[4] add(parameter.anon, f32[4] parameter(1))",
    "ROOT r = f32[4] add(f32[4] parameter(0), f32[4] parameter(1)) | parameter.anon = f32[] constant(1)",
    "ROOT r = f32[4] negate(f32[4] f32[4] parameter(0))",
    "ROOT r = f32[4] negate(f32[4] parameter(0)",
    "ROOT r = f32[4] negate(f32[4] parameter())",
    "ROOT r = f32[4] negate(f32[4] parameter)",
    "ROOT r = f32[4] negate(f32[4] frobnicate(0))",
    "ROOT r = f32[4] call(f32[4] parameter(0)), to_apply=w",
    "ROOT r = f32[4] fusion(f32[4] parameter(0)), kind=kLoop, calls=w",
    "ROOT r = f32[4] custom-call(f32[4] parameter(0)), custom_call_target=\"t\"",
    "ROOT r = f32[4] add(f32[4] /*first*/ parameter(0), /*second*/ f32[4] parameter(1))",
]
LISTS = [
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(p, p,)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(p,, p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(p p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(,p, p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add( p , p )",
    "p = f32[4] parameter(0) | ROOT r = f32[4] add(%p, % p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(f32[5] p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(f32[ 4 ] p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(f32 [4] p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(f32[4] {0} p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(q)",
    "ROOT r = () tuple()",
    "ROOT r = () tuple( )",
    "ROOT r = () tuple(,)",
]
NUMBERS = [f"ROOT r = {shape} constant({literal})" for shape, literals in {
    "f32[2]": ["0", "1", "-1", "7.5", "1e3", "-inf", "nan", "{1}", "{1,2}", "{1,2,}", "{}", "{ }", "", "{{1,2}}", "true",
               "(1)", "{1 2}", "{...}"],
    "f32[2,3]": ["0", "1", "1.5", "{1,2,3,4,5,6}", "{{1,2,3},{4,5,6}}", "{ {1,2,3}, {4,5,6} }", "{1}", "{{1},{2}}",
                 "{{1,2,3},4}"],
    "f32[1]": ["1", "{1}"],
    "f32[1,1]": ["1", "{1}", "{{1}}"],
    "f32[2,1,2]": ["3", "{{{1,2}},{{3,4}}}"],
    "f32[0]": ["1", "{}", "0"],
    "f32[2,0]": ["1", "{{},{}}", "{}"],
    "f32[]": ["1", "{1}", "+1", "1.", ".5"],
    "s32[3]": ["5", "-5", "1.5", "{1,2,3}", "99999999999"],
    "s8[2]": ["127", "128", "{1,2}"],
    "u8[2]": ["255", "256", "-1"],
    "pred[2]": ["true", "false", "1", "0", "{true,false}", "{1,0}", "2"],
    "bf16[2]": ["1", "{1,2}", "1e10"],
    "c64[2]": ["(1,2)", "1", "{(1,2),(3,4)}"],
    "(f32[2],s32[2])": ["(1,2)", "({1,2},{3,4})", "(1,{3,4})", "1", "({1,2})"],
    "(f32[],f32[2])": ["(1,2)", "( 1 , {1,2} )"],
}.items() for literal in literals]
SHAPES = [f"ROOT r = {shape} parameter(0)" for shape in (
    "f32[2,3]", "f32[ 2,3]", "f32[2 ,3]", "f32[2, 3]", "f32[2,3 ]", "f32[ 2 , 3 ]", "f32 [2,3]", "f32  [ 2 ,3]", "f32[\t2,3]",
    "f32[/*a*/2,3]", "f32[2,3]{1,0}", "f32[2,3] {1,0}", "f32[2,3]{ 1,0}", "f32[2,3]{1 ,0}", "f32[2,3]{1, 0}", "f32[2,3]{1,0 }",
    "f32[2,3]  { 1 , 0 }", "f32[2,3]{}", "f32[2,3]{0}", "f32[2,3]{0,0}", "f32[2,3]{2,1}", "f32[2,3]{1,0,}", "f32[2,3]{1 0}",
    "f32[2,3]{1,0:T(8,128)}", "f32[2,3]{1,0 :T(8,128)}", "f32[2,3]{1,0: T(8,128)}", "f32[2,3]{1,0:T(8,128)S(1)}",
    "f32[2,3]{1,0:S(1)}", "f32[2,3]{1,0:E(32)}", "f32[]", "f32[ ]", "f32 []", "f32[]{}", "f32[] {}", "f32[]{:S(1)}", "f32", "[2]",
    "f32[2,]", "f32[,2]", "f32[2 3]", "f32[-2]", "f32[2.5]", "f32[<=2,3]", "f32[<= 2,3]", "f32[< =2,3]", "f32[ <=2 , 3]", "f32[?]",
    "f32[?,3]", "f32[ ? ]", "f33[2]", "F32[2]", "(f32[2], s32[])", "( f32[2] ,s32[] )", "(f32[2],(s32[],pred[]))", "( )", "()",
    "(f32[2])", "(f32[2],)", "(,f32[2])", "(f32[2] s32[])", "(f32 [2], s32 [])", "(f32[2]{0}, /*index=1*/s32[])", "token[]",
    "token []", "opaque[]", "pred[2]", "s4[2]", "u4[4]", "bf16[2]", "f8e5m2[2]", "f8e4m3fn[2]", "c128[2]", "s64[2]",
)]
SHARDINGS = [f"p = f32[8,8] parameter(0), sharding={sharding} | ROOT r = f32[8,8] negate(p)" for sharding in (
    "{replicated}", "{ replicated }", "{manual}", "{maximal device=0}", "{maximal device=7}", "{maximal device=1000}", "{unknown}",
    "{unreduced}", "{devices=[2,1]0,1}", "{devices=[2,1]1,0}", "{devices=[2,1]4,5}", "{devices=[2,1]5,2}", "{devices=[2,1]6,7}",
    "{devices=[2,2]3,1,2,0}", "{devices=[2,2]12,8,4,0}", "{devices=[2,1]100,200}", "{devices=[2,1]<=[2]}", "{devices=[2,4]<=[8]}",
    "{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[2,2]<=[2,2]T(1,0)}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", "{devices=[2,1,2]3,2,1,0 last_tile_dim_replicate}",
    "{devices=[1,1,8]<=[8] last_tile_dim_replicate}", "{devices=[2,1,4]<=[8] last_tile_dims={manual}}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}", "{devices=[2,1,4]<=[8] last_tile_dims={replicated}}",
    "{devices=[3,1]<=[3]}", "{devices=[2,1] <=[2]}", "{devices=[ 2, 1 ]<=[2]}", "{devices= [2,1]<=[2]}", "{devices=[2,1]<= [2]}",
    "{devices=[2,1]0, 1}", "{devices=[2,1]<=[2] }", "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}", "{mesh['x'=2,'y'=4], [{'x', 'y'}, {}]}",
    "{mesh['x'=2,'y'=4], [{'x'}, {?}]}", "{mesh['x'=2,'y'=4], [{}, {}], replicated={'x'}}", "{replicated", "replicated", "{}",
    "{device=[2,1]<=[2]}", "{devices=[2,1]<=[2]T(0)}", "{devices=[2,1]<=[2,1]}",
)]
ASYNC = [
    "p = f32[4] parameter(0) | a = ((f32[4]), f32[4], s32[]) async-start(p), calls=w | ROOT d = f32[4] async-done(a), calls=w",
    "p = f32[4] parameter(0) | a = ((f32[4]), f32[4], s32[]) async-start(p), calls=w | ROOT d = f32[4] async-done(a)",
    "p = f32[4] parameter(0) | a = ((f32[4]), f32[4], s32[]) async-start(f32[4] p), calls=w | u = ((f32[4]), f32[4], s32[]) async-update(a) | ROOT d = f32[4] async-done(u)",
    "a = ((), f32[4], s32[]) async-start(), calls=z | ROOT d = f32[4] async-done(a)",
    "a = ((), f32[4], s32[]) async-start( ), calls=z | ROOT d = f32[4] async-done(a), calls=z",
    "a = ((), f32[4], s32[]) async-start(), calls=z | u = ((), f32[4], s32[]) async-update(a) | ROOT d = f32[4] async-done(u)",
    "a = ((), f32[4], s32[]) call-start(), to_apply=z | ROOT d = f32[4] call-done(a)",
    "a = ((), f32[4], s32[]) custom-call-start(), custom_call_target=\"x\" | ROOT d = f32[4] custom-call-done(a)",
    "p = f32[4] parameter(0) | a = ((f32[4]), f32[4], s32[]) custom-call-start(p), custom_call_target=\"x\" | ROOT d = f32[4] custom-call-done(a)",
    "p = f32[4] parameter(0) | a = ((f32[4]), f32[4], s32[]) negate-start(p) | ROOT d = f32[4] negate-done(a)",
    "p = f32[4] parameter(0) | a = (f32[4], f32[4], u32[]) copy-start(p) | ROOT d = f32[4] copy-done(a)",
    "a = ((f32[4]), f32[4], s32[]) async-start(f32[4] parameter(0)), calls=w | ROOT d = f32[4] async-done(a)",
    "a = (f32[4], s32[]) async-start(), calls=z | ROOT d = f32[4] async-done(a)",
]
LINES = [
    "p=f32[4] parameter(0) | ROOT r=f32[4] negate(p)",
    "p = f32[4] parameter( 0 ) | ROOT r = f32[4] negate(p)",
    "p = f32[4] parameter (0) | ROOT r = f32[4] negate (p)",
    "% p = f32[4] parameter(0) | ROOT r = f32[4] negate(p)",
    "p = f32[4] parameter(0); | ROOT r = f32[4] negate(p)",
    "p = f32[4] parameter(0), | ROOT r = f32[4] negate(p)",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(p) , metadata={op_name=\"a\"}",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(p), metadata = {op_name=\"a\"}",
    "p = f32[4] parameter(0) | ROOT r = f32[4] negate(p), metadata={ op_name=\"a\" }",
    "p = f32[4] parameter(0) | root r = f32[4] negate(p)",
    "p = f32[2,4] parameter(0) | ROOT r = f32[4,2] transpose(p), dimensions={ 1 , 0 }",
    "p = f32[2,4] parameter(0) | ROOT r = f32[4,2] transpose(p), dimensions={1,0,}",
    "p = f32[2,4] parameter(0) | ROOT r = f32[4,2] transpose(p), dimensions = {1,0}",
    "p = f32[2,4] parameter(0) | ROOT r = f32[1,4] slice(p), slice={[0:1], [0:4]}",
    "p = f32[2,4] parameter(0) | ROOT r = f32[1,4] slice(p), slice={[0 : 1],[0:4:1]}",
    "p = f32[2,4] parameter(0) | ROOT r = f32[1,4] slice(p), slice={[0:1][0:4]}",
    "p.1 = f32[4] parameter(0) | ROOT r-1 = f32[4] negate(p.1)",
    "1p = f32[4] parameter(0) | ROOT r = f32[4] negate(1p)",
    "p = f32[4] parameter(0) // no more | ROOT r = f32[4] negate(p) /* the end */",
]
TAILS = {"DIMS": [f"p = f32[2,4] parameter(0) | ROOT r = f32[2,4] {op}(p){tail}" for op, tail in product(
    ("negate", "abs", "copy"), ("", ", frontend_attributes={a=\"b\"}", ", frontend_attributes={ a = \"b\" }",
                                ", backend_config={\"a\":1}", ", backend_config=\"a\""))]}
CLASSES = {"inline operands": INLINE, "operand lists": LISTS, "numbers for arrays": NUMBERS, "blanks in shapes": SHAPES,
           "devices": SHARDINGS, "asynchronous": ASYNC, "lines": LINES, "attributes": TAILS["DIMS"]}
# Where they are meant to decide differently.
ON_PURPOSE = {
    # The sizes of a program must be known.
    "ROOT r = f32[?] parameter(0)", "ROOT r = f32[?,3] parameter(0)", "ROOT r = f32[ ? ] parameter(0)",
    # XLA's verifier, not its parser, refuses layouts of other dimensions.
    "ROOT r = f32[2,3]{0,0} parameter(0)", "ROOT r = f32[2,3]{2,1} parameter(0)",
    # A sharding of nothing.
    "p = f32[8,8] parameter(0), sharding={} | ROOT r = f32[8,8] negate(p)",
    # XLA's words end at blanks: `p=` is one.
    "p=f32[4] parameter(0) | ROOT r=f32[4] negate(p)",
    *(f"p = f32[2,4] parameter(0) | ROOT r = f32[2,4] {op}(p), frontend_attributes={{ a = \"b\" }}"
      for op in ("negate", "abs", "copy")),
    # Names that the text does not have clash with none that it has.
    "ROOT r = f32[4] add(f32[4] parameter(0), f32[4] parameter(1)) | parameter.anon = f32[] constant(1)",
}


def module(lines):
    helpers = (SUM if "to_apply=s" in lines else "") + (WRAPPED if re.search(r"=w\b", lines) else "")
    helpers += "z { ROOT c = f32[4] constant({1, 2, 3, 4}) }\n" if re.search(r"=z\b", lines) else ""
    return f"HloModule m\n{helpers}ENTRY e {{\n" + lines.replace(" | ", "\n") + "\n}\n"


def by_xla(text):
    """XLA's own print, or None and what it says. In a process of its own: XLA aborts on some texts."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            said = ["", _hlo.hlo_module_from_text(text).to_string()]
        except Exception as error:  # noqa: BLE001  any refusal is a verdict
            said = [str(error).replace("\n", " ")[:160], None]
        with os.fdopen(writing, "w") as out:
            json.dump(said, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    why, printed = json.loads(said) if said else ["it aborts", None]
    return printed, why


def by_phzc(phzc, text):
    """phzc's print, or None and what it says."""
    done = subprocess.run([phzc, "-", "--passes", "", "--quiet"], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout, ""
    if done.returncode != 1:
        raise SystemExit(f"{phzc} ended with {done.returncode} on\n{text}\n{done.stderr}")
    return None, done.stderr.split("\n")[0][:160]


def judge(phzc, lines):
    """What is wrong, or None."""
    text = module(lines)
    (theirs, they_say), (ours, we_say) = by_xla(text), by_phzc(phzc, text)
    if (theirs is None) != (ours is None):
        return f"XLA: {they_say or 'takes it'}; phzc: {we_say or 'takes it'}"
    again = by_xla(ours)[0] if ours else None
    if theirs and plain(theirs) != plain(again or ""):
        return f"read differently:\n{plain(theirs)}\n{plain(again or by_xla(ours)[1])}"
    return None


def plain(text):
    """XLA's print without what phzc writes into the header."""
    return re.sub(r"^HloModule.*", "", text).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phzc", nargs="?", default=ROOT / "target" / "release" / "phzc")
    options = parser.parse_args()
    n_cases, n_wrong = 0, 0
    for name, cases in CLASSES.items():
        for lines in cases:
            wrong = None if lines in ON_PURPOSE else judge(str(options.phzc), lines)
            n_cases, n_wrong = n_cases + 1, n_wrong + (wrong is not None)
            if wrong:
                print(f"{name}: {lines}\n    {wrong}")
    print(f"{n_cases} spellings, {n_wrong} judged differently, {len(ON_PURPOSE)} on purpose")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
