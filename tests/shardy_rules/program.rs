//! Single StableHLO operations as whole programs: operands become arguments of a function.

/// The program of some operations, in which what is not made is an argument.
pub fn program(operations: &str) -> String {
    let statements: Vec<&str> = operations.split(" ; ").collect();
    let mut arguments: Vec<(String, String)> = Vec::new();
    let made: Vec<&str> =
        statements.iter().filter_map(|it| it.split_once(" = ")).map(|it| name(it.0)).collect();
    for statement in &statements {
        for (operand, of) in operands(statement) {
            let is_new = !made.contains(&operand.as_str()) && arguments.iter().all(|it| it.0 != operand);
            if is_new {
                arguments.push((operand, of));
            }
        }
    }
    arguments.sort();
    let arguments: Vec<String> = arguments.iter().map(|(name, of)| format!("{name}: {of}")).collect();
    let last = statements.last().copied().unwrap_or_default();
    let (results, types) = results(last);
    let (body, arguments) = (statements.join("\n  "), arguments.join(", "));
    format!(
        "func.func public @main({arguments}) -> ({types}) {{\n  {body}\n  return {results} : {types}\n}}\n"
    )
}

/// `%0` of `%0:2`.
fn name(made: &str) -> &str {
    made.trim().split(':').next().unwrap_or_default()
}

/// The types behind the last colon that is outside of all brackets, split at `->`.
fn signature(statement: &str) -> (&str, Option<&str>) {
    let mut depth = 0i32;
    let mut last = statement.len();
    for (at, char) in statement.char_indices() {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if !statement[..at].ends_with('-') => depth -= 1,
            ':' if depth == 0 && !statement[at + 1..].starts_with(|it: char| it.is_ascii_digit()) => {
                last = at
            }
            _ => {}
        }
    }
    let types = statement.get(last + 1..).unwrap_or_default().trim();
    match types.split_once("->") {
        Some((from, to)) => (from.trim(), Some(to.trim())),
        None => (types, None),
    }
}

/// `a, b` of `(a, b)`, split between the brackets.
fn list(types: &str) -> Vec<String> {
    let inner = types.strip_prefix('(').and_then(|it| it.strip_suffix(')')).unwrap_or(types);
    let mut found = vec![String::new()];
    let mut depth = 0;
    for char in inner.chars() {
        depth += i32::from(char == '<') - i32::from(char == '>');
        match char {
            ',' if depth == 0 => found.push(String::new()),
            _ => found.last_mut().expect("never empty").push(char),
        }
    }
    found.into_iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

/// The values that an operation reads, with their types; those of regions aside.
fn operands(statement: &str) -> Vec<(String, String)> {
    let (_, reads) = statement.split_once(" = ").unwrap_or(("", statement));
    let reads = reads.split("({").next().unwrap_or_default();
    let is_end = |char: char| !char.is_alphanumeric();
    let names =
        reads.split('%').skip(1).map(|it| format!("%{}", it.split(is_end).next().unwrap_or_default()));
    let names: Vec<String> = names.collect();
    let (from, _) = signature(statement);
    let types = list(from);
    // One type may stand for all, and `select` writes two for three.
    let of = |at: usize| types.get(at).or(types.last()).cloned().unwrap_or_default();
    names.into_iter().enumerate().map(|(at, name)| (name, of(at))).collect()
}

/// What an operation makes, as a `return` names it, with the types.
fn results(statement: &str) -> (String, String) {
    let made = statement.split(" = ").next().unwrap_or_default();
    let (from, to) = signature(statement);
    let types = to.map_or_else(|| list(from).last().cloned().into_iter().collect(), list);
    let names: Vec<String> = match types.len() {
        1 => vec![name(made).to_owned()],
        n if made.contains(',') => made.split(',').take(n).map(|it| it.trim().to_owned()).collect(),
        n => (0..n).map(|at| format!("{}#{at}", name(made))).collect(),
    };
    (names.join(", "), types.join(", "))
}
