// Keys from the bytes that a terminal sends: a state machine without waits. The terminal feeds it and the line editor
// takes the keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::cli {

enum class KeyCode : uint8_t {
  character,  // text: the character as UTF-8; with ctrl: a lower-case letter or a sign such as "_"
  enter,
  tab,
  backspace,
  erase,  // "Delete"
  escape,
  up,
  down,
  left,
  right,
  home,
  end,
  insert,
  page_up,
  page_down,
  function,  // text: its number
  paste,     // text: the pasted text with "\n" for line breaks
};

struct Key {
  KeyCode code = KeyCode::character;
  std::string text = {};
  bool has_shift = false, has_alt = false, has_ctrl = false;
  bool is_cut = false;  // a paste whose end was dropped (kMaxPasteBytes)

  bool operator==(const Key&) const = default;
};

inline constexpr size_t kMaxPasteBytes = size_t{8} << 20;

/// The name of a key as edit_keys.def writes it: "Ctrl-A", "Alt-Enter", "Up". A plain character is its own name.
std::string key_name(const Key& key);

/// Understands UTF-8, C0 controls, Alt as an ESC prefix, CSI and SS3 sequences of xterm, rxvt and the Linux console,
/// the key forms "CSI u" (kitty) and "CSI 27;..~" (xterm), and bracketed paste. Unknown sequences are dropped whole.
/// Text is valid UTF-8: other bytes become U+FFFD.
class KeyDecoder {
 public:
  explicit KeyDecoder(size_t max_paste_bytes = kMaxPasteBytes) : max_paste_bytes_(max_paste_bytes) {}

  void feed(std::string_view bytes);

  /// Takes the oldest complete key.
  std::optional<Key> next();

  /// True if bytes wait for more: an ESC alone, or an incomplete sequence. False inside a paste, which ends by itself.
  bool pending() const;

  /// Turns waiting bytes into keys: ESC is the key Escape, or Alt with the next byte. Drops an incomplete sequence.
  void flush();

 private:
  enum class State : uint8_t { ground, escape, csi, console, mouse, ss3, string, string_escape, utf8, paste };

  void step(char c);
  void ground(char c);
  void after_escape(char c);
  void in_csi(char c);
  void in_utf8(char c);
  void in_paste(char c);
  void finish_csi(char final);
  void finish_paste();
  void emit(Key key);
  void emit_control(char c);
  void emit_character(std::string text);
  void restart(State state);

  size_t max_paste_bytes_;
  std::deque<Key> keys_;
  State state_ = State::ground;
  bool has_alt_ = false;  // an ESC came before
  bool is_cut_ = false;   // of the paste
  char introducer_ = 0;   // of a control string, such as ']'
  size_t n_string_ = 0;   // bytes of the control string or mouse report
  std::string sequence_;  // parameters, or bytes of a character, or the paste
};

}  // namespace tessera::cli
