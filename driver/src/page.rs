//! `--emit report`: a plan as one HTML file that needs no network, and its pictures as SVG files.

pub(crate) mod arch;
mod bars;
mod candidates;
mod canvas;
mod layer;
mod memory;
mod tables;
mod timeline;

use crate::summary::count;
use canvas::Picture;
use phzc_cost::Cluster;
use phzc_io::units::{percent, secs};
use phzc_ir::{Module, counted};
use phzc_passes::alternative::Alternative;
use phzc_passes::derive::Facts;
use phzc_passes::report::{Entry, Plan, Step, ledger, step};

/// How the page looks.
const STYLE: &str = include_str!("page/style.css");
/// What filters its table.
const SCRIPT: &str = include_str!("page/script.js");

/// What a page is about.
pub(crate) struct View<'a> {
    module: &'a Module,
    facts: &'a Facts,
    plan: &'a Plan,
    alternatives: &'a [Alternative],
    step: Step,
    ledger: Vec<Entry>,
}

impl<'a> View<'a> {
    /// What is shown of a plan.
    pub fn new(
        (module, facts): (&'a Module, &'a Facts),
        cluster: &Cluster,
        plan: &'a Plan,
        alternatives: &'a [Alternative],
    ) -> View<'a> {
        let (step, ledger) = (step(module, facts, cluster), ledger(module, facts, cluster));
        View { module, facts, plan, alternatives, step, ledger }
    }

    /// The pictures that there is something to show in.
    fn pictures(&self) -> Vec<Picture> {
        let all = [
            Some(timeline::picture(self)),
            memory::picture(self),
            layer::picture(self),
            bars::by_op(self),
            bars::by_source(self),
            candidates::picture(self),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Every picture as a file: its name and its SVG.
pub(crate) fn pictures(view: &View) -> Vec<(String, String)> {
    view.pictures().into_iter().map(|it| (format!("{}.svg", it.name), it.svg)).collect()
}

/// The whole page.
pub(crate) fn html(view: &View) -> String {
    let pictures = view.pictures();
    let title = format!("Plan of {} on {}", view.module.name, view.plan.cluster);
    let of_pictures = pictures.iter().map(|it| (it.name, it.title, figure(it)));
    let sections: Vec<(&str, &str, String)> = of_pictures.chain(tables::sections(view)).collect();
    document(&title, &summary(view.plan), &sections)
}

/// A page of sections: id, title and HTML of each; `summary` is HTML.
fn document(title: &str, summary: &str, sections: &[(&str, &str, String)]) -> String {
    let links = sections.iter().map(|(id, title, _)| format!("<li><a href=\"#{id}\">{title}</a></li>"));
    let bodies = sections
        .iter()
        .map(|(id, title, body)| format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n{summary}</header>\n\
         <nav aria-label=\"Sections\"><ul>\n{links}\n</ul></nav>\n<main>\n{bodies}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escaped(title),
        links = links.collect::<Vec<_>>().join("\n"),
        bodies = bodies.collect::<String>(),
    )
}

/// The figures that matter most.
fn summary(plan: &Plan) -> String {
    let done = plan.throughput.unwrap_or_default();
    let rate = |rate: Option<f64>| rate.map(count);
    let straggling = plan.straggling.as_ref();
    let figures = [
        ("time per step", Some(secs(plan.time_secs))),
        (
            "stragglers",
            straggling.map(|it| format!("{}, {} where none is", it.straggler, secs(it.even_secs))),
        ),
        ("tokens per second", rate(done.tokens_per_sec)),
        ("samples per second", rate(done.samples_per_sec)),
        ("MFU", done.mfu.map(percent)),
        ("HFU", done.hfu.map(percent)),
        ("devices", Some(plan.n_devices.to_string())),
        ("schedule", Some(format!("{}, {}", plan.schedule, counted(plan.n_microbatches, "microbatch")))),
        ("lower bound", plan.lower_bound_secs.map(secs)),
        ("gap to the bound", plan.gap.map(percent)),
        ("search ended by", plan.stop.clone()),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let items =
        known.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(&value)));
    format!("<dl>\n{}</dl>\n", items.collect::<String>())
}

/// A picture that can be scrolled, also by keyboard, where it is wider than the page.
fn figure(picture: &Picture) -> String {
    let alt = escaped(&picture.alt);
    let svg = picture.svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{alt}\" "), 1);
    format!(
        "<figure>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{svg}</div>\n\
         <figcaption>{}</figcaption>\n</figure>\n",
        picture.title,
        escaped(&picture.caption)
    )
}

/// Text as HTML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
