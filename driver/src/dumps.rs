//! `--dump-dir`: the program before the first and after each pass that changes it, and the passes' tables.

use crate::args::Args;
use crate::remarks;
use phzc_cost::Cluster;
use phzc_io::files;
use phzc_ir::Result;
use phzc_passes::{Done, Pipeline};
use std::path::PathBuf;

/// Where dumps go and what their first lines say.
pub(crate) struct Dumps {
    dir: PathBuf,
    pipeline: Pipeline,
    /// ` --cluster …`, if the user gave one.
    cluster: String,
}

impl Dumps {
    /// Makes the directory, if the user wants dumps.
    pub fn open(args: &Args, pipeline: &Pipeline) -> Result<Option<Dumps>> {
        let Some(dir) = &args.dump_dir else { return Ok(None) };
        files::make_dir(dir)?;
        let cluster = args.cluster.as_ref().map(|name| format!(" --cluster {}", shell_word(name)));
        Ok(Some(Dumps { dir: dir.clone(), pipeline: pipeline.clone(), cluster: cluster.unwrap_or_default() }))
    }

    /// Writes `00_input.ir`, then the program after each pass, unless the pass left it as it was.
    pub fn write(&self, done: &Done, cluster: &Cluster) -> Result<()> {
        if !done.changed {
            return Ok(());
        }
        let name = format!("{:02}_{}.ir", done.n_done, done.step.map_or("input", |step| step.pass.name));
        let rest = shell_word(&self.pipeline.after(done.n_done).to_string());
        let program = remarks::text(done.module, cluster)?;
        let text = format!("// phzc {name} --passes {rest}{}\n{program}", self.cluster);
        files::write(&self.dir.join(name), &text)
    }

    /// Writes a table or the plan.
    pub fn artifact(&self, name: &str, text: &str) -> Result<()> {
        files::write(&self.dir.join(name), text)
    }
}

/// The word as a shell takes it.
fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,/=:+%@".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        // A line break would end the comment that the word stands in.
        format!("'{}'", word.replace('\'', "'\\''").replace(['\n', '\r'], " "))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn shells_read_words_back_as_they_were() {
        assert_eq!(shell_word("fuse,shard"), "fuse,shard");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("shard{a=1,b=2}"), "'shard{a=1,b=2}'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }
}
