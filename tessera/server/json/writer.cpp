// Texts are copied in runs that need no escape. Numbers are those of std::to_chars.
#include "tessera/server/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/text/utf8.h"

namespace tessera::server {
namespace {

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

void append_escape(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<size_t>(c) >> 4];
      out += kHex[static_cast<size_t>(c) & 15];
  }
}

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), result.ptr);
}

// Readers take "-0" for an integer, which has no negative zero.
template <class T>
void append_real(std::string& out, T value) {
  if (value == 0 && std::signbit(value)) {
    out += "-0.0";
  } else {
    append_number(out, value);
  }
}

/// Writes a tree depth first with a stack of the open containers.
class TreeWriter {
 public:
  explicit TreeWriter(JsonWriter& writer) : writer_(writer) {}

  void write(const Json& root) {
    open(root);
    while (!open_.empty()) {
      if (open_.back().at == open_.back().container->end()) {
        close();
      } else {
        const auto at = open_.back().at++;
        if (open_.back().container->is_object()) writer_.key(at.key());
        open(*at);
      }
    }
  }

 private:
  struct Open {
    const Json* container;
    Json::const_iterator at;
  };

  void open(const Json& value) {
    if (!value.is_structured()) return write_scalar(value);
    if (value.is_object()) {
      writer_.begin_object();
    } else {
      writer_.begin_array();
    }
    open_.push_back({&value, value.begin()});
  }

  void close() {
    if (open_.back().container->is_object()) {
      writer_.end_object();
    } else {
      writer_.end_array();
    }
    open_.pop_back();
  }

  void write_scalar(const Json& value) {
    if (value.is_string()) {
      writer_.value(std::string_view(value.get_ref<const std::string&>()));
    } else if (value.is_boolean()) {
      writer_.value(value.get<bool>());
    } else if (value.is_number_unsigned()) {
      writer_.value(value.get<uint64_t>());
    } else if (value.is_number_integer()) {
      writer_.value(value.get<int64_t>());
    } else if (value.is_number_float()) {
      writer_.value(value.get<double>());
    } else {
      writer_.value(nullptr);
    }
  }

  JsonWriter& writer_;
  std::vector<Open> open_;
};

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t n_plain = 0;
    while (n_plain < text.size() && is_plain(text[n_plain])) ++n_plain;
    out += text.substr(0, n_plain);
    text.remove_prefix(n_plain);
    if (text.empty()) break;
    size_t n_bytes = 1;
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      append_escape(out, text[0]);
    } else {
      const text::Utf8Step step = text::next_utf8(text);
      n_bytes = step.n_bytes;
      out += step.state == text::Utf8State::valid ? text.substr(0, n_bytes) : text::kReplacementCharacter;
    }
    text.remove_prefix(n_bytes);
  }
  out += '"';
}

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  needs_comma_ = false;
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_text(out_, name);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_json_text(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool value) { return raw(value ? "true" : "false"); }

JsonWriter& JsonWriter::value(std::nullptr_t) { return raw("null"); }

JsonWriter& JsonWriter::value(float value) {
  if (!std::isfinite(value)) return raw("null");
  separate();
  append_real(out_, value);
  return *this;
}

JsonWriter& JsonWriter::value(double value) {
  if (!std::isfinite(value)) return raw("null");
  separate();
  append_real(out_, value);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::unsigned_integer(uint64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::tree(const Json& tree) {
  TreeWriter(*this).write(tree);
  return *this;
}

JsonWriter& JsonWriter::logprob(double log_probability) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  if (log_probability < static_cast<double>(kLowest)) return value(kLowest);
  return value(static_cast<float>(log_probability));
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

std::string json_text(const Json& tree) {
  std::string out;
  JsonWriter(out).tree(tree);
  return out;
}

}  // namespace tessera::server
