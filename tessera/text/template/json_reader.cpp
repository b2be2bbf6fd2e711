// nlohmann's SAX parser keeps its own stack, so depth is no recursion there either.
#include "tessera/text/template/json_reader.h"

#include <nlohmann/json.hpp>

namespace tessera::text::jinja {
namespace {

class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(Heap& heap, Origin origin, const JsonLimits& limits) : heap_(heap), origin_(origin), limits_(limits) {}

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return add(fits ? Value::integer(static_cast<int64_t>(value)) : Value::real(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(Value::real(value)); }
  bool string(string_t& text) override { return add(heap_.text(text, origin_)); }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(size_t) override { return open(Value::dict(heap_.create_dict())); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Value::list(heap_.create_list())); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    open_.back().key = heap_.text(text, origin_);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (failure_) failure_ = fail(ErrorCode::format, "not JSON: error at byte {}", position > 0 ? position - 1 : 0);
    return false;
  }

  Result<ParsedJson> result() && {
    if (!failure_) return std::unexpected(std::move(failure_).error());
    return ParsedJson{root_, n_values_};
  }

 private:
  struct Open {
    Value container;
    Value key{};
  };

  bool add(const Value& value) {
    if (++n_values_ > limits_.max_values) {
      failure_ = fail(ErrorCode::limit, "JSON with more than {} values", limits_.max_values);
      return false;
    }
    if (open_.empty()) {
      root_ = value;
    } else if (open_.back().container.is(Kind::dict)) {
      open_.back().container.as_dict().set(open_.back().key, value);
    } else {
      open_.back().container.as_list().items.push_back(value);
    }
    return true;
  }

  bool open(const Value& container) {
    if (open_.size() == limits_.max_depth) {
      failure_ = fail(ErrorCode::limit, "JSON nested deeper than {}", limits_.max_depth);
      return false;
    }
    if (!add(container)) return false;
    open_.push_back({container});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Heap& heap_;
  Origin origin_;
  const JsonLimits& limits_;
  std::vector<Open> open_;
  Value root_;
  size_t n_values_ = 0;
  Result<> failure_;
};

}  // namespace

Result<ParsedJson> parse_json(Heap& heap, std::string_view text, Origin origin, const JsonLimits& limits) {
  Handler handler(heap, origin, limits);
  const bool is_done = nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  auto result = std::move(handler).result();
  if (result && !is_done) return fail(ErrorCode::format, "not JSON");
  return result;
}

}  // namespace tessera::text::jinja
