#include "tessera/cli/key_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr char kEsc = '\x1b';
constexpr size_t kMaxSequenceBytes = 64;
constexpr std::string_view kPasteEnd = "\x1b[201~";

struct NamedKey {
  int number;
  KeyCode code;
};

// CSI NUMBER ~, and kitty's numbers in CSI NUMBER u.
constexpr NamedKey kTildeKeys[] = {{1, KeyCode::home}, {2, KeyCode::insert},  {3, KeyCode::erase},
                                   {4, KeyCode::end},  {5, KeyCode::page_up}, {6, KeyCode::page_down},
                                   {7, KeyCode::home}, {8, KeyCode::end}};
constexpr NamedKey kNumberedKeys[] = {{9, KeyCode::tab},         {13, KeyCode::enter},    {27, KeyCode::escape},
                                      {127, KeyCode::backspace}, {57414, KeyCode::enter}, {8, KeyCode::backspace}};
// CSI LETTER and SS3 LETTER.
constexpr NamedKey kLetterKeys[] = {{'A', KeyCode::up},   {'B', KeyCode::down}, {'C', KeyCode::right},
                                    {'D', KeyCode::left}, {'H', KeyCode::home}, {'F', KeyCode::end}};
constexpr std::pair<KeyCode, std::string_view> kNames[] = {{KeyCode::enter, "Enter"},
                                                           {KeyCode::tab, "Tab"},
                                                           {KeyCode::backspace, "Backspace"},
                                                           {KeyCode::erase, "Delete"},
                                                           {KeyCode::escape, "Esc"},
                                                           {KeyCode::up, "Up"},
                                                           {KeyCode::down, "Down"},
                                                           {KeyCode::left, "Left"},
                                                           {KeyCode::right, "Right"},
                                                           {KeyCode::home, "Home"},
                                                           {KeyCode::end, "End"},
                                                           {KeyCode::insert, "Insert"},
                                                           {KeyCode::page_up, "PageUp"},
                                                           {KeyCode::page_down, "PageDown"},
                                                           {KeyCode::paste, "Paste"}};

std::optional<KeyCode> find_key(std::span<const NamedKey> table, int number) {
  const auto found = std::ranges::find(table, number, &NamedKey::number);
  if (found == table.end()) return std::nullopt;
  return found->code;
}

// Parameters of a control sequence: "1;5", "97:65;5:1". Sub-parameters follow a colon.
struct CsiParameters {
  std::array<int, 3> first{};   // of each parameter
  std::array<int, 3> second{};  // sub-parameter
};

CsiParameters read_parameters(std::string_view text) {
  CsiParameters all;
  size_t index = 0, sub = 0;
  for (const char c : text) {
    if (c == ';') ++index, sub = 0;
    if (c == ':') ++sub;
    if (c < '0' || c > '9' || index >= all.first.size() || sub > 1) continue;
    int& number = sub == 0 ? all.first[index] : all.second[index];
    number = std::min(number * 10 + (c - '0'), 0x10FFFF);
  }
  return all;
}

void set_modifiers(Key& key, int parameter) {
  const int bits = parameter > 0 ? parameter - 1 : 0;
  key.has_shift |= (bits & 1) != 0;
  key.has_alt |= (bits & 2) != 0;
  key.has_ctrl |= (bits & 4) != 0;
}

std::optional<Key> numbered_key(int number) {
  if (const auto code = find_key(kNumberedKeys, number)) return Key{.code = *code};
  const bool is_private = number >= 0xE000 && number <= 0xF8FF;  // kitty's numbers of other keys
  if (number < 0x20 || is_private) return std::nullopt;
  Key key;
  text::append_utf8(static_cast<uint32_t>(number), key.text);
  key.text = text::to_valid_utf8(key.text);
  return key;
}

std::optional<Key> tilde_key(int number) {
  if (const auto code = find_key(kTildeKeys, number)) return Key{.code = *code};
  if (number < 11 || number > 24 || number == 16 || number == 22) return std::nullopt;
  const int n_gaps = (number > 16 ? 1 : 0) + (number > 22 ? 1 : 0);  // F5 is 15 and F6 is 17
  return Key{.code = KeyCode::function, .text = std::to_string(number - 10 - n_gaps)};
}

std::optional<Key> letter_key(char letter) {
  if (const auto code = find_key(kLetterKeys, letter)) return Key{.code = *code};
  if (letter >= 'P' && letter <= 'S')
    return Key{.code = KeyCode::function, .text = std::string(1, static_cast<char>('1' + letter - 'P'))};
  if (letter == 'M') return Key{.code = KeyCode::enter};  // of the keypad
  if (letter == 'Z') return Key{.code = KeyCode::tab, .has_shift = true};
  return std::nullopt;
}

