//! Pages that need nothing but themselves.

/// The look of every page: light or dark as the reader prefers; pictures stay on white.
const STYLE: &str = include_str!("page.css");

/// Text as it may stand in HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A whole page around a body.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A table, whose head may be empty; the cells are HTML. Columns beyond the first `left` are
/// numbers.
pub(crate) fn table(head: &[&str], rows: &[(String, Vec<String>)], left: usize) -> String {
    let class = |column: usize| {
        if column < left { "" } else { " class=\"number\"" }
    };
    let mut out = String::from("<div class=\"wide\"><table>\n");
    if !head.is_empty() {
        out += "<thead><tr>";
        for (column, name) in head.iter().enumerate() {
            out += &format!("<th{}>{}</th>", class(column), escape(name));
        }
        out += "</tr></thead>\n";
    }
    out += "<tbody>\n";
    for (row_class, cells) in rows {
        out += &format!("<tr class=\"{row_class}\">");
        for (column, cell) in cells.iter().enumerate() {
            out += &format!("<td{}>{cell}</td>", class(column));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// A check or a cross, for eyes and for screen readers.
pub(crate) fn mark(holds: bool) -> &'static str {
    if holds {
        "<span class=\"holds\" role=\"img\" aria-label=\"holds\">✓</span>"
    } else {
        "<span class=\"fails\" role=\"img\" aria-label=\"does not hold\">✗</span>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        assert!(page("a<b", "").contains("<title>a&lt;b</title>"));
    }
}
