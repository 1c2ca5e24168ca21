//! Tables of training runs for `phzc validate`: a header, a published row, and how they are written and read.

use super::{Outcome, phzc, scratch};
use std::fs;
use std::path::PathBuf;

pub const HEADER: &str = "row_id,arch,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,device,gpus,gpus_per_node,tp,sp,pp,vpp,cp,dp,\
                      dp_kind,mbs,gbs,recompute,dtype,framework,iter_time_s,peak_mem_gib,status,notes";
pub const GPT: &str = "a,gpt,gpt3-175B,96,12288,49152,96,,2048,51200,A100-SXM4-80GB,64,8,8,0,8,3,,1,ddp,1,64,full,fp16,Megatron-LM,18.13,,ok,";

pub fn table(test: &str, rows: &[&str]) -> PathBuf {
    let path = scratch(test).join("runs.csv");
    fs::write(&path, format!("{HEADER}\n{}\n", rows.join("\n"))).expect("writable");
    path
}

pub fn validate(path: &std::path::Path, options: &[&str]) -> Outcome {
    let name = path.to_string_lossy();
    phzc(&[&["validate", &name], options].concat(), b"")
}