// Drops the bytes at the end that begin a character.
void drop_cut_character(std::string& text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    const auto step = text::next_utf8(std::string_view(text).substr(text.size() - n));
    if (step.state != text::Utf8State::incomplete) continue;
    text.resize(text.size() - n);
    return;
  }
}

}  // namespace

std::string key_name(const Key& key) {
  std::string name;
  if (key.has_ctrl) name += "Ctrl-";
  if (key.has_alt) name += "Alt-";
  const bool is_character = key.code == KeyCode::character;
  if (key.has_shift && !is_character) name += "Shift-";
  if (key.code == KeyCode::function) return name + "F" + key.text;
  if (is_character) {
    const bool is_letter = key.text.size() == 1 && key.text[0] >= 'a' && key.text[0] <= 'z' && !name.empty();
    return name + (is_letter ? std::string(1, static_cast<char>(key.text[0] - 0x20)) : key.text);
  }
  for (const auto& [code, text] : kNames)
    if (code == key.code) return name + std::string(text);
  return name;
}

void KeyDecoder::feed(std::string_view bytes) {
  for (const char c : bytes) step(c);
}

std::optional<Key> KeyDecoder::next() {
  if (keys_.empty()) return std::nullopt;
  Key key = std::move(keys_.front());
  keys_.pop_front();
  return key;
}

bool KeyDecoder::pending() const { return state_ != State::ground && state_ != State::paste; }

void KeyDecoder::flush() {
  if (!pending()) return;
  const State state = state_;
  const bool is_bare = sequence_.empty() && n_string_ == 0;
  const char introducer = introducer_;
  if (state == State::utf8) emit_character(std::string(text::kReplacementCharacter));
  if (state == State::escape) emit({.code = KeyCode::escape});
  const bool is_alt = is_bare && (state == State::csi || state == State::ss3 || state == State::string);
  has_alt_ = is_alt;
  if (is_alt) emit_character(std::string(1, introducer));
  restart(State::ground);
}

void KeyDecoder::restart(State state) {
  state_ = state;
  sequence_.clear();
  n_string_ = 0;
  if (state == State::ground) has_alt_ = false;
}

void KeyDecoder::emit(Key key) {
  key.has_alt |= has_alt_;
  has_alt_ = false;
  keys_.push_back(std::move(key));
}

void KeyDecoder::emit_character(std::string text) { emit({.text = std::move(text)}); }

void KeyDecoder::emit_control(char c) {
  if (c == '\r') return emit({.code = KeyCode::enter});
  if (c == '\t') return emit({.code = KeyCode::tab});
  if (c == '\x7f' || c == '\b') return emit({.code = KeyCode::backspace});
  const bool is_letter = c >= 1 && c <= 26;
  const char sign = c == 0 ? ' ' : static_cast<char>(c + (is_letter ? 0x60 : 0x40));
  emit({.text = std::string(1, sign), .has_ctrl = true});
}

void KeyDecoder::step(char c) {
  switch (state_) {
    case State::ground:
      return ground(c);
    case State::escape:
      return after_escape(c);
    case State::csi:
      return in_csi(c);
    case State::utf8:
      return in_utf8(c);
    case State::paste:
      return in_paste(c);
    case State::console:
      return restart(State::ground);  // F1 to F5 of the Linux console
    case State::mouse:
      if (++n_string_ == 3) restart(State::ground);
      return;
    case State::ss3: {
      if (c >= '0' && c <= '9') return sequence_.size() < kMaxSequenceBytes ? sequence_.push_back(c) : void();
      std::optional<Key> key = letter_key(c >= 'a' && c <= 'd' ? static_cast<char>(c - 0x20) : c);
      if (key && c >= 'a') key->has_ctrl = true;  // rxvt
      if (key) set_modifiers(*key, read_parameters(sequence_).first[0]);
      if (key) emit(std::move(*key));
      return restart(State::ground);
    }
    case State::string:
      if (c == '\a') return restart(State::ground);
      if (c == kEsc) state_ = State::string_escape;
      ++n_string_;
      return;
    case State::string_escape:
      if (c == '\\') return restart(State::ground);
      restart(State::escape);
      return step(c);
  }
}

