#include "tessera/server/json/top_level.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/json/json.h"

namespace tessera::server {

namespace {

class KeyFinder final : public nlohmann::json_sax<Json> {
 public:
  explicit KeyFinder(std::string_view key) : key_(key) {}

  bool null() override { return other_value(); }
  bool boolean(bool value) override {
    is_true = value && is_next_;
    return other_value();
  }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_unsigned(number_unsigned_t) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return false; }  // not in JSON
  bool string(string_t& value) override {
    if (is_next_) found = std::move(value);
    return other_value();
  }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    is_next_ = depth_ == 1 && key == key_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  std::optional<std::string> found{};
  bool is_true = false;

 private:
  // False ends the reading.
  bool other_value() const { return !is_next_; }
  bool open() {
    ++depth_;
    return !is_next_;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::string_view key_;
  size_t depth_ = 0;
  bool is_next_ = false;  // the value of the key comes next
};

}  // namespace

std::optional<std::string> find_top_level_text(std::string_view text, std::string_view key) {
  KeyFinder finder(key);
  Json::sax_parse(text, &finder);
  return std::move(finder.found);
}

bool has_top_level_true(std::string_view text, std::string_view key) {
  KeyFinder finder(key);
  Json::sax_parse(text, &finder);
  return finder.is_true;
}

}  // namespace tessera::server
