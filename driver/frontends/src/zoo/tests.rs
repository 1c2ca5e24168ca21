//! Every family's tiny program is legal, runs, and does the same in a loop.

use super::*;
use phzc_ir::eval::{Array, Options, Value, inputs, run};
use phzc_ir::{DType, print, verify};

mod counts;

fn settings() -> Settings {
    Settings::plain(4)
}

fn tiny(family: &Family, settings: Settings) -> Module {
    let tiny = family.sizes.iter().find(|size| size.name == "tiny").expect("every family has a tiny size");
    family.forward(tiny.values, settings).unwrap_or_else(|error| panic!("{}: {}", family.name, error.message))
}

fn loss(module: &Module) -> f64 {
    let given = inputs(module, 1).expect("fixed shapes");
    let made = run(module, &given, &Options::default()).expect("it runs");
    made.leaves()[0].to_f64_vec()[0]
}

#[test]
fn every_size_has_a_value_per_dimension_and_a_source() {
    for family in FAMILIES {
        for size in family.sizes {
            assert_eq!(size.values.len(), family.dims.len(), "{} {}", family.name, size.name);
            assert!(!size.source.is_empty(), "{} {}", family.name, size.name);
        }
    }
}

#[test]
fn every_family_is_legal_and_has_a_loss() {
    for family in FAMILIES {
        for dtype in [DType::F32, DType::Bf16] {
            let module = tiny(family, Settings { dtype, products: dtype, ..settings() });
            assert_eq!(verify(&module), [], "{} {}", family.name, print(&module));
            let loss = loss(&module);
            assert!(loss > 0.1 && loss < 20.0, "{}: {loss}", family.name);
        }
    }
}

#[test]
fn beside_adapters_nothing_else_trains_and_families_without_attention_have_none() {
    for family in FAMILIES {
        let made = family.forward(family.sizes[0].values, Settings { adapters: 2, ..settings() });
        let is_without = ["resnet", "mlp"].contains(&family.name);
        assert_eq!(made.is_err(), is_without, "{}", family.name);
        let Ok(module) = made else { continue };
        let names = module.entry().params().into_iter().map(|id| module.entry().instr(id).name.to_string());
        let mut trained = names.filter(|name| name.starts_with("params."));
        assert!(trained.all(|name| name.contains(".lora_")), "{}", family.name);
    }
}

#[test]
fn convolutions_are_no_layers_whose_products_are_narrow() {
    let narrow = Settings { products: DType::F8e4m3fn, ..settings() };
    let resnet = FAMILIES.iter().find(|family| family.name == "resnet").expect("a family");
    let error = resnet.forward(resnet.sizes[0].values, narrow).expect_err("it has none");
    assert_eq!(error.message, "this family has no layers whose products could be narrow");
}

#[test]
fn dropout_changes_the_loss() {
    for family in FAMILIES.iter().filter(|family| family.name != "resnet") {
        let (with, without) = (Settings { dropout: 0.5, ..settings() }, settings());
        let module = tiny(family, with);
        assert_eq!(verify(&module), [], "{}", family.name);
        assert_ne!(loss(&module), loss(&tiny(family, without)), "{}", family.name);
    }
}

#[test]
fn a_loop_is_as_long_whatever_the_depth() {
    for family in FAMILIES.iter().filter(|family| family.can_scan) {
        let mut values = family.sizes[0].values.to_vec();
        let mut n = |layers| {
            values[0] = layers;
            let module = family.forward(&values, Settings { scan: true, dropout: 0.1, ..settings() });
            let module = module.expect("dimensions that fit");
            assert_eq!(verify(&module), [], "{} {}", family.name, print(&module));
            module.n_instrs()
        };
        assert_eq!(n(4), n(16), "{}", family.name);
    }
}

/// The parameters' values by name.
type Named = Vec<(String, Array)>;

fn named(module: &Module) -> Named {
    let names = module.entry().params().into_iter().map(|id| module.entry().instr(id).name.to_string());
    let values = inputs(module, 1).expect("fixed shapes");
    names.zip(values).map(|(name, value)| (name, value.as_array().expect("an array").clone())).collect()
}

/// The value of `params.layers.3.x`: part 3 of `params.layers.x`; of anything else: its own.
fn unstacked(name: &str, stacks: &Named) -> Array {
    let find = |name: &str| stacks.iter().find(|(known, _)| known == name).map(|(_, array)| array.clone());
    if let Some(own) = find(name) {
        return own;
    }
    let (scope, rest) = name.split_once("layers.").expect("a layer's parameter");
    let (layer, rest) = rest.split_once('.').expect("a layer's number");
    let stack = find(&format!("{scope}layers.{rest}")).unwrap_or_else(|| panic!("no stack of {name}"));
    let layer: usize = layer.parse().expect("a layer's number");
    let dims = stack.dims()[1..].to_vec();
    let (mut start, mut limit) = (vec![0; stack.rank()], stack.dims().to_vec());
    (start[0], limit[0]) = (layer, layer + 1);
    let part = stack.slice(&start, &limit).expect("there are so many layers").to_f64_vec();
    let part = part.into_iter().map(|x| x as f32).collect();
    Array::from_vec(DType::F32, &dims, part).expect("as many as the sizes say")
}

#[test]
fn a_loop_computes_what_its_layers_do() {
    for family in FAMILIES.iter().filter(|family| family.can_scan) {
        let mut values = family.sizes[0].values.to_vec();
        values[0] = 4;
        let program =
            |scan| family.forward(&values, Settings { scan, ..settings() }).expect("dimensions that fit");
        let (looped, unrolled) = (program(true), program(false));
        let stacks = named(&looped);
        let given: Vec<Value> =
            named(&unrolled).iter().map(|(name, _)| unstacked(name, &stacks).into()).collect();
        let made = run(&unrolled, &given, &Options::default()).expect("it runs");
        let (one, other) = (loss(&looped), made.leaves()[0].to_f64_vec()[0]);
        assert!((one - other).abs() < 1e-5 * one.abs(), "{}: {one} and {other}", family.name);
    }
}
