// The page: page/graph.html with the style, the scripts and the report's JSON in place of their marks.
#include <utility>

#include "tessera/observe/graph_report.h"

// page/page.S places the files between these symbols.
extern "C" const char tessera_page_html_begin[], tessera_page_html_end[], tessera_page_css_begin[],
    tessera_page_css_end[], tessera_page_report_begin[], tessera_page_report_end[], tessera_page_js_begin[],
    tessera_page_js_end[];

namespace tessera::observe {

namespace {

// Escapes ASCII JSON for a script element. Without '<', nothing in it can end the element or begin another.
std::string script_json(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string graph_page(const GraphReport& report) {
  const std::string_view html(tessera_page_html_begin, tessera_page_html_end);
  const std::pair<std::string_view, std::string> parts[] = {
      {"/*STYLE*/", {tessera_page_css_begin, tessera_page_css_end}},
      {"/*REPORT*/", {tessera_page_report_begin, tessera_page_report_end}},
      {"/*SCRIPT*/", {tessera_page_js_begin, tessera_page_js_end}},
      {"/*DATA*/", script_json(graph_json(report))}};
  std::string page;
  size_t done = 0;
  for (const auto& [mark, text] : parts) {  // in the order of the marks in the page
    const size_t at = html.find(mark, done);
    page += html.substr(done, at - done);
    page += text;
    done = at + mark.size();
  }
  return page += html.substr(done);
}

}  // namespace tessera::observe
