use super::*;
#[test]
fn pictures_to_look_at() {
    let Ok(folder) = std::env::var("TAD_PICTURES") else { return };
    let (big, marks) = fixtures::big();
    let (rich, rich_marks) = fixtures::rich();
    for (theme, name) in [(Theme::Light, "light"), (Theme::Dark, "dark"), (Theme::Auto, "auto")] {
        for (tad, marks, what) in [
            (&fixtures::small(), &vec![], "small"),
            (&big, &marks, "big"),
            (&rich, &rich_marks, "rich"),
        ] {
            for highlight in [None, Some(0)] {
                if highlight.is_some() && tad.requests.is_empty() {
                    continue;
                }
                let svg = render(tad, marks, &Options { theme, highlight }).unwrap();
                let path = format!(
                    "{folder}/{what}-{name}{}.svg",
                    if highlight.is_some() { "-path" } else { "" }
                );
                std::fs::write(path, svg).unwrap();
            }
        }
    }
}