void KeyDecoder::ground(char c) {
  if (c == kEsc) return restart(State::escape);
  const auto byte = static_cast<uint8_t>(c);
  if (byte < 0x20 || byte == 0x7F) return emit_control(c);
  if (byte < 0x80) return emit_character(std::string(1, c));
  sequence_.clear();
  state_ = State::utf8;
  in_utf8(c);
}

void KeyDecoder::after_escape(char c) {
  introducer_ = c;
  if (c == '[') return restart(State::csi);
  if (c == 'O') return restart(State::ss3);
  if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X') return restart(State::string);
  if (c == kEsc) {  // Alt with a sequence, or Esc twice
    if (has_alt_) emit({.code = KeyCode::escape});
    has_alt_ = true;
    return;
  }
  has_alt_ = true;
  state_ = State::ground;
  ground(c);
}

void KeyDecoder::in_csi(char c) {
  const auto byte = static_cast<uint8_t>(c);
  if (c == kEsc) return restart(State::escape);  // the sequence was cut off
  if (byte < 0x20 || byte > 0x7E) return restart(State::ground);
  if (sequence_.empty() && c == '[') return restart(State::console);
  if (sequence_.empty() && c == 'M') return restart(State::mouse);
  const bool is_rxvt = c == '$' && !sequence_.empty() && sequence_.back() >= '0' && sequence_.back() <= '9';
  if (byte >= 0x40 || is_rxvt) return finish_csi(c);
  if (sequence_.size() < kMaxSequenceBytes) sequence_ += c;
}

void KeyDecoder::finish_csi(char final) {
  const CsiParameters parameters = read_parameters(sequence_);
  const bool is_private = !sequence_.empty() && sequence_[0] >= '<';
  const int number = parameters.first[0];
  if (final == '~' && number == 200) {
    is_cut_ = false;
    return restart(State::paste);
  }
  constexpr int kRelease = 3;
  std::optional<Key> key;
  int modifiers = parameters.first[1];
  if (is_private || parameters.second[1] == kRelease) {
    key = std::nullopt;
  } else if (final == 'u') {
    key = numbered_key(number);
  } else if (final == '~' && number == 27) {
    key = numbered_key(parameters.first[2]);
  } else if (final == '~' || final == '^' || final == '$' || final == '@') {
    key = tilde_key(number);  // rxvt: ^ is Ctrl, $ is Shift, @ is both
    if (key && (final == '$' || final == '@')) key->has_shift = true;
    if (key && (final == '^' || final == '@')) key->has_ctrl = true;
  } else if (final >= 'a' && final <= 'd') {
    key = letter_key(static_cast<char>(final - 0x20));
    if (key) key->has_shift = true;  // rxvt
  } else {
    key = letter_key(final);
  }
  if (key) set_modifiers(*key, modifiers);
  if (key) emit(std::move(*key));
  restart(State::ground);
}

void KeyDecoder::in_utf8(char c) {
  sequence_ += c;
  const auto step = text::next_utf8(sequence_);
  if (step.state == text::Utf8State::incomplete) return;
  const bool is_valid = step.state == text::Utf8State::valid;
  const std::string rest = sequence_.substr(step.n_bytes);  // a byte that begins something else
  emit_character(is_valid ? sequence_ : std::string(text::kReplacementCharacter));
  restart(State::ground);
  for (const char again : rest) ground(again);
}

void KeyDecoder::in_paste(char c) {
  sequence_ += c;
  if (c == kPasteEnd.back() && sequence_.ends_with(kPasteEnd)) return finish_paste();
  // Keeps the bytes that may begin the end mark, and drops what is above the limit before them.
  if (sequence_.size() <= max_paste_bytes_ + kPasteEnd.size()) return;
  is_cut_ = true;
  sequence_.erase(max_paste_bytes_, 1);
}

void KeyDecoder::finish_paste() {
  sequence_.resize(sequence_.size() - kPasteEnd.size());
  is_cut_ |= sequence_.size() > max_paste_bytes_;
  sequence_.resize(std::min(sequence_.size(), max_paste_bytes_));
  std::string text;
  text.reserve(sequence_.size());
  for (size_t i = 0; i < sequence_.size(); ++i) {
    if (sequence_[i] == '\n' && i > 0 && sequence_[i - 1] == '\r') continue;
    text += sequence_[i] == '\r' ? '\n' : sequence_[i];
  }
  has_alt_ = false;
  if (is_cut_) drop_cut_character(text);
  emit({.code = KeyCode::paste, .text = text::to_valid_utf8(text), .is_cut = is_cut_});
  restart(State::ground);
}

}  // namespace tessera::cli
