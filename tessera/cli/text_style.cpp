#include "tessera/cli/text_style.h"

#include "tessera/cli/cluster.h"

namespace tessera::cli {

std::string style_sequence(const TextStyle& style) {
  std::string out = "\x1b[0";
  if (style.bold) out += ";1";
  if (style.dim) out += ";2";
  if (style.italic) out += ";3";
  if (style.underline) out += ";4";
  if (style.strike) out += ";9";
  if (style.colour == TextColour::warning) out += ";33";
  if (style.colour == TextColour::user) out += ";36";
  return out += 'm';
}

void ScreenRow::append(std::string_view text, int64_t n_text_columns, const TextStyle& style) {
  if (text.empty()) return;
  if (runs.empty() || runs.back().style != style) runs.push_back({style, "", 0});
  runs.back().text += text;
  runs.back().n_columns += n_text_columns;
  n_columns += n_text_columns;
}

void ScreenRow::append(const ScreenRow& row) {
  for (const StyledRun& run : row.runs) append(run.text, run.n_columns, run.style);
}

void ScreenRow::append_visible(std::string_view text, const TextStyle& style) {
  const std::string shown = visible(text);
  append(shown, cli::n_columns(shown), style);
}

}  // namespace tessera::cli
