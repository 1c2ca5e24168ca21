//! Parameter counts of named sizes are the published ones.

use super::{FAMILIES, Settings, n_parameters};

/// A family's size, its published count, where that is from.
type Row = (&'static str, &'static str, f64, &'static str);

const GPT2: &str = "OpenAI's checkpoint";
const META: &str = "Meta's checkpoint";
const GOOGLE: &str = "Google's checkpoint";
const TORCHVISION: &str = "torchvision's table of weights";

/// Counted in released checkpoints, tied weights once: these have to be equal.
#[rustfmt::skip]
const EXACT: &[Row] = &[
    ("gpt", "gpt2-small", 124_439_808.0, GPT2),
    ("gpt", "gpt2-medium", 354_823_168.0, GPT2),
    ("gpt", "gpt2-large", 774_030_080.0, GPT2),
    ("gpt", "gpt2-xl", 1_557_611_200.0, GPT2),
    ("opt", "125m", 125_239_296.0, META),
    ("opt", "1.3b", 1_315_758_080.0, META),
    ("llama", "7b", 6_738_415_616.0, META),
    ("llama", "13b", 13_015_864_320.0, META),
    ("llama", "33b", 32_528_943_616.0, META),
    ("llama", "65b", 65_285_660_672.0, META),
    ("llama", "2-7b", 6_738_415_616.0, META),
    ("llama", "2-13b", 13_015_864_320.0, META),
    ("llama", "2-70b", 68_976_648_192.0, META),
    ("llama", "3-8b", 8_030_261_248.0, META),
    ("llama", "3-70b", 70_553_706_496.0, META),
    ("llama", "3-405b", 405_853_388_800.0, META),
    ("mixtral", "8x7b", 46_702_792_704.0, "Mistral's checkpoint"),
    ("bert", "base", 110_106_428.0, "Google's checkpoint, with both heads"),
    ("bert", "large", 336_226_108.0, "Google's checkpoint, with both heads"),
    ("t5", "small", 60_506_624.0, GOOGLE),
    ("t5", "base", 222_903_552.0, GOOGLE),
    ("t5", "large", 737_668_096.0, GOOGLE),
    ("t5", "3b", 2_851_598_336.0, GOOGLE),
    ("t5", "11b", 11_307_321_344.0, GOOGLE),
    ("vit", "b16", 86_567_656.0, TORCHVISION),
    ("vit", "b32", 88_224_232.0, TORCHVISION),
    ("vit", "l16", 304_326_632.0, TORCHVISION),
    ("vit", "h14", 632_045_800.0, TORCHVISION),
    ("resnet", "50", 25_557_032.0, TORCHVISION),
    ("resnet", "101", 44_549_160.0, TORCHVISION),
    ("resnet", "152", 60_192_808.0, TORCHVISION),
    ("resnet", "wide-50-2", 68_883_240.0, TORCHVISION),
];

const GPT3: &str = "Brown et al. 2020, table 2.1";
const MEGATRON: &str = "Narayanan et al. 2021, table 1";
const OPT: &str = "Zhang et al. 2022, table 1";

/// Published with as many digits as stand here, in billions: these have to agree, or half a per cent.
#[rustfmt::skip]
const ROUNDED: &[(&str, &str, &str, &str)] = &[
    ("gpt", "175b", "175", GPT3),
    ("gpt", "megatron-1.7b", "1.7", MEGATRON),
    ("gpt", "megatron-3.6b", "3.6", MEGATRON),
    ("gpt", "megatron-7.5b", "7.5", MEGATRON),
    ("gpt", "megatron-18.4b", "18.4", MEGATRON),
    ("gpt", "megatron-39.1b", "39.1", MEGATRON),
    ("gpt", "megatron-76.1b", "76.1", MEGATRON),
    ("gpt", "megatron-145.6b", "145.6", MEGATRON),
    ("gpt", "megatron-310.1b", "310.1", MEGATRON),
    ("gpt", "megatron-529.6b", "529.6", MEGATRON),
    ("gpt", "megatron-1008b", "1008.0", MEGATRON),
    ("opt", "2.7b", "2.7", OPT),
    ("opt", "6.7b", "6.7", OPT),
    ("opt", "13b", "13", OPT),
    ("opt", "30b", "30", OPT),
    ("opt", "66b", "66", OPT),
    ("opt", "175b", "175", OPT),
    ("deepseek", "v2-lite", "15.7", "DeepSeek-AI 2024 (DeepSeek-V2), appendix B"),
    ("deepseek", "v2", "236", "DeepSeek-AI 2024 (DeepSeek-V2), abstract"),
    ("deepseek", "v3", "671", "DeepSeek-AI 2024 (DeepSeek-V3), abstract"),
    ("deepseek", "qwen3-30b-a3b", "30.5", "Qwen team 2025 (Qwen3), model card"),
    ("deepseek", "qwen3-235b-a22b", "235", "Qwen team 2025 (Qwen3), model card"),
    ("vit", "g14", "1.843", "Zhai et al. 2021, table 2 (ViT-G/14)"),
];

fn count(family: &str, size: &str) -> f64 {
    let family = FAMILIES.iter().find(|known| known.name == family).expect("a family");
    let size = family.sizes.iter().find(|known| known.name == size).expect("a size");
    let settings = Settings::plain(1);
    n_parameters(&family.forward(size.values, settings).expect("dimensions that fit")) as f64
}

/// Prints all rows, then fails for those that are further from the published count than they may be.
fn check<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str, f64, f64, &'a str)>) {
    let mut wrong = Vec::new();
    for (family, size, published, most, source) in rows {
        let found = count(family, size);
        let line =
            format!("{family:8} {size:16} {found:16} {published:16} {:9.6} {source}", found / published);
        eprintln!("{line}");
        if (found - published).abs() > most {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn checkpoints_have_as_many_parameters() {
    check(EXACT.iter().map(|&(family, size, count, source)| (family, size, count, 0.0, source)));
}

#[test]
fn papers_round_to_as_many_billions() {
    check(ROUNDED.iter().map(|&(family, size, billions, source)| {
        let digits = billions.split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
        let count = 1e9 * billions.parse::<f64>().expect("a number");
        let last_digit = 1e9 * 0.1f64.powi(digits);
        (family, size, count, f64::max(last_digit / 2.0, 0.005 * count), source)
    }));
}
