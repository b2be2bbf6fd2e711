#include "tessera/text/grammar/schema/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "tessera/text/grammar/number_language.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {

class DocumentReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Kind = Document::Kind;

  Result<Document> read(std::string_view text) {
    if (text.size() > Document::kMaxBytes) return fail(ErrorCode::limit, "more than 1 MiB");
    const bool is_read = nlohmann::json::sax_parse(text, this);
    if (!error_) return std::unexpected(error_.error());
    if (!is_read) return fail(ErrorCode::format, "not JSON");
    return std::move(document_);
  }

  bool null() override { return add({.kind = Kind::null}); }
  bool boolean(bool value) override { return add({.kind = Kind::boolean, .text = value ? "true" : "false"}); }
  bool number_integer(number_integer_t value) override { return add_number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return add_number(text); }
  bool string(string_t& text) override { return add({.kind = Kind::string, .text = std::move(text)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open({.kind = Kind::object}); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open({.kind = Kind::array}); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    name_ = std::move(text);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (error_) error_ = fail(ErrorCode::format, "not JSON: error at byte {}", position > 0 ? position - 1 : 0);
    return false;
  }

 private:
  bool add_number(std::string text) { return add({.kind = Kind::number, .text = std::move(text)}); }

  bool add(Document::Value value) {
    std::vector<Document::Value>& values = document_.values_;
    if (values.size() >= Document::kMaxValues) {
      error_ = fail(ErrorCode::limit, "more than {} values", Document::kMaxValues);
      return false;
    }
    const auto place = static_cast<Document::Place>(values.size());
    if (!open_.empty()) {
      value.parent = open_.back();
      Document::Value& parent = values[open_.back()];
      if (parent.kind == Kind::array) {
        parent.elements.push_back(place);
      } else {
        parent.members.push_back({std::move(name_), place});
      }
    }
    values.push_back(std::move(value));
    return true;
  }

  bool open(Document::Value value) {
    if (open_.size() >= Document::kMaxDepth) {
      error_ = fail(ErrorCode::limit, "nested deeper than {}", Document::kMaxDepth);
      return false;
    }
    const auto place = static_cast<Document::Place>(document_.values_.size());
    if (!add(std::move(value))) return false;
    open_.push_back(place);
    return true;
  }
  bool close() {
    Document::Value& value = document_.values_[open_.back()];
    open_.pop_back();
    if (value.kind == Kind::object) index(value);
    return true;
  }

  // Removes members whose name comes again, and sorts the names of the others.
  static void index(Document::Value& value) {
    const auto name_of = [&](uint32_t i) -> const std::string& { return value.members[i].name; };
    const auto sorted = [&] {
      std::vector<uint32_t> order(value.members.size());
      std::iota(order.begin(), order.end(), 0u);
      std::ranges::stable_sort(order, {}, name_of);
      return order;
    };
    std::vector<uint32_t> order = sorted();
    std::vector<bool> is_repeated(order.size());
    for (size_t i = 1; i < order.size(); ++i)
      if (name_of(order[i - 1]) == name_of(order[i])) is_repeated[order[i - 1]] = true;
    if (std::ranges::find(is_repeated, true) != is_repeated.end()) {
      std::vector<Document::Member> members;
      for (size_t i = 0; i < is_repeated.size(); ++i)
        if (!is_repeated[i]) members.push_back(std::move(value.members[i]));
      value.members = std::move(members);
      order = sorted();
    }
    value.by_name = std::move(order);
  }

  Document document_;
  std::vector<Document::Place> open_;
  std::string name_;
  Result<> error_;
};

Result<Document> Document::parse(std::string_view text) { return DocumentReader().read(text); }

Document::Place Document::member(Place place, std::string_view name) const {
  const Value& value = values_[place];
  const auto name_of = [&](uint32_t i) -> std::string_view { return value.members[i].name; };
  const auto found = std::ranges::lower_bound(value.by_name, name, {}, name_of);
  return found == value.by_name.end() || name_of(*found) != name ? kNone : value.members[*found].value;
}

std::string Document::pointer(Place place) const {
  std::vector<std::string> steps;
  for (; parent(place) != kNone; place = parent(place)) {
    const Value& above = values_[parent(place)];
    if (above.kind == Kind::array) {
      steps.push_back(std::to_string(std::ranges::find(above.elements, place) - above.elements.begin()));
      continue;
    }
    std::string step;
    for (const char c : std::ranges::find(above.members, place, &Member::value)->name)
      step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    steps.push_back(std::move(step));
  }
  std::string pointer;
  for (size_t i = steps.size(); i-- > 0;) pointer += "/" + steps[i];
  return pointer;
}

Document::Place Document::find(Place from, std::string_view pointer) const {
  while (!pointer.empty()) {
    if (pointer[0] != '/') return kNone;
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    std::string step;
    for (size_t i = 0; i < end; ++i) {
      const bool is_escape = pointer[i] == '~' && i + 1 < end;
      if (is_escape) ++i;
      step += is_escape ? (pointer[i] == '0' ? '~' : '/') : pointer[i];
    }
    pointer.remove_prefix(end);
    if (is(from, Kind::object)) {
      from = member(from, step);
    } else if (is(from, Kind::array)) {
      const auto index = Decimal::parse(step);
      const bool is_index = index && index->is_integer() && index->integer == step && step.size() < 10;
      const size_t i = is_index ? std::stoul(step) : SIZE_MAX;
      from = i < elements(from).size() ? elements(from)[i] : kNone;
    } else {
      return kNone;
    }
    if (from == kNone) return kNone;
  }
  return from;
}

}  // namespace tessera::text::grammar
