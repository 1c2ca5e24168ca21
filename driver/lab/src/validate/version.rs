//! Which version of its software a row ran: as its name, its container or its date say.

/// The version of a container in a remark: 26.04 of `26.04.01 NeMo Container`, 24.03 of `NeMo 24.03.01`.
pub(super) fn container(text: &str) -> Option<[u32; 2]> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let version = |word: &str| {
        let mut parts = word.split('.').map(|part| part.parse::<u32>().ok());
        let [year, month] = [parts.next()??, parts.next()??];
        ((20..40).contains(&year) && (1..=12).contains(&month)).then_some([year, month])
    };
    words.filter(|word| word.matches('.').count() >= 1).find_map(version)
}

/// The release of Megatron's core in a name: 14 of `Megatron-LM 0.14` and of `Megatron-LM core_v0.14.0`.
pub(super) fn core(framework: &str) -> Option<u32> {
    let (_, rest) = framework.split_once(" 0.").or_else(|| framework.split_once("v0."))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The year that a source names: of `arXiv 2205.05198`, `April 2021`, `megatron_2020`.
pub(super) fn year(text: &str) -> Option<usize> {
    let arxiv = text.split_once("arXiv ").and_then(|(_, rest)| rest.get(..2)?.parse::<usize>().ok());
    let runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() == 4);
    let years = runs.filter_map(|run| run.parse().ok()).filter(|year| (2018..2040).contains(year));
    arxiv.map(|year| 2000 + year).into_iter().chain(years).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_dates_are_read_from_names_and_remarks() {
        assert_eq!(container("26.04.01 NeMo Container; FSDP col=0"), Some([26, 4]));
        assert_eq!(
            (container("NeMo 24.03.01"), container("alpha 0.5"), container("v25")),
            (Some([24, 3]), None, None)
        );
        assert_eq!(
            [core("Megatron-LM 0.14 + TE 2.11"), core("Megatron-LM core_v0.8.0")],
            [Some(14), Some(8)]
        );
        assert_eq!(core("Megatron-LM (fork)"), None);
        assert_eq!([year("arXiv 2205.05198 Table 5"), year("cases_april2021.png")], [Some(2022), Some(2021)]);
        assert_eq!((year("seq 2048, 3072 GPUs"), year("")), (None, None));
    }
}
