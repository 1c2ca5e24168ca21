//! `phzc validate` on tables and profiles with slips: each is said with its place and what is known.

use crate::common::runs::{GPT, table, validate};
use crate::common::{Outcome, scratch};
use std::fs;

/// The warnings for a table whose second row is this edit of the first.
fn warned(name: &str, from: &str, to: &str) -> Outcome {
    let outcome = validate(&table(&format!("validate_word_{name}"), &[GPT, &GPT.replace(from, to)]), &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome
}

#[test]
fn a_word_that_is_not_known_is_warned_of_with_its_place_and_the_known_ones() {
    let cases = [
        ("device", "A100-SXM4-80GB", "a100-81", "device `a100-81`: 1 row is not predicted", "a100-80"),
        ("recompute", ",full,", ",ful,", "`ful` in `recompute`: 1 row is read as not stated", "`full`?"),
        ("status", ",ok,", ",okk,", "`okk` in `status`: 1 row is not predicted", "`ok`?"),
        (
            "framework",
            "Megatron-LM",
            "Megatorn",
            "in `framework`: 1 row is read as PyTorch FSDP",
            "`Megatron`?",
        ),
        ("dtype", ",fp16,", ",bf61,", "`bf61` in `dtype`: 1 row is not predicted", "`bf16`?"),
        ("dp_kind", ",ddp,", ",ddpp,", "in `dp_kind`: 1 row is read as what the framework does", "`ddp`?"),
    ];
    for (name, from, to, message, help) in cases {
        let stderr = warned(name, from, to).stderr;
        for part in ["warning", "runs.csv:3:", message, help] {
            assert!(stderr.contains(part), "no `{part}` in\n{stderr}");
        }
    }
}

#[test]
fn a_row_that_contradicts_itself_is_named_with_its_column_and_what_to_do() {
    let outcome = warned("contradiction", ",96,,2048,", ",96,128,2048,");
    for part in ["runs.csv:3:", "128 heads of keys and values for 96 of queries", "leave it blank"] {
        assert!(outcome.stderr.contains(part), "no `{part}` in\n{}", outcome.stderr);
    }
    assert!(outcome.stdout.contains("128 heads of keys and values for 96 of queries (row 2)"));
}

#[test]
fn sizes_that_cannot_be_are_named_with_row_and_column() {
    for (name, from, to, message) in [
        ("heads", ",96,,2048,", ",97,,2048,", "97 heads do not divide a width of 12288"),
        ("stages", ",8,0,8,3,", ",8,0,97,1,", "97 stages for 96 layers"),
        ("layers", ",96,12288,", ",96.5,12288,", "`layers` is 96.5"),
        ("batch", ",ddp,1,64,", ",ddp,65,64,", "a batch of 64 has less than 65 for each of 1 copies"),
    ] {
        let stderr = warned(&format!("size_{name}"), from, to).stderr;
        assert!(stderr.contains("runs.csv:3:") && stderr.contains(message), "no `{message}` in\n{stderr}");
    }
}

#[test]
fn a_collective_of_one_rank_is_named_and_not_predicted() {
    let path = scratch("validate_alone").join("collectives.csv");
    let header = "device,interconnect,collective,ranks,nodes,size_bytes,time_us";
    let rows = "a100,NVLink3,all_reduce,8,1,1048576,50\na100,NVLink3,all_reduce,1,1,1048576,50";
    fs::write(&path, format!("{header}\n{rows}\n")).expect("writable");
    let outcome = validate(&path, &[]);
    let message = "a collective of one rank moves nothing";
    assert!(
        outcome.stderr.contains("collectives.csv:3:") && outcome.stdout.contains(message),
        "{}",
        outcome.stderr
    );
}

#[test]
fn rows_that_are_no_program_are_named_with_the_reason() {
    let path = table("validate_no_run", &[&GPT.replace(",96,,2048,", ",97,,2048,")]);
    let outcome = validate(&path, &["--programs"]);
    assert!(
        outcome.stdout.contains("no run: a, 97 heads do not divide a width of 12288"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn words_that_are_known_are_not_warned_of() {
    assert_eq!(warned("fine", ",full,", ",selective(per-op),").stderr, "");
    assert_eq!(warned("count", "A100-SXM4-80GB", "8xA100 80GB").stderr, "");
}

#[test]
fn products_in_a_precision_that_is_not_known_are_not_predicted_in_another() {
    let path = scratch("validate_precision").join("products.csv");
    let rows = "a100,bf16,4096,4096,4096,0.6\na100,fp61,4096,4096,4096,0.6";
    fs::write(&path, format!("device,dtype,m,n,k,latency_ms\n{rows}\n")).expect("writable");
    let outcome = validate(&path, &[]);
    assert!(outcome.stdout.contains("not expressed: 1, its precision is `fp61`"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("products.csv:3:6"), "{}", outcome.stderr);
}

#[test]
fn a_wrong_profile_is_an_error_at_its_place() {
    let runs = table("validate_profile", &[GPT]);
    let file = runs.with_file_name("profile.json");
    let cases = [
        ("{\n\"gpt\": {\"A\": {\"1\": {\"1\": {\"0\": [1, 2]}}}}\n}", "profile.json:2:", "array of length 3"),
        ("{\"gpt\": {\"A\": {\"1\": {\"1\": {\"0\":\n[1, 2, -3]}}}}}", "profile.json:2:", "found `-3`"),
        ("{\"gpt\": [1,\n\"x\"]}", "profile.json:2:", "expected f64"),
        ("{\"gpt\":\n", "profile.json:1:", "EOF while parsing"),
    ];
    for (text, place, message) in cases {
        fs::write(&file, text).expect("writable");
        let outcome = validate(&runs, &["--profile", &file.to_string_lossy()]);
        assert_eq!(outcome.code, 1, "{text}");
        for part in [place, message, "docs/validation.md"] {
            assert!(outcome.stderr.contains(part), "no `{part}` in\n{}", outcome.stderr);
        }
    }
}

#[test]
fn a_profile_that_no_row_uses_is_warned_of() {
    let runs = table("validate_unused", &[GPT]);
    let file = runs.with_file_name("profile.json");
    fs::write(&file, "{\"gptt3\": {\"80GB\": {\"1\": {\"8\": {\"0\": [1, 2, 3]}}}}}").expect("writable");
    let outcome = validate(&runs, &["--profile", &file.to_string_lossy()]);
    assert!(outcome.stderr.contains("no row takes a time from"), "{}", outcome.stderr);
    fs::write(&file, "{\"gpt3\": {\"80GB\": {\"1\": {\"8\": {\"0\": [1, 2, 3]}}}}}").expect("writable");
    assert_eq!(validate(&runs, &["--profile", &file.to_string_lossy()]).stderr, "");
}

#[test]
fn a_table_of_another_name_in_a_folder_is_warned_of() {
    let runs = table("validate_folder", &[GPT]);
    let folder = runs.parent().expect("it is in a folder");
    fs::copy(&runs, folder.join("more.cvs")).expect("writable");
    fs::write(folder.join("README.md"), "Tables, and more.\n").expect("writable");
    let outcome = validate(folder, &[]);
    assert!(outcome.code == 0 && outcome.stderr.contains("more.cvs` is not read"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("README"), "{}", outcome.stderr);
    fs::remove_file(&runs).expect("it was written");
    let outcome = validate(folder, &[]);
    assert!(outcome.code == 1 && outcome.stderr.contains("no table in"), "{}", outcome.stderr);
}
