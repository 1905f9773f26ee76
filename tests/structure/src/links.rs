//! Finds dead links in Markdown files: links whose target does not exist. Links to other sites are not checked.
//!
//! The target of a link is a file or folder, relative to the file with the link, and optionally the anchor of a
//! heading. Anchors are formed from headings as GitHub does.

use crate::texts::Text;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Returns a message for each dead link in the Markdown texts. Files are looked up below `root`.
pub fn dead_links(root: &Path, texts: &[Text]) -> Vec<String> {
    let pages: Vec<&Text> = texts.iter().filter(|text| text.is_markdown()).collect();
    let anchors: HashMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut dead = vec![];
    for page in pages {
        for (line, link) in links(&page.text) {
            if is_external(&link) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = resolve(&page.path, file);
            let known = anchors.get(target.as_str());
            let place = format!("{}:{line}: {link}", page.path);
            if !root.join(&target).exists() && known.is_none() {
                dead.push(format!("{place}: there is no {target}"));
            } else if !anchor.is_empty()
                && !known.is_some_and(|known| known.iter().any(|name| name == anchor))
            {
                dead.push(format!("{place}: {target} has no anchor #{anchor}"));
            }
        }
    }
    dead
}

/// True if the link leads to another site or is an e-mail address.
fn is_external(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// Returns the path relative to the root of the file to which the link `file` on `page` leads.
fn resolve(page: &str, file: &str) -> String {
    if file.is_empty() {
        return page.to_owned();
    }
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

/// Returns the targets of all links and images, each with the number of its line.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut links = vec![];
    for (event, range) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = markdown[..range.start].matches('\n').count() + 1;
            links.push((line, dest_url.into_string()));
        }
    }
    links
}

/// Returns the anchors of the headings and the ids of the HTML elements. If several headings are equal, the anchors of
/// all but the first end with a number.
fn anchors(markdown: &str) -> Vec<String> {
    let mut anchors: Vec<String> = vec![];
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let count = counts.entry(anchor.clone()).or_default();
                anchors.push(match *count {
                    0 => anchor,
                    count => format!("{anchor}-{count}"),
                });
                *count += 1;
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let ids = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
                anchors.extend(ids.map(str::to_owned));
            }
            _ => {}
        }
    }
    anchors
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}
