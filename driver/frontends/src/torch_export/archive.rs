//! The archive: a zip file with the program as JSON, and arrays beside it.
//!
//! PyTorch up to 2.7 writes `serialized_exported_program.json`, later versions `models/model.json`. Up to 2.8
//! the arrays are Python pickles, which are not read; since then they are bytes, with a list of them.

use super::schema::{Payload, Payloads, Program, Size};
use super::sizes;
use crate::onnx;
use phzc_io::files;
use phzc_ir::eval::Array;
use phzc_ir::{Diagnostic, Result};
use serde::de::DeserializeOwned;
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use zip::ZipArchive;

/// How a zip file begins.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
/// No array is unpacked that is larger.
const MAX_ARRAY_BYTES: u64 = files::MAX_ARRAY_BYTES;

trait Input: Read + Seek {}
impl<T: Read + Seek> Input for T {}

/// An archive that was opened.
pub(super) struct Archive {
    zip: ZipArchive<Box<dyn Input>>,
    /// The directories in it that hold arrays, with the lists of them.
    payloads: Vec<(String, Payloads)>,
}

impl Archive {
    /// The archive in these bytes, or in the file if they are only its beginning: then nothing of it is read
    /// that nobody asks for.
    pub fn open(bytes: Vec<u8>, path: &Path) -> Result<Archive> {
        let input: Box<dyn Input> = match bytes.len() == MAGIC.len() {
            true => Box::new(files::opened(path)?),
            false => Box::new(Cursor::new(bytes)),
        };
        let zip = ZipArchive::new(input).map_err(|error| damaged(&error.to_string()))?;
        let mut archive = Archive { zip, payloads: Vec::new() };
        for list in ["data/weights/model_weights_config.json", "data/constants/model_constants_config.json"] {
            if let Some(found) = archive.find(list) {
                let directory = found[..found.rfind('/').map_or(0, |at| at + 1)].to_owned();
                let payloads = archive.json(&found)?;
                archive.payloads.push((directory, payloads));
            }
        }
        Ok(archive)
    }

    /// The whole name of a file that the archive has in its one directory, or at its top.
    fn find(&self, name: &str) -> Option<String> {
        let is_it =
            |found: &&str| found.strip_suffix(name).is_some_and(|dir| dir.is_empty() || dir.ends_with('/'));
        self.zip.file_names().find(is_it).map(str::to_owned)
    }

    /// The exported program.
    pub fn program(&mut self) -> Result<Program> {
        let known = ["models/model.json", "serialized_exported_program.json"];
        let found = known.iter().find_map(|name| self.find(name));
        let none = || {
            let error = Diagnostic::error("the zip archive holds no program of `torch.export.save`");
            error.help("write it with `torch.export.save(torch.export.export(model, args), \"model.pt2\")`")
        };
        self.json(&found.ok_or_else(none)?)
    }

    fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let bytes = self.bytes(name, files::MAX_TEXT_BYTES)?;
        let text = files::text(bytes, &format!("`{name}`"), files::MAX_TEXT_BYTES)?;
        serde_json::from_str(&quoted(&text)).map_err(|error| damaged(&format!("`{name}`: {error}")))
    }

    fn bytes(&mut self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let entry = self.zip.by_name(name).map_err(|error| damaged(&format!("`{name}`: {error}")))?;
        let mut bytes = Vec::new();
        let read = entry.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| damaged(&format!("`{name}`: {error}")))?;
        match bytes.len() as u64 > limit {
            true => Err(Diagnostic::error(format!("`{name}` is larger than {} MiB", limit >> 20))),
            false => Ok(bytes),
        }
    }

    /// Whether the elements of an array of the model are in the archive, as bytes.
    pub fn has(&self, name: &str) -> bool {
        self.payload(name).is_some()
    }

    fn payload(&self, name: &str) -> Option<(&str, &Payload)> {
        let found = self.payloads.iter().find_map(|(dir, list)| Some((&**dir, list.config.get(name)?)));
        found.filter(|(_, payload)| !payload.use_pickle && payload.tensor_meta.is_some())
    }

    /// An array of the model: `layers.0.weight`.
    pub fn array(&mut self, name: &str) -> Result<Array> {
        self.read(name).map_err(|error| {
            let message = format!("tensor `{name}`: {}", error.message);
            Diagnostic { message, ..error }
        })
    }

    fn read(&mut self, name: &str) -> Result<Array> {
        let missing = || Diagnostic::error("its elements are not in the archive");
        let (directory, payload) = self.payload(name).ok_or_else(missing)?;
        let meta = payload.tensor_meta.clone().ok_or_else(missing)?;
        let file = format!("{directory}{}", payload.path_name);
        let fixed = |sizes: &[Size]| sizes.iter().map(sizes::fixed).collect::<Result<Vec<i64>>>();
        let (dims, strides) = (fixed(&meta.sizes)?, fixed(&meta.strides)?);
        let (dtype, offset) = (sizes::dtype(meta.dtype)?, sizes::fixed(&meta.storage_offset)?);
        onnx::checked(&dims)?;
        let bytes = self.bytes(&file, MAX_ARRAY_BYTES)?;
        let size = (dtype.bits() as usize).div_ceil(8);
        let bytes = gathered(&bytes, size, &dims, &strides, offset).ok_or_else(|| {
            Diagnostic::error(format!("`{file}` has {} bytes, too few for sizes {dims:?}", bytes.len()))
        })?;
        let dims: Vec<usize> = dims.iter().map(|&size| size as usize).collect();
        onnx::from_bytes(dtype, &dims, &bytes)
            .ok_or_else(|| Diagnostic::error(format!("elements of type {} are not read", dtype.as_str())))
    }
}

/// The elements of an array in row-major order, each of `size` bytes, from where they are in its storage.
fn gathered(storage: &[u8], size: usize, dims: &[i64], strides: &[i64], offset: i64) -> Option<Vec<u8>> {
    let n = usize::try_from(dims.iter().product::<i64>()).ok()?;
    let mut row_major = 1;
    let is_plain = dims.iter().zip(strides).rev().all(|(&size, &stride)| {
        let is_next = stride == row_major || size == 1;
        row_major *= size;
        is_next
    });
    if dims.len() != strides.len() {
        return None;
    }
    if is_plain {
        let start = usize::try_from(offset).ok()?.checked_mul(size)?;
        return Some(storage.get(start..start.checked_add(n.checked_mul(size)?)?)?.to_vec());
    }
    let mut bytes = Vec::with_capacity(n.min(storage.len()) * size);
    for mut index in 0..n as i64 {
        let mut at = offset;
        for (&size, &stride) in dims.iter().zip(strides).rev() {
            at = at.checked_add((index % size).checked_mul(stride)?)?;
            index /= size;
        }
        let start = usize::try_from(at).ok()?.checked_mul(size)?;
        bytes.extend_from_slice(storage.get(start..start.checked_add(size)?)?);
    }
    Some(bytes)
}

/// Python's words for numbers that are not finite, which older versions write and JSON has not, as strings.
fn quoted(text: &str) -> String {
    let (mut made, mut is_string) = (String::with_capacity(text.len()), false);
    for (at, part) in text.split('"').enumerate() {
        made.push_str(if at > 0 { "\"" } else { "" });
        if is_string {
            made.push_str(part);
            // The quote behind an escape is the string's own.
            is_string = part.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
            continue;
        }
        let words = ["-Infinity", "Infinity", "NaN"];
        let quote = |part: String, word: &&str| part.replace(&format!(": {word}"), &format!(": \"{word}\""));
        made.push_str(&words.iter().fold(part.to_owned(), quote));
        is_string = true;
    }
    made
}

fn damaged(what: &str) -> Diagnostic {
    Diagnostic::error(format!("this is no program of `torch.export.save`: {what}"))
}
