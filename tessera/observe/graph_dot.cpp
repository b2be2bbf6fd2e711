// The graphs of steps in DOT, the language of Graphviz.
#include <fmt/format.h>

#include "tessera/base/index.h"
#include "tessera/engine/inspect.h"
#include "tessera/graph/op_info.h"
#include "tessera/observe/graph_layout.h"
#include "tessera/observe/graph_report.h"
#include "tessera/text/utf8.h"

namespace tessera::observe {

namespace {

constexpr std::string_view kColors[] = {"#cfe0fb", "#fbdcc4", "#d2edd2", "#eed7f5", "#fbeebc", "#cdeef0"};

// Quotes any string as one line of valid text.
std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text::to_valid_utf8(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + '"';
}

class DotWriter {
 public:
  DotWriter(const GraphReport& report, size_t step)
      : report_(report),
        step_(report.steps[step]),
        graph_(step_.schedule.graph),
        layout_(layout_graph(step_.schedule)),
        number_(step) {}

  std::string write() && {
    line("  subgraph cluster_{} {{", number_);
    line("    label={};", dot_quoted(fmt::format("{}: {} tokens", step_.title, step_.n_tokens)));
    for (size_t s = 0; s < step_.schedule.slices.size(); ++s) add_slice(s);
    line("  }}");
    for (const GraphLayout::Edge& edge : layout_.edges)
      line("  {} -> {}{};", name_of_node(edge.from), name_of_node(edge.to),
           graph_[edge.to].op == Op::copy ? " [style=dashed]" : "");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  std::string name_of_node(NodeId id) const { return fmt::format("s{}n{}", number_, id); }

  void add_slice(size_t s) {
    const Slice& slice = step_.schedule.slices[s];
    const auto device = to_size(slice.device);
    line("    subgraph cluster_{}_{} {{", number_, s);
    line("      label={};", dot_quoted(fmt::format("slice {}: {}", s, report_.devices[device]->name())));
    for (NodeId id = slice.begin; id < slice.end; ++id) {
      if (!layout_.is_drawn(id)) continue;
      const Node& node = graph_[id];
      const std::string label = label_of(graph_, id);
      const std::string_view op = info(node.op).name;
      const std::string text = fmt::format("{}{}{}\n{} {}", op, label == op ? "" : "\n", label == op ? "" : label,
                                           info(node.spec.dtype).name, to_string(node.spec.shape()));
      line("      {} [label={}, fillcolor=\"{}\"{}];", name_of_node(id), lines(text),
           kColors[device % std::size(kColors)], node.op == Op::copy ? ", style=\"filled,dashed\"" : "");
    }
    line("    }}");
  }

  // Quotes a text of several lines, with Graphviz's escape for line ends.
  static std::string lines(std::string_view text) {
    std::string out;
    for (size_t end = 0; end != std::string_view::npos;) {
      end = text.find('\n');
      const std::string piece = dot_quoted(text.substr(0, end));
      out += (out.empty() ? "" : "\\n") + piece.substr(1, piece.size() - 2);
      if (end != std::string_view::npos) text.remove_prefix(end + 1);
    }
    return '"' + out + '"';
  }

  const GraphReport& report_;
  const GraphStep& step_;
  const Graph& graph_;
  GraphLayout layout_;
  size_t number_;
  std::string text_;
};

}  // namespace

std::string graph_dot(const GraphReport& report) {
  std::string text = fmt::format("digraph {} {{\n", dot_quoted(report.model));
  text += "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  for (size_t step = 0; step < report.steps.size(); ++step) text += DotWriter(report, step).write();
  return text + "}\n";
}

}  // namespace tessera::observe
