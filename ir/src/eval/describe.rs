//! What a value is, as the text of a program says it: `f32[2,3]`.

use super::value::{Array, Value};

impl Array {
    /// `f32[2,3]`.
    pub fn type_text(&self) -> String {
        let sizes: Vec<String> = self.dims().iter().map(usize::to_string).collect();
        format!("{}[{}]", self.dtype().as_str(), sizes.join(","))
    }
}

impl Value {
    /// `(f32[2,3], token[])`.
    pub fn type_text(&self) -> String {
        match self {
            Value::Array(array) => array.type_text(),
            Value::Token => "token[]".to_owned(),
            Value::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Value::type_text).collect();
                format!("({})", parts.join(", "))
            }
        }
    }
}
