#include "tessera/cli/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tessera::cli {

namespace {

// Refuses every event. A reader of a list overrides the events that it accepts.
class ListReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return reject("null"); }
  bool boolean(bool) override { return reject("a boolean"); }
  bool number_integer(number_integer_t) override { return reject("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return reject("a number"); }
  bool number_float(number_float_t, const string_t&) override { return reject("a number that is not whole"); }
  bool string(string_t&) override { return reject("a string"); }
  bool binary(binary_t&) override { return reject("binary data"); }
  bool start_object(size_t) override { return reject("an object"); }
  bool key(string_t&) override { return reject("a key"); }
  bool end_object() override { return reject("an object"); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // The text is "[json.exception.parse_error.101] parse error at line 1, column 5: ...".
    const std::string_view what = e.what();
    error_ = Error(ErrorCode::format, "JSON: " + std::string(what.substr(what.find("] ") + 2)));
    return false;
  }

  Result<> read(std::string_view text) {
    if (nlohmann::json::sax_parse(text, this)) return {};
    return std::unexpected(error_);
  }

 protected:
  explicit ListReader(std::string_view wanted) : wanted_(wanted) {}
  bool reject(std::string_view got) {
    error_ = Error(ErrorCode::format, fmt::format("JSON: {}: got {}, want {}", where(), got, wanted_));
    return false;
  }
  /// Returns the location, such as "element 3".
  virtual std::string where() const = 0;

  size_t depth_ = 0;
  Error error_{ErrorCode::format, ""};

 private:
  std::string_view wanted_;
};

class TextsReader final : public ListReader {
 public:
  TextsReader() : ListReader("an array of strings") {}

  bool start_array(size_t) override { return depth_++ == 0 || reject("an array"); }
  bool string(string_t& text) override {
    if (depth_ == 0) return reject("a string");
    texts.push_back(std::move(text));
    return true;
  }

  std::vector<std::string> texts;

 private:
  std::string where() const override { return fmt::format("element {}", texts.size()); }
};

class IdListsReader final : public ListReader {
 public:
  IdListsReader() : ListReader("an array of arrays of token ids") {}

  bool start_array(size_t) override {
    if (depth_ == 2) return reject("an array");
    if (depth_++ == 1) lists.emplace_back();
    return true;
  }
  bool number_unsigned(number_unsigned_t id) override {
    if (depth_ != 2) return reject("a number");
    if (id > INT32_MAX) {
      error_ = Error(ErrorCode::limit, fmt::format("JSON: {}: token {}, want 0 to {}", where(), id, INT32_MAX));
      return false;
    }
    lists.back().push_back(static_cast<int32_t>(id));
    return true;
  }

  std::vector<std::vector<int32_t>> lists;

 private:
  std::string where() const override {
    if (depth_ < 2) return fmt::format("element {}", lists.size());
    return fmt::format("element {} of list {}", lists.back().size(), lists.size() - 1);
  }
};

}  // namespace

Result<std::vector<std::string>> parse_json_texts(std::string_view text) {
  TextsReader reader;
  TESSERA_TRY(reader.read(text));
  return std::move(reader.texts);
}

Result<std::vector<std::vector<int32_t>>> parse_json_id_lists(std::string_view text) {
  IdListsReader reader;
  TESSERA_TRY(reader.read(text));
  return std::move(reader.lists);
}

}  // namespace tessera::cli
