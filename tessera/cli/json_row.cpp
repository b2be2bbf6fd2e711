#include "tessera/cli/json_row.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/cli/console.h"
#include "tessera/cli/line_input.h"
#include "tessera/text/chat/json_view.h"

namespace tessera::cli {
namespace {

constexpr size_t kMaxRowBytes = size_t{64} << 20;

std::unexpected<Error> wrong_type(const char* key, std::string_view wanted) {
  return fail(ErrorCode::format, "{}: want {}", key, wanted);
}

}  // namespace

Result<RowJson> parse_row(std::string_view line) {
  // nlohmann's writer recurses, so deep lines are refused before.
  RowJson row = text::is_json(line) ? RowJson::parse(line, nullptr, false) : RowJson(RowJson::value_t::discarded);
  if (!row.is_object()) return fail(ErrorCode::format, "want a JSON object of at most 64 levels");
  return row;
}

std::string row_line(const RowJson& row) { return row.dump(-1, ' ', false, RowJson::error_handler_t::replace) + "\n"; }

Result<> answer_rows(const std::string& file, const CancelToken& interrupt,
                     const std::function<Result<RowJson>(std::string_view line)>& answer) {
  TESSERA_ASSIGN(LineInput input, LineInput::open(file, kMaxRowBytes, interrupt));
  for (size_t number = 1;; ++number) {
    TESSERA_ASSIGN(const std::optional<std::string> line, input.next(interrupt));
    if (!line) return {};
    if (text::trim_json(*line).empty()) continue;
    const auto answered = answer(*line);
    const RowJson row =
        answered ? *answered : RowJson{{"error", fmt::format("line {}: {}", number, answered.error().message())}};
    TESSERA_TRY(print(row_line(row)));
  }
}

bool JsonRow::has(const char* key) const { return row_.contains(key); }
const RowJson& JsonRow::at(const char* key) const { return row_[key]; }

Result<std::string> JsonRow::text(const char* key) const {
  if (!has(key)) return std::string();
  if (!at(key).is_string()) return wrong_type(key, "a string");
  return at(key).get<std::string>();
}

Result<bool> JsonRow::boolean(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean()) return wrong_type(key, "true or false");
  return at(key).get<bool>();
}

Result<uint64_t> JsonRow::integer(const char* key) const {
  if (!has(key)) return uint64_t{0};
  if (!at(key).is_number_unsigned()) return wrong_type(key, "a whole number");
  return at(key).get<uint64_t>();
}

Result<std::vector<std::string>> JsonRow::texts(const char* key) const {
  std::vector<std::string> texts;
  if (!has(key)) return texts;
  if (!at(key).is_array()) return wrong_type(key, "a list of strings");
  for (const RowJson& element : at(key)) {
    if (!element.is_string()) return wrong_type(key, "a list of strings");
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

}  // namespace tessera::cli
